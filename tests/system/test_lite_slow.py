"""Lite pull consumers of programs that take their time: little is held, nothing is lost, and no queue stands still."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
LIMIT = 20
BATCH = 32


@pytest.mark.slow
@pytest.mark.parametrize("acknowledges", [False, True])
async def test_who_polls_slowly_for_minutes_loses_nothing(autojump_clock: MockClock, acknowledges: bool) -> None:
    async with world() as w:
        consumer = w.lite(consume_from_where=FIRST, pull_batch_size=BATCH, pull_threshold_for_queue=LIMIT)
        consumer.subscribe("Orders")
        sent = await w.send(600)
        got: list[MessageExt] = []
        async with consumer:
            with trio.fail_after(3600):
                while len(got) < len(sent):
                    held = {each.held_messages for each in consumer.status().queues.values()}
                    assert max(held) <= LIMIT + BATCH
                    messages = await consumer.poll(5)
                    got += messages
                    await trio.sleep(10)
                    for message in messages if acknowledges else ():
                        consumer.ack(message)
            assert Counter(message.body for message in got) == dict.fromkeys(sent, 1)
            for queue in consumer.assignment:
                offsets = [message.queue_offset for message in got if message.queue == queue]
                assert offsets == sorted(offsets)
            assert await consumer.poll(timeout=6) == []
            await wait_until(lambda: {each.commit_offset for each in consumer.status().queues.values()} == {150})


@pytest.mark.slow
async def test_who_does_not_poll_at_all_has_no_more_held_than_the_limits_of_queues_and_of_all(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        await w.send(1200)
        consumer = w.lite(
            consume_from_where=FIRST, pull_batch_size=BATCH, pull_threshold_for_queue=100, pull_threshold_for_all=150
        )
        consumer.subscribe("Orders")
        async with consumer:
            await trio.sleep(600)
            queues = consumer.status().queues.values()
            assert 150 < sum(each.held_messages for each in queues) <= 150 + len(queues) * BATCH
            assert all("over 1" in str(each.paused) for each in queues)
            got = 0
            with trio.fail_after(60):
                while got < 1200:
                    got += len(await consumer.poll())
            assert got == 1200
