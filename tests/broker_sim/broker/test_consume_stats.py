"""How far groups have come: what waits for them, what is on its way, and how much they get a second."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageQueue
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.admin import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.processors.consume_stats import get_all_consume_stats, get_consume_stats
from rocketpy_broker_sim.broker.tables import group_reads
from rocketpy_broker_sim.broker.tables.group_reads import GroupReads
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


async def stats(client: Client, topic: str | None = "T", listed: str | None = None, group: str = "g") -> ConsumeStats:
    header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic, topic_list=listed)
    answer = await client.ask(RequestCode.GET_CONSUME_STATS, header.to_ext())
    assert answer.code == 0, answer.remark
    return ConsumeStats.decode(answer.body)


async def commit(client: Client, offset: int, queue: int = 0, topic: str = "T", group: str = "g") -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


def of_queue(found: ConsumeStats, queue: int = 0, topic: str = "T") -> OffsetWrapper:
    [wrapper] = [each for mq, each in found.offset_table.items() if (mq.topic, mq.queue_id) == (topic, queue)]
    return wrapper


async def test_OF5_what_waits_and_what_is_on_its_way(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for number in range(5):
            await client.send(body=b"%d" % number)
            await trio.sleep(1)
        await client.heartbeat("g", "T")
        before = of_queue(await stats(client))
        assert before == OffsetWrapper(broker_offset=5)
        await client.pull(offset=0, max_msg_nums=3)
        await commit(client, 2)
        found = await stats(client)
        assert list(found.offset_table) == [MessageQueue("T", broker.config.broker_name, n) for n in range(4)]
        queue = of_queue(found)
        assert (queue.broker_offset, queue.consumer_offset, queue.pull_offset) == (5, 2, 3)
        assert queue.last_timestamp == broker.store.reads.store_time("T", 0, 1) > EPOCH
        await commit(client, 5)
        assert of_queue(await stats(client)).pull_offset == 5
        assert of_queue(await stats(client), 1) == OffsetWrapper()


async def test_OF5_how_much_a_group_gets_a_second(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.heartbeat("g", "T")
        for number in range(30):
            await client.send(body=b"x")
            await client.pull(offset=number)
            await trio.sleep(2)
        assert (await stats(client)).consume_tps == pytest.approx(0.5, abs=0.05)
        assert (await stats(client, group="other")).consume_tps == 0
        await client.heartbeat("g", "T")
        await trio.sleep(100)
        assert (await stats(client)).consume_tps == 0


async def test_OF5_which_topics_are_told(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for topic in ("A", "B", "C"):
            await client.send(topic)
        await client.heartbeat("g", "A", "B")
        await client.heartbeat("h", "C", client_id="c2")
        for topic in ("A", "C"):
            await commit(client, 1, topic=topic)

        async def topics(topic: str | None = None, listed: str | None = None, group: str = "g") -> list[str]:
            return sorted({queue.topic for queue in (await stats(client, topic, listed, group)).offset_table})

        assert await topics() == ["A"]  # committed on, and subscribed
        assert await topics("B") == ["B"]
        assert await topics("C") == []  # not subscribed
        assert await topics("nowhere") == []
        assert await topics("A", "C;B;;nowhere;C") == ["B", "C"]
        await commit(client, 1, topic="A", group="h")
        assert await topics(group="h") == []
        assert await topics("A", group="unknown") == ["A"]


async def test_OF5_bad_requests_are_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for fields in (
            {"consumerGroup": "a b"},
            {"consumerGroup": "g", "topic": "../x"},
            {"consumerGroup": "g", "topicList": "a;b c"},
            {"consumerGroup": "g", "topicList": "a;" * 3000},
            {},
        ):
            answer = await client.ask(RequestCode.GET_CONSUME_STATS, fields)
            assert answer.code != 0


async def test_OF5_all_groups_of_a_broker(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for topic in ("A", "B"):
            for _ in range(3):
                await client.send(topic)
        await client.heartbeat("g", "A", "B")
        await client.pull("A", consumer_group="g")
        await commit(client, 1, topic="A")
        await commit(client, 3, topic="B")

        async def all_stats(*, order: bool) -> ConsumeStatsList:
            fields = GetConsumeStatsInBrokerHeader(is_order=order).to_ext()
            answer = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, fields)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            return ConsumeStatsList.decode(answer.body)

        found = await all_stats(order=False)
        [of_group] = [each["g"] for each in found.consume_stats_list if "g" in each]
        assert [{queue.topic for queue in each.offset_table} for each in of_group] == [{"A"}, {"B"}]
        assert (found.total_diff, found.total_inflight_diff) == (2, 2)
        assert found.broker_addr == broker.address
        ordered = await all_stats(order=True)
        assert [each["g"] for each in ordered.consume_stats_list if "g" in each] == [[]]


def test_what_groups_read_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reads, "MOST_PAIRS", 10)
    monkeypatch.setattr(group_reads, "MOST_QUEUES", 15)
    reads = GroupReads(lambda: 1.0)
    for number in range(100):
        reads.note("T", f"g{number}", 0, 1, number)
        reads.note("T", "steady", number % 3, 1, number)
    assert len(reads) == 10
    assert reads.position("T", "g99", 0) == 99
    assert reads.position("T", "g0", 0) is None
    assert reads.position("T", "steady", 0) == 99
    assert reads.per_second("T", "steady") == 10.0
    for number in range(50):
        reads.note("T", "wide", number, 0, 1)
    assert len(reads) == 1  # the bound on queues is one on tables of many queues too
    assert reads.per_second("T", "steady") == 0


async def test_OF5_a_list_of_separators_is_refused_unread(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        fields = {"consumerGroup": "g", "topicList": ";" * 2049}
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, fields)
        assert answer.code != 0
        assert answer.remark is not None
        assert "lists 2049 topics, 2048 are allowed" in answer.remark
        assert (await stats(client, listed=";" * 2048)).offset_table == {}


@pytest.mark.slow
async def test_P8_the_answer_is_all_that_is_kept_of_forty_thousand_queues(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        topics = ["T1", "T2"]
        await client.heartbeat("g", *topics)
        for topic in topics:
            fields = {"topic": topic, "readQueueNums": "20000", "writeQueueNums": "20000", "perm": "6"}
            fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
            assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
            await commit(client, 0, topic=topic)
        view = broker._views.consume_stats
        for processor, fields in (
            (get_consume_stats, {"consumerGroup": "g"}),
            (get_all_consume_stats, {"isOrder": "false"}),
        ):
            tracemalloc.start()
            steps = processor(view, cast("Connection", None), RemotingCommand(0, fields))
            answer = run_steps(steps)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert isinstance(answer, RemotingCommand)
            assert answer.body.count(b'"consumerOffset"') == 40_000
            # The buffer that it is written in has some room to grow, and is copied once.
            assert peak < 2.4 * len(answer.body)
