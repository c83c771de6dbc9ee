"""How often a message comes again, and which of a batch do."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater
from tests.system.consuming import Recorder, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.mark.parametrize("outcome", [ConsumeResult.RETRY, RetryLater(3), RetryLater(-1), "an exception"])
async def test_RT2_without_retries_the_first_failure_makes_a_dead_letter(
    autojump_clock: MockClock, outcome: object
) -> None:
    def answer(message: MessageExt) -> object:
        if outcome == "an exception":
            raise ValueError(outcome)
        return outcome

    async with world(queues=1) as w:
        got = Recorder(answer)
        consumer = w.consumer(consume_from_where=FIRST, max_reconsume_times=0)
        consumer.subscribe("Orders", got)
        async with consumer:
            sent = await w.send(3)
            await got.wait_count(3)
            await wait_until(lambda: len(w.cluster.dead_letters("billing")) == 3, within=5)
            await trio.sleep(120)
        assert got.bodies == dict.fromkeys(sent, 1)
        assert [message.body for message in w.cluster.dead_letters("billing")] == sent


@pytest.mark.slow
async def test_RT2_sixteen_times_unless_told_otherwise(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: ConsumeResult.RETRY)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(1)
            await got.wait_count(17, within=6 * 3600)
            await trio.sleep(60)
        assert [message.reconsume_times for message in got.messages] == list(range(17))
        assert len(w.cluster.dead_letters("billing")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acknowledged", "again"),
    [
        (None, []),
        (ConsumeResult.SUCCESS, []),
        (5, []),
        (3, [3, 4]),
        (0, [0, 1, 2, 3, 4]),
        (ConsumeResult.RETRY, [0, 1, 2, 3, 4]),
        (6, [0, 1, 2, 3, 4]),  # there are no six: a mistake, and nothing is lost by it
        (-1, [0, 1, 2, 3, 4]),
        (True, []),
        (False, [0, 1, 2, 3, 4]),
    ],
)
async def test_RT4_a_batch_is_acknowledged_up_to_an_index_and_the_rest_comes_again(
    autojump_clock: MockClock, acknowledged: object, again: list[int]
) -> None:
    batches: list[list[int]] = []

    async def listener(messages: list[MessageExt]) -> object:
        batches.append([int(message.body) for message in messages])
        return acknowledged if messages[0].reconsume_times == 0 else None

    async with world(queues=1) as w:
        await w.send(5)
        consumer = w.consumer(consume_from_where=FIRST, consume_message_batch_max_size=5)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(120)
            assert batches[0] == [0, 1, 2, 3, 4]
            assert sorted(number for batch in batches[1:] for number in batch) == again
            assert consumer.statistics().sent_back == len(again)
            assert {each.commit_offset for q, each in consumer.status().queues.items() if q.topic == "Orders"} == {5}
