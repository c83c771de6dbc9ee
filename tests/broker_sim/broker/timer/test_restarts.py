"""A broker with timers that stops, is killed, or whose disk fails: no message is lost, and few are repeated."""

from __future__ import annotations

import errno

import pytest
import trio
from trio.testing import MockClock

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.timer.timer_kit import EPOCH, Timed, timed, wall

LOG = "commitlog/00000000000000000000"


async def send_each_tenth(setup: Timed, count: int, begin: int) -> list[str]:
    """Messages that are due a tenth of a second apart."""
    for number in range(count):
        await setup.send_at(begin + number * 100 + 50, unique=f"U{number}")
    return [f"U{number}" for number in range(count)]


def keys(setup: Timed) -> list[str]:
    return [message.wire_properties["UNIQ_KEY"] for message in setup.messages()]


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [0.2, 4.97, 5.02, 5.5, 5.96, 6.0, 6.31, 30])
async def test_DL3_a_stop_in_the_middle_of_a_second_loses_none_and_repeats_none(
    autojump_clock: MockClock, stop_after: float
) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        sent = await send_each_tenth(setup, 40, EPOCH + 5000)
        await trio.sleep(stop_after - trio.current_time())
    async with timed(storage) as setup:
        await trio.sleep(30)
        assert sorted(keys(setup)) == sorted(sent)


@pytest.mark.slow
@pytest.mark.parametrize("stops", [3, 17])
async def test_DL3_many_stops_lose_none_and_repeat_none(autojump_clock: MockClock, stops: int) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        sent = await send_each_tenth(setup, 40, EPOCH + 3000)
    for number in range(stops):
        async with timed(storage) as setup:
            await trio.sleep(0.37)
            sent.append(f"V{number}")
            await setup.send_at(wall() + 200, unique=f"V{number}")
    async with timed(storage) as setup:
        await trio.sleep(30)
        assert sorted(keys(setup)) == sorted(sent)
        assert setup.broker.timers.metrics.count("T") == 0


@pytest.mark.parametrize("kill_after", [0.2, 4.97, 5.5, 6.0, 6.31, 30])
async def test_DL3_a_kill_loses_none_and_repeats_only_the_last_seconds(
    autojump_clock: MockClock, kill_after: float
) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        sent = await send_each_tenth(setup, 40, EPOCH + 5000)
        await trio.sleep(kill_after - trio.current_time())
        left, killed_at = storage.clone(), wall()
    async with timed(left) as setup:
        await trio.sleep(30)
        found = keys(setup)
        assert set(found) == set(sent)
        again = {key for key in found if found.count(key) > 1}
        due = {f"U{number}": EPOCH + 5050 + number * 100 for number in range(40)}
        assert all(killed_at - 2100 <= due[key] <= killed_at for key in again)


@pytest.mark.parametrize("down", [10, 3600, 8 * 24 * 3600])
async def test_DL3_what_became_due_meanwhile_is_delivered_at_the_start(autojump_clock: MockClock, down: float) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        sent = await send_each_tenth(setup, 40, EPOCH + 5000)
    await trio.sleep(down)
    async with timed(storage) as setup:
        await trio.sleep(0.5)
        assert sorted(keys(setup)) == sorted(sent)


async def test_DL3_a_message_that_was_not_taken_before_a_kill_is_not_lost(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with timed(storage, timer_stop_enqueue=True) as setup:
        await send_each_tenth(setup, 5, EPOCH + 5000)
        left = storage.clone()
    async with timed(left) as setup:
        await trio.sleep(10)
        assert len(keys(setup)) == 5


@pytest.mark.parametrize("under", ["commitlog", "timerlog"])
async def test_DL3_a_disk_that_is_full_for_a_while_loses_none_and_repeats_none(
    autojump_clock: MockClock, under: str
) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        sent = await send_each_tenth(setup, 40, EPOCH + 5000)
        with storage.failing("pwrite", code=errno.ENOSPC, under=under):
            await trio.sleep(6 - trio.current_time())
        await trio.sleep(60)
        assert sorted(keys(setup)) == sorted(sent)
        assert setup.broker.timers.metrics.count("T") == 0


async def test_a_disk_that_does_not_flush_for_a_while_is_made_up_for(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        with storage.failing("fdatasync", code=errno.EIO, under="timerwheel"):
            sent = await send_each_tenth(setup, 10, EPOCH + 9000)
            await trio.sleep(5 - trio.current_time())
        await trio.sleep(2)
        left = storage.clone()
    async with timed(left) as setup:
        await trio.sleep(30)
        assert sorted(keys(setup)) == sorted(sent)


async def test_a_damaged_message_is_left_out_and_the_others_come(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    async with timed(storage, enabled_append_prop_crc=True) as setup:
        await setup.send("T", b"first", "U0", TIMER_DELIVER_MS=str(EPOCH + 9000))
        await setup.send("T", b"second", "U1", TIMER_DELIVER_MS=str(EPOCH + 9000))
        await setup.send("T", b"third", "U2", TIMER_DELIVER_MS=str(EPOCH + 9000))
        await trio.sleep(3)
        file = storage.open(LOG)
        file.pwrite(b"SECOND", file.pread(4096, 0).find(b"second"))
        await trio.sleep(30)
        assert setup.bodies() == [b"first", b"third"]
        assert "is damaged and is skipped" in caplog.text
        assert setup.broker.timers.timers.wheel.waiting == 0


async def test_DL4_a_flush_brings_messages_then_log_then_wheel_then_checkpoint(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    flushed: list[str] = []

    def note(operation: str, path: str, size: int) -> None:
        if operation == "fdatasync":
            flushed.append(path)

    async with timed(storage, flush_interval_commit_log=60_000, flush_interval_consume_queue=60_000) as setup:
        storage.fault = note
        await setup.send_at(EPOCH + 60_500)
        await trio.sleep(5)
        storage.fault = None
    wanted = [path for path in flushed if path.startswith((LOG, "timer")) or path.endswith("timercheck")]
    assert wanted == [
        LOG, "timerlog/00000000000000000000", "timerwheel", "config/timercheck",
    ]  # fmt: skip


async def test_without_timers_nothing_of_them_is_written(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        await setup.send()
        await trio.sleep(5)
    assert not storage.exists("timerwheel")
    assert not storage.exists("config/timercheck")
    assert storage.list("timerlog") == []
