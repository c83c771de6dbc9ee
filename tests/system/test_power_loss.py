"""A broker loses its last messages in a power loss, and consumers that run on stand behind them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.message import MessageQueue
from rocketpy.results import ConsumeFromWhere, PullStatus
from tests.system.consuming import Recorder, World, bodies, drain, queues_of, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
KEPT = 20
(QUEUE,) = queues_of(1)


async def settle() -> None:
    """Let offsets be committed, and written to the disk of the broker."""
    await trio.sleep(16)


async def lose(w: World, lost: int) -> None:
    """Messages that are gone after the broker was started again; new ones come before any consumer is back."""
    disk = w.cluster.storages[0].clone()  # type: ignore[attr-defined]  # in memory
    await w.send(lost, start=1000)
    await trio.sleep(6)
    await w.cluster.kill_broker(0)
    w.cluster.storages[0] = disk
    await w.cluster.start_broker(0)


@pytest.mark.parametrize("new", [5, 25])
@pytest.mark.parametrize("settings", [{}, {"orderly": True}], ids=["concurrent", "orderly"])
async def test_messages_in_the_place_of_lost_ones_reach_members_that_run_on(
    autojump_clock: MockClock, settings: dict[str, Any], new: int
) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, **settings)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(KEPT)
            await settle()
            await lose(w, 10)
            await w.send(new, start=2000)
            await wait_until(lambda: all(b"%d" % (2000 + number) in got.bodies for number in range(new)))
            await settle()
            assert w.cluster.brokers[0].offsets.query("billing", "Orders", 0) == KEPT + new
        assert set(got.bodies.values()) == {1}


async def test_an_administrator_may_send_a_group_beyond(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(KEPT)
            await settle()
            await lose(w, 10)
            await w.send(5, start=2000)
            w.cluster.brokers[0].offsets.assign_resets("billing", "Orders", {0: KEPT + 3})
            await wait_until(lambda: b"2004" in got.bodies)
            await settle()
        assert {b"2002", b"2003", b"2004"} & set(got.bodies) == {b"2003", b"2004"}


async def test_lite_pull_hands_them_out(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.lite(consume_from_where=FIRST) as consumer:
        consumer.subscribe("Orders")
        await w.send(KEPT)
        await drain(consumer, KEPT)
        assert await consumer.poll(timeout=1) == []
        await settle()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain, consumer, 10)
            await lose(w, 10)
        await w.send(5, start=2000)
        assert bodies(await drain(consumer, 5)) == {b"%d" % number: 1 for number in range(2000, 2005)}


async def test_a_program_that_pulls_by_offset_decides_for_itself(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.puller("billing") as puller:
        await w.send(KEPT)
        await puller.update_consume_offset(QUEUE, KEPT)
        await settle()
        await lose(w, 0)
        await w.send(5, start=2000)
        with pytest.raises(BrokerError, match="must pull before it commits"):
            await puller.update_consume_offset(QUEUE, KEPT + 2)
        result = await puller.pull(QUEUE, KEPT + 3)
        assert (result.status, len(result.messages)) == (PullStatus.FOUND, 2)
        await puller.update_consume_offset(QUEUE, KEPT + 2)
        assert await puller.fetch_consume_offset(QUEUE) == KEPT + 2


async def test_a_new_group_starts_where_it_wants(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        await w.send(KEPT)
        await lose(w, 0)
        await w.send(5, start=2000)
        async with w.lite("audit", consume_from_where=FIRST) as consumer:
            consumer.assign([MessageQueue("Orders", "broker-a", 0)])
            await consumer.wait_assigned()
            await consumer.seek(QUEUE, KEPT + 3)
            assert bodies(await drain(consumer, 2)) == {b"2003": 1, b"2004": 1}
