"""The store with timers of Apache's broker: opened unchanged, and reproduced from its messages byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.timer import TimerCheckpoint
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.broker.tables.timer_metrics import TimerMetricsTable
from rocketpy_broker_sim.broker.timer.clock import TimerClock
from rocketpy_broker_sim.broker.timer.delivery import Delivery
from rocketpy_broker_sim.broker.timer.dequeue import Dequeue
from rocketpy_broker_sim.broker.timer.enqueue import Enqueue
from rocketpy_broker_sim.broker.timer.parts import TimerParts
from rocketpy_broker_sim.broker.timer.waiting import OpenSlots
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.steps import finish
from rocketpy_broker_sim.store.timer.store import TimerStore
from tests.broker_sim.store.golden import GoldenStore
from tests.broker_sim.store.timer.kit import golden_file

NAME = "5.3.3-timer"
LOG = "timerlog/00000000000000000000"
TAKEN_AT = 1_795_249_203_000
READ_UP_TO = 1_795_249_226_000
WAITING = {203402: 2, 203403: 2, 204603: 1, 206403: 0, 289203: 2, 375603: 1}
"""Count of each slot that waits, by its place in the wheel."""


@pytest.fixture(scope="module")
def wheel() -> bytes:
    return golden_file("timerwheel")


def opened(folder: Path, *without: str) -> tuple[MessageStore, TimerStore]:
    golden = GoldenStore(NAME, folder)
    for name in without:
        (golden.root / name).unlink()
    store = golden.open()
    return store, TimerStore(RealStorage(golden.root), golden.config, store)


@pytest.mark.parametrize("has_wheel", [True, False])
def test_DL4_apaches_wheel_log_and_checkpoint_are_read(tmp_path: Path, wheel: bytes, has_wheel: bool) -> None:
    store, timers = opened(tmp_path)
    if has_wheel:
        (tmp_path / NAME / "timerwheel").write_bytes(wheel)
    timers.load(READ_UP_TO + 5000)
    assert (timers.queue_offset, timers.log.end, timers.read_ms(READ_UP_TO)) == (13, 676, READ_UP_TO)
    slots = timers.wheel.slots
    assert {tick % 1_209_600: slot.messages for tick, slot in slots.items()} == WAITING
    positions = {tick % 1_209_600: [u.position for u in finish(timers.units_steps(s))] for tick, s in slots.items()}
    assert positions == {
        203402: [5542, 6330], 203403: [644, 5966], 204603: [2660], 206403: [970, 1298], 289203: [1666, 1996],
        375603: [2328],
    }  # fmt: skip
    timers.close()
    store.close()


@pytest.mark.slow
def test_DL4_from_apaches_messages_comes_apaches_timer_to_the_byte(tmp_path: Path, wheel: bytes) -> None:
    store, timers = opened(tmp_path, LOG, "config/timercheck", "config/timermetrics", "config/timermetrics.bak")
    root = tmp_path / NAME
    now = TAKEN_AT + 700
    with wall_clock(lambda: now):
        timers.load(now)
        timers.take_up_to(store.reads.min_offset(TIMER_TOPIC, 0))
        clock = TimerClock(lambda: (now - TAKEN_AT) / 1000)
        metrics = TimerMetricsTable(RealStorage(root))
        commit = store.commit_pending
        parts = TimerParts(store.config, store, timers, OpenSlots(), clock, metrics, commit)
        delivery = Delivery(store)
        enqueue, dequeue = Enqueue(parts, delivery), Dequeue(parts, delivery)
        while enqueue.behind:
            assert enqueue.take(32)
        store.flushing.commit_log.flush()
        timers.flush(timers.prepare(now))
        assert (root / LOG).read_bytes() == golden_file(LOG)
        assert (root / "timerwheel").read_bytes() == wheel
        now = READ_UP_TO
        while dequeue.open_due() or dequeue.deliver_due(32):
            pass
        dequeue.close_passed()
        timers.flush(timers.prepare(now))
        check = TimerCheckpoint.decode((root / "config/timercheck").read_bytes()[:56])
        golden = TimerCheckpoint.decode(golden_file("config/timercheck")[:56])
        check.data_version = golden.data_version  # a time, and how often it was written
        assert check == golden
        assert (metrics.count("GS_T"), metrics.count("rmq_sys_REVIVE_LOG_GoldenCluster")) == (5, 3)
    timers.close()
    store.close()


def test_apaches_counts_are_read_and_written_as_it_writes_them(tmp_path: Path) -> None:
    golden = GoldenStore(NAME, tmp_path)
    metrics = TimerMetricsTable(RealStorage(golden.root))
    assert metrics.load()
    assert metrics.encode() == golden_file("config/timermetrics")
