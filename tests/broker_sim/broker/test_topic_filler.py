"""Topics that are made by sends and by groups cannot fill the disk: there are so many, and each has so many queues."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client, settings

ATTEMPTS = 40
ROOM = 5


def known() -> int:
    """Topics that a new broker has."""
    return len(Broker(settings(), MemoryStorage()).topics)


@pytest.fixture
def bound() -> int:
    return known() + ROOM


async def test_threat_A8_sends_make_no_more_topics_than_are_allowed(autojump_clock: MockClock, bound: int) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        broker.config.max_topics = bound
        answers = [await client.send(f"Filler{number}") for number in range(ATTEMPTS)]
        assert [answer.code for answer in answers] == [0] * ROOM + [ResponseCode.SYSTEM_ERROR] * (ATTEMPTS - ROOM)
        assert "1 more cannot be added: delete some, or raise maxTopics" in (answers[-1].remark or "")
        assert len(broker.topics) == bound
        assert len(storage.list("consumequeue")) == ROOM
        assert (await client.send("Filler0")).code == 0  # those that are there go on
        written = broker.store.written_position
        await client.send("Filler99")
        assert broker.store.written_position == written
    async with broker_and_client(storage=storage) as (broker, client):
        assert len(broker.topics) == bound


async def test_threat_A8_groups_make_no_more_topics_than_are_allowed(autojump_clock: MockClock, bound: int) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        broker.config.max_topics = bound
        for number in range(ATTEMPTS):
            await client.heartbeat(f"group{number}", "T")
        assert len(broker.topics) == bound
        assert storage.list("consumequeue") == []
        assert (await client.send("TBW102x")).code == ResponseCode.SYSTEM_ERROR


async def test_threat_A8_administrators_are_bound_by_it_too(autojump_clock: MockClock, bound: int) -> None:
    async with broker_and_client() as (broker, client):
        broker.config.max_topics = bound
        fields = {"defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
        fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        codes = [
            (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**fields, "topic": f"T{number}"})).code
            for number in range(ATTEMPTS)
        ]
        assert codes == [0] * ROOM + [ResponseCode.SYSTEM_ERROR] * (ATTEMPTS - ROOM)


async def test_threat_A8_a_topic_made_by_a_send_has_few_queues(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, default_topic_queue_nums=8) as (broker, client):
        assert (await client.send("Wide", default_topic_queue_nums=100_000)).code == 0
        topic = broker.topics.get("Wide")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums) == (8, 8)
        for queue in (8, 9, 99_999, 2**31 - 1):
            assert (await client.send("Wide", queue_id=queue)).code == ResponseCode.INVALID_PARAMETER
        for queue in range(8):
            assert (await client.send("Wide", queue_id=queue)).code == 0
        assert len(storage.list("consumequeue/Wide")) == 8


async def test_threat_A8_sends_make_no_topics_where_that_is_switched_off(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, auto_create_topic_enable=False) as (broker, client):
        before = len(broker.topics)
        for number in range(ATTEMPTS):
            assert (await client.send(f"Filler{number}")).code == ResponseCode.TOPIC_NOT_EXIST
        assert len(broker.topics) == before
        assert storage.list("consumequeue") == []
        assert broker.store.written_position == 0


def test_threat_A8_the_bound_is_100_000_and_can_be_lowered() -> None:
    assert settings().max_topics == 100_000
    assert settings(max_topics=10).max_topics == 10
