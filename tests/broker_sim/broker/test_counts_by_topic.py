"""Counts of waiting timer messages and of open transactions: written in slices, and gone with their topic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting import rounds
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.timer import TimerMetrics
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import RecallMessageRequestHeader
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.processors.timers import get_timer_metrics
from rocketpy_broker_sim.broker.tables.timer_metrics import TimerMetricsTable
from rocketpy_broker_sim.broker.tables.transaction_metrics import TransactionMetrics
from rocketpy_broker_sim.serving.slices import SLICE_SECONDS, Steadily
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.broker_sim.broker.timer.timer_kit import EPOCH, handle
from tests.broker_sim.broker.transacting import end, send_half
from tests.virtual_time import loop_time

MANY = 20_000
A_STEP = 16
STEPS_A_SLICE = 20


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


async def delete(client: Client, topic: str = "T") -> None:
    assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})).code == 0


# --- of timer messages -----------------------------------------------------------------------------------


async def counts_of(client: Client) -> dict[str, int]:
    found = TimerMetrics.decode((await client.ask(RequestCode.GET_TIMER_METRICS)).body)
    return {topic: metric.count for topic, metric in found.timing_count.items()}


@pytest.mark.parametrize("count", [0, 1, A_STEP, A_STEP + 1, 3 * A_STEP])
def test_counts_of_timer_messages_are_written_a_few_a_step(count: int) -> None:
    metrics = TimerMetricsTable(MemoryStorage())
    for number in range(count):
        metrics.add(f"T{number}", 1)
    steps = metrics.encode_steps()
    metrics.add("later", 1)
    content, taken = b"", -1
    while not content:
        taken += 1
        try:
            next(steps)
        except StopIteration as stop:
            content = stop.value
    assert [*json.loads(content)["timingCount"]] == [f"T{number}" for number in range(count)]
    assert taken >= count / A_STEP
    again = TimerMetricsTable(MemoryStorage())
    again.decode(content)
    assert again.encode() == content


async def others_meanwhile(broker: Broker, table: TimerMetricsTable | TransactionMetrics) -> int:
    """How often other tasks ran while the counts of many topics were written."""
    for number in range(MANY):
        table.add(f"T{number}", 1)
    ran = 0

    async def count() -> None:
        nonlocal ran
        while True:
            await trio.lowlevel.checkpoint()
            ran += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        if isinstance(table, TimerMetricsTable):
            await broker.timers.service.save()
        else:
            await broker.transactions._write_metrics()
        nursery.cancel_scope.cancel()
    assert not table.changed
    return ran


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["timer", "transactions"])
async def test_others_run_while_counts_are_written(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async with broker_and_client() as (broker, _):
        monkeypatch.setattr(rounds, "clock_here", lambda: Steadily(SLICE_SECONDS / STEPS_A_SLICE))
        metrics = broker.timers.metrics if kind == "timer" else broker.transactions.ledger.metrics
        assert await others_meanwhile(broker, metrics) >= MANY / A_STEP / STEPS_A_SLICE


@pytest.mark.slow
async def test_counts_of_timer_messages_are_told_a_few_a_step(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for number in range(MANY):
            broker.timers.metrics.add(f"T{number}", 1)
        request = RemotingCommand(RequestCode.GET_TIMER_METRICS)
        steps = get_timer_metrics(broker._views.timer, client.connection, request)
        assert sum(1 for _ in steps) >= MANY / A_STEP


async def test_a_recall_without_a_message_leaves_no_count_of_a_deleted_topic(autojump_clock: MockClock) -> None:
    async with broker_and_client(recall_message_enable=True) as (broker, client):
        assert (await client.send()).code == 0
        header = RecallMessageRequestHeader(producer_group="p", topic="T", recall_handle=handle(due=str(EPOCH + 5000)))
        assert (await client.ask(RequestCode.RECALL_MESSAGE, header.to_ext())).code == 0
        await trio.sleep(2)
        assert broker.timers.metrics.count("T") == -1
        await delete(client)
        await trio.sleep(10)
        assert "T" not in broker.timers.metrics._counts


@pytest.mark.parametrize("again", [False, True])
async def test_the_timer_counts_nothing_of_a_topic_that_was_deleted(autojump_clock: MockClock, again: bool) -> None:
    async with broker_and_client() as (broker, client):
        for topic in ("T", "Other"):
            assert (await client.send(topic, b"x", "TIMER_DELAY_SEC\x019\x02")).code == 0
        await trio.sleep(2)
        assert await counts_of(client) == {"T": 1, "Other": 1}
        await delete(client)
        assert await counts_of(client) == {"Other": 1}
        if again:
            assert (await client.send("T")).code == 0
            assert await counts_of(client) == {"T": 1, "Other": 1}  # it will get the message
        await trio.sleep(15)
        assert await counts_of(client) == {"Other": 0} | ({"T": 0} if again else {})
        await delete(client, "Other")
        assert "Other" not in broker.timers.metrics._counts


# --- of transactions -------------------------------------------------------------------------------------


async def test_transactions_of_a_topic_that_was_deleted_are_counted_until_they_end(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        halves = [await send_half(client, f"U{number}") for number in range(2)]
        counts = broker.transactions.ledger.metrics.counts
        await delete(client)
        assert counts() == {"T": 2}
        for half in halves:
            assert (await end(client, half)).code == 0
        assert counts() == {}


async def test_a_deleted_topic_without_open_transactions_has_no_count(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        assert (await end(client, half)).code == 0
        counts = broker.transactions.ledger.metrics.counts
        assert counts() == {"T": 0}
        await delete(client)
        assert counts() == {}
