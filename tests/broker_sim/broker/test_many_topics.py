"""A broker with thousands of topics: made, kept, listed and registered a little at a time."""

from __future__ import annotations

import json
import logging

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.enums import TopicFilterType
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.tables.persist import pretty_steps
from rocketpy_broker_sim.broker.tables.topics import MOST_LOGGED, TopicTable
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.serving.slices import PAUSE
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client, settings
from tests.steps import longest

MOST_SECONDS = 0.02
"""Processor time of a step."""


def topics(count: int) -> list[TopicConfig]:
    return [TopicConfig(topic_name=f"Many-{n:06}", read_queue_nums=4, write_queue_nums=4) for n in range(count)]


def test_topics_are_written_as_the_pretty_form_of_their_json() -> None:
    table = TopicTable(settings(), MemoryStorage())
    odd = TopicConfig(topic_name="multi", topic_filter_type=TopicFilterType.MULTI_TAG, order=True, topic_sys_flag=3)
    table.put_all([odd, TopicConfig(topic_name="with", attributes={"+a": 'b"é'}), TopicConfig(topic_name="%RETRY%g")])
    wrapper = {
        "dataVersion": table.data_version.to_json(),
        "topicConfigTable": {name: topic.to_json() for name, topic in table.all().items()},
    }
    assert table.encode() == run_steps(pretty_steps(wrapper))


@pytest.mark.slow
def test_many_topics_are_made_and_written_in_short_steps() -> None:
    table = TopicTable(settings(), MemoryStorage())
    assert longest(lambda: table.put_steps(topics(50_000)))[0] < MOST_SECONDS
    assert longest(table.encode_steps)[0] < MOST_SECONDS


def test_topics_made_in_steps_are_made_all_or_none() -> None:
    table = TopicTable(settings(), MemoryStorage())
    steps = table.put_steps(topics(100))
    assert next(steps) is None
    assert "Many-000000" not in table
    assert [*steps][-1] is PAUSE  # to make them all takes a turn of its own
    assert "Many-000099" in table


def test_what_topics_made_in_steps_take_is_right_though_others_come_and_go_between() -> None:
    table, alone = TopicTable(settings(), MemoryStorage()), TopicTable(settings(), MemoryStorage())
    table.put_all([TopicConfig(topic_name="Many-000001", attributes={"+a": "b" * 50})])
    steps = table.put_steps([*topics(100), *topics(50)])
    next(steps)
    table.put(TopicConfig(topic_name="Many-000002", attributes={"+a": "b" * 80}))
    table.delete("Many-000001")
    for _ in steps:
        pass
    alone.put_all(topics(100))
    assert table._room.taken == alone._room.taken


def test_a_change_of_many_topics_is_some_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    TopicTable(settings(), MemoryStorage()).put_all(topics(1000))
    assert len(caplog.records) == MOST_LOGGED + 1
    assert "980 more" in caplog.records[-1].getMessage()


@pytest.mark.slow
async def test_thousands_of_topics_are_made_and_listed_by_one_request(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        body = CreateTopicListRequestBody(topic_config_list=topics(4000))
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())).code == 0
        answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        found = TopicConfigAndMappingSerializeWrapper.decode(answer.body)
        assert found.topic_config_table == broker.topics.all()
        assert len(found.topic_config_table) > 4000


async def test_one_topic_of_thousands_that_is_none_stops_them_all(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        made = [*topics(1000), TopicConfig(topic_name="no topic")]
        body = CreateTopicListRequestBody(topic_config_list=made)
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "Many-000000" not in broker.topics


@pytest.mark.slow
async def test_a_broker_of_20000_topics_is_known_to_its_name_server_whole(autojump_clock: MockClock) -> None:
    """In one request they were more than it takes, and the broker vanished."""
    network, storage = MemoryNetwork(), MemoryStorage()
    async with open_broker(settings(), network=network, storage=storage, name_servers=[]) as broker:
        broker.topics.put_all(topics(20_000))
    async with open_name_server(network=network) as server:
        async with open_broker(settings(), network=network, storage=storage, name_servers=[server.address]) as broker:
            assert broker.registration is not None
            assert broker.registration.registered_with == [server.address]
            assert server.routes.queues.keys() == broker.topics.all().keys()
            broker.topics.delete("Many-000007")
            broker.topics.put(TopicConfig(topic_name="New"))
            await trio.sleep(0.1)
            assert "New" in server.routes.queues
            await trio.sleep(61)
            assert broker.registration.registered_with == [server.address]


@pytest.mark.slow
async def test_a_topic_that_is_deleted_among_thousands_is_forgotten_with_the_next_period(
    autojump_clock: MockClock,
) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    async with open_name_server(network=network) as server:
        server.config.delete_topic_with_broker_registration = True
        server.refresh_settings()
        async with open_broker(settings(), network=network, storage=storage, name_servers=[server.address]) as broker:
            broker.topics.put_all(topics(6000))
            await trio.sleep(31)
            assert server.routes.queues.keys() == broker.topics.all().keys()
            broker.topics.delete("Many-000007")
            await trio.sleep(31)
            assert server.routes.queues.keys() == broker.topics.all().keys()
            assert "Many-000007" not in server.routes.queues


def test_the_file_is_read_by_any_reader_of_json() -> None:
    table = TopicTable(settings(), MemoryStorage())
    assert json.loads(table.encode())["topicConfigTable"].keys() == table.all().keys()
