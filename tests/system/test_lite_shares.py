"""How lite pull consumers of a group share queues, and where a group that is new begins in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import AllocateByConfig
from rocketpy.message import MessageQueue
from rocketpy.results import ConsumeFromWhere
from rocketpy.seams import wall_ms
from tests.system.consuming import drain, queues_of, wait_until, world


@pytest.mark.parametrize("strategy", ["averagely", "by_circle", "consistent_hash"])
async def test_a_group_shares_by_the_strategy_that_is_named(autojump_clock: MockClock, strategy: str) -> None:
    async with world(queues=8) as w:
        one, two = (w.lite(allocate_strategy=strategy) for _ in range(2))
        for each in (one, two):
            each.subscribe("Orders")
        async with one, two:
            await wait_until(lambda: sorted(one.assignment + two.assignment) == queues_of(8))
            numbers = sorted(sorted(queue.queue_id for queue in each.assignment) for each in (one, two))
            if strategy == "averagely":
                assert numbers == [[0, 1, 2, 3], [4, 5, 6, 7]]
            if strategy == "by_circle":
                assert numbers == [[0, 2, 4, 6], [1, 3, 5, 7]]


async def test_a_strategy_of_ones_own_choice(autojump_clock: MockClock) -> None:
    mine = queues_of(4)[1:3]
    async with world() as w:
        consumer = w.lite(allocate_strategy=AllocateByConfig(mine))
        consumer.subscribe("Orders")
        async with consumer:
            assert consumer.assignment == tuple(mine)


@pytest.mark.parametrize("kind", ["lite", "push"])
async def test_a_closed_consumer_has_no_queues(autojump_clock: MockClock, kind: str) -> None:
    async with world() as w:
        consumer = w.lite() if kind == "lite" else w.consumer()
        if kind == "lite":
            consumer.subscribe("Orders")
        else:
            consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await wait_until(lambda: sorted(consumer.assignment) == queues_of(4))
        assert consumer.assignment == ()


class Nothing:
    """A store without a single offset: brokers would answer 0 for queues that still have their first message."""

    async def read(self, queue: MessageQueue) -> None:
        return None

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "said", [lambda at: at, lambda at: at.strftime("%Y%m%d%H%M%S"), lambda at: int(at.timestamp()) * 1000]
)
@pytest.mark.parametrize(("where", "first"), [("FIRST_OFFSET", b"0"), ("TIMESTAMP", b"4"), ("LAST_OFFSET", b"8")])
async def test_where_a_new_group_begins(
    autojump_clock: MockClock, where: str, first: bytes, said: Callable[[datetime], Any]
) -> None:
    async with world(queues=1) as w:
        await w.send(4)
        await trio.sleep(100)
        moment = datetime.fromtimestamp(wall_ms() / 1000).astimezone()
        await trio.sleep(2)
        await w.send(4, start=4)
        consumer = w.lite(
            consume_from_where=ConsumeFromWhere[f"CONSUME_FROM_{where}"],
            consume_timestamp=said(moment),
            offset_store=Nothing(),
        )
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(1, start=8)
            assert (await drain(consumer, 1))[0].body == first
