"""The queues of a topic in figures: their ends, how much comes, and between which times groups are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageQueue
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.stats import QueryConsumeTimeSpanBody, TopicOffset, TopicStatsTable
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.processors.topic_stats import get_topic_stats
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.virtual_time import loop_time

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection

EPOCH = 1_800_000_000_000


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


async def stats(client: Client, topic: str = "T") -> TopicStatsTable:
    answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
    assert answer.code == 0, answer.remark
    return TopicStatsTable.decode(answer.body)


async def test_A7_where_the_queues_of_a_topic_end(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for _ in range(3):
            await trio.sleep(1)
            await client.send()
        found = await stats(client)
        queues = [MessageQueue("T", "broker-a", number) for number in range(4)]
        assert list(found.offset_table) == queues
        last = broker.store.reads.store_time("T", 0, 2)
        assert found.offset_table[queues[0]] == TopicOffset(max_offset=3, last_update_timestamp=last)
        assert found.offset_table[queues[1]] == TopicOffset()
        assert found.topic_put_tps == pytest.approx(0.3)


async def test_A7_of_a_topic_with_more_queues_for_reading_all_are_told(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        fields = {"topic": "W", "readQueueNums": "6", "writeQueueNums": "2", "perm": "6", "order": "false"}
        fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG"}
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
        found = await stats(client, "W")
        assert len(found.offset_table) == 6
        assert found.topic_put_tps == 0


async def span(client: Client, group: str = "g") -> QueryConsumeTimeSpanBody:
    answer = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": group})
    assert answer.code == 0, answer.remark
    return QueryConsumeTimeSpanBody.decode(answer.body)


async def test_A7_between_which_times_a_group_consumes(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for _ in range(3):
            await client.send()
            await trio.sleep(1)
        await client.heartbeat("g", "T")
        times = [broker.store.reads.store_time("T", 0, offset) for offset in range(3)]
        now = EPOCH + int(trio.current_time() * 1000)
        first, *others = (await span(client)).consume_time_span_set
        assert len(others) == 3
        assert (first.min_time_stamp, first.max_time_stamp, first.consume_time_stamp) == (times[0], times[2], times[0])
        assert first.delay_time == pytest.approx(now - times[0], abs=10)
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "2"}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0
        first, second, *_ = (await span(client)).consume_time_span_set
        assert first.consume_time_stamp == times[1]
        assert first.delay_time == pytest.approx(now - times[2], abs=10)
        assert first.message_queue == MessageQueue("T", "broker-a", 0)
        assert (second.min_time_stamp, second.max_time_stamp, second.delay_time) == (-1, -1, 0)
        text = first.max_time_stamp_str
        assert text is not None
        assert text[10] == "#"
        assert text.endswith(f":{times[2] % 1000:03d}")


@pytest.mark.parametrize("code", [RequestCode.GET_TOPIC_STATS_INFO, RequestCode.QUERY_CONSUME_TIME_SPAN])
async def test_A7_unknown_topics_and_impossible_names_are_errors(autojump_clock: MockClock, code: RequestCode) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(code, {"topic": "nowhere", "group": "g"})
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[nowhere] not exist")
        for fields in ({"topic": "../x", "group": "g"}, {"group": "g"}, {"topic": "", "group": "g"}):
            assert (await client.ask(code, fields)).code != 0
        assert (await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "a b"})).code != 0


@pytest.mark.slow
async def test_A7_the_answer_is_all_that_is_kept_of_twenty_thousand_queues(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        fields = {"topic": "T", "readQueueNums": "20000", "writeQueueNums": "20000", "perm": "6"}
        fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
        tracemalloc.start()
        request = RemotingCommand(0, {"topic": "T"})
        answer = run_steps(get_topic_stats(broker._views.topic_stats, cast("Connection", None), request))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(answer, RemotingCommand)
        assert answer.body.count(b'"maxOffset"') == 20_000
        assert peak < 2.4 * len(answer.body)
