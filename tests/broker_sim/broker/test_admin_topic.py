"""Topics by the hand of an administrator: made, changed, deleted, listed, known to name servers, kept."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.route import TopicRouteData
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.admin import CreateTopicRequestHeader
from rocketpy.wire.names import pop_retry_topic_v1, pop_retry_topic_v2
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.processors import admin_topic
from rocketpy_broker_sim.broker.tables.attributes import TOPIC_ATTRIBUTES, alter, parse_changes
from rocketpy_broker_sim.config import namesrv_config
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.serving.slices import MUST_END
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of, send_fields, settings
from tests.broker_sim.broker.test_consumer_manage import commit, query


async def create(client: Client, topic: str = "T", **fields: Any) -> RemotingCommand:
    values: dict[str, Any] = {
        "default_topic": "TBW102",
        "read_queue_nums": 2,
        "write_queue_nums": 3,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        **fields,
    }
    header = CreateTopicRequestHeader(topic=topic, **values)
    return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext())


async def create_list(client: Client, *topics: TopicConfig) -> RemotingCommand:
    body = CreateTopicListRequestBody(topic_config_list=list(topics))
    return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())


async def delete(client: Client, topic: str = "T") -> RemotingCommand:
    return await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})


async def look(client: Client, topic: str = "T") -> RemotingCommand:
    return await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})


# --- made, changed, listed -------------------------------------------------------------------------------


async def test_A1_a_topic_is_made_changed_and_looked_at(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        missing = await look(client)
        assert (missing.code, missing.remark) == (17, "No topic in this broker. topic: T")
        assert (await create(client)).code == 0
        made = TopicConfig.decode((await look(client)).body)
        assert made == TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=3, perm=6)
        version = broker.topics.data_version.counter
        assert (await create(client)).code == 0
        assert broker.topics.data_version.counter == version, "nothing changed, but the version rose"
        assert (await create(client, write_queue_nums=8, perm=4, order=True, topic_sys_flag=1)).code == 0
        changed = TopicConfig.decode((await look(client)).body)
        assert (changed.write_queue_nums, changed.perm, changed.order, changed.topic_sys_flag) == (8, 4, True, 1)


async def test_A1_several_topics_are_made_all_or_none(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        before = len(broker.topics)
        bad = await create_list(client, TopicConfig(topic_name="A"), TopicConfig(topic_name="../B"))
        assert bad.code == ResponseCode.INVALID_PARAMETER
        assert len(broker.topics) == before
        assert (await create_list(client, TopicConfig(topic_name="A"), TopicConfig(topic_name="B", perm=4))).code == 0
        assert (await create_list(client, TopicConfig(topic_name="A"), TopicConfig(topic_name="C"))).code == 0
        wrapper = TopicConfigAndMappingSerializeWrapper.decode(
            (await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body
        )
        assert wrapper.topic_config_table == dict(broker.topics.all())
        assert {"A", "B", "C", "TBW102"} <= set(wrapper.topic_config_table)
        assert wrapper.data_version == broker.topics.data_version


@pytest.mark.parametrize("name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a", "rmq_sys_x"])
async def test_A1_topics_of_the_system_are_neither_changed_nor_deleted(autojump_clock: MockClock, name: str) -> None:
    async with broker_and_client() as (broker, client):
        before = dict(broker.topics.all())
        for answer in (
            await create(client, name),
            await create_list(client, TopicConfig(topic_name="A"), TopicConfig(topic_name=name)),
            await delete(client, name),
        ):
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert answer.remark == f"The topic[{name}] is conflict with system topic."
        assert dict(broker.topics.all()) == before


async def test_A1_the_protection_of_system_topics_can_be_switched_off(autojump_clock: MockClock) -> None:
    async with broker_and_client(validate_system_topic_when_update_topic=False) as (broker, client):
        assert (await create(client, "TBW102", perm=4)).code == 0
        assert broker.topics.get("TBW102").perm == 4


@pytest.mark.parametrize(
    "fields",
    [
        {"read_queue_nums": -1},
        {"write_queue_nums": 2**31 - 1},
        {"perm": 8},
        {"perm": -1},
        {"topic_filter_type": "TAG"},
        {"attributes": "message.type=FIFO"},
        {"attributes": "+no.such=1"},
        {"attributes": "+message.type=NONE"},
        {"attributes": "-message.type"},
    ],
)
async def test_A1_what_no_topic_can_be_is_refused(autojump_clock: MockClock, fields: dict[str, Any]) -> None:
    async with broker_and_client() as (broker, client):
        assert (await create(client, **fields)).code == ResponseCode.INVALID_PARAMETER
        assert "T" not in broker.topics


async def test_A1_messages_go_to_a_topic_as_it_was_made(autojump_clock: MockClock) -> None:
    async with broker_and_client(auto_create_topic_enable=False) as (_, client):
        assert (await client.send("T")).code == ResponseCode.TOPIC_NOT_EXIST
        await create(client, write_queue_nums=3, read_queue_nums=3)
        assert [(await client.send("T", queue_id=queue)).code for queue in range(4)] == [0, 0, 0, 29]
        await create(client, write_queue_nums=3, perm=2)
        assert (await client.pull("T")).code == ResponseCode.NO_PERMISSION


# --- deleted ---------------------------------------------------------------------------------------------


async def test_A1_OF2_a_deleted_topic_is_gone_with_messages_and_offsets(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send("T")
        await client.send("U")
        await client.heartbeat("g", "T", "U")
        await commit(client, 1)
        await commit(client, 1, topic="U")
        assert (await delete(client)).code == 0
        assert (await look(client)).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await query(client)).code == ResponseCode.QUERY_NOT_FOUND
        assert broker.store.reads.topics() == {"U"}
        assert broker.offsets.topics_of("g") == {"U"}
        assert (await delete(client)).code == 0, "that there is none is no error"
    async with broker_and_client(storage=storage) as (broker, client):
        assert "T" not in broker.topics
        assert broker.offsets.topics_of("g") == {"U"}
        assert (await client.send("T")).ext_fields["queueOffset"] == "0"


async def test_A5_what_groups_gave_back_of_a_topic_by_pop_is_deleted_with_it(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for topic in ("T", "T2"):
            await client.send(topic)
        await client.heartbeat("g", "T", "T2")
        names = [make(topic, "g") for make in (pop_retry_topic_v1, pop_retry_topic_v2) for topic in ("T", "T2")]
        for name in names:
            broker.topics.create_retry(name, 1)
            broker.offsets.commit("g", name, 0, 1)
        await commit(client, 1)
        await commit(client, 1, topic="T2")
        assert (await delete(client)).code == 0
        assert [name in broker.topics for name in names] == [False, True, False, True]
        assert broker.offsets.topics_of("g") == {"T2", names[1], names[3]}


class Peer:
    """A connection of which only the answers are looked at."""

    address = "10.0.0.1:1"

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}

    def has_time(self) -> bool:
        return True

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        self.codes[request.code] = answer.code


async def test_A1_a_full_disk_during_a_delete_is_told_to_who_sent_in_the_same_chunk(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send("T")
        await client.send("U")
        peer = Peer()
        send = RemotingCommand(RequestCode.SEND_MESSAGE_V2, send_fields("U"), b"lost")
        remove = RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        with storage.failing("pwrite", under="commitlog"):
            broker.lanes.handle(peer, [send, remove], trio.current_time())  # type: ignore[arg-type]
        assert peer.codes[RequestCode.SEND_MESSAGE_V2] == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.store.reads.max_offset("U", 0) == 1


async def test_A1_a_topic_of_many_queues_and_groups_is_deleted_in_slices(autojump_clock: MockClock) -> None:
    """A broker that deletes thousands of files and offsets in one turn serves nobody else meanwhile."""
    async with broker_and_client() as (broker, client):
        await create(client, write_queue_nums=300, read_queue_nums=300)
        for number in range(300):
            await client.send("T", queue_id=number)
            broker.offsets.commit(f"g{number}", "T", 0, 1)
        request = RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        steps = admin_topic.delete_topic(broker._views.admin_topic, Peer(), request)  # type: ignore[arg-type]
        assert next(steps) == MUST_END
        done = 1
        while broker.offsets.groups_of("T"):
            next(steps)
            done += 1
        next(steps)
        assert "T" not in broker.topics
        assert broker.store.reads.topics() == set()
        assert sum(1 for _ in steps) >= 298
        assert done > 300 // 32


async def test_A1_what_pop_groups_gave_back_goes_with_the_topic(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send("T")
        await client.heartbeat("g", "T")
        await commit(client, 1)
        for name in ("%RETRY%g+T", "%RETRY%g_T", "%RETRY%g+U"):
            broker.topics.create_retry(name, 1)
        await delete(client)
        assert [name for name in broker.topics.all() if name.startswith("%RETRY%")] == ["%RETRY%g", "%RETRY%g+U"]


# --- kept, and known -------------------------------------------------------------------------------------


async def test_A1_an_answer_means_that_the_topic_is_on_the_disk(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await create(client)
        killed = storage.clone()
    async with broker_and_client(storage=killed) as (broker, _):
        assert "T" in broker.topics


async def test_A1_a_full_disk_is_told(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        with storage.failing("write_bytes_atomic", code=errno.ENOSPC):
            answer = await create(client)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "disk" in (answer.remark or "")
        await trio.sleep(6)
        assert storage.exists("config/topics.json")


async def test_A1_name_servers_hear_of_topics_that_come_change_and_go(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with open_name_server(namesrv_config(listen_port=0), network=network) as names:
        opened = open_broker(settings(), network=network, storage=MemoryStorage(), name_servers=[names.address])
        async with opened as broker, client_of(network, broker.address) as client:
            async with client_of(network, names.address) as asker:

                async def route() -> TopicRouteData | None:
                    await trio.sleep(1)
                    answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
                    return TopicRouteData.decode(answer.body) if answer.code == 0 else None

                assert await route() is None
                await create(client)
                found = await route()
                assert found is not None
                assert [(each.write_queue_nums, each.perm) for each in found.queue_datas] == [(3, 6)]
                await create(client, write_queue_nums=9, perm=4)
                found = await route()
                assert found is not None
                assert [(each.write_queue_nums, each.perm) for each in found.queue_datas] == [(9, 4)]


# --- attributes ------------------------------------------------------------------------------------------


def test_A2_attributes_are_added_changed_and_taken_away() -> None:
    made = alter(TOPIC_ATTRIBUTES, None, parse_changes("+message.type=FIFO,+queue.type=SimpleCQ"))
    assert made == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    changed = alter(TOPIC_ATTRIBUTES, made, parse_changes("+message.type=DELAY"))
    assert changed == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert alter(TOPIC_ATTRIBUTES, changed, parse_changes("-message.type")) == {"queue.type": "SimpleCQ"}
    assert alter(TOPIC_ATTRIBUTES, changed, {}) == changed


@pytest.mark.parametrize("text", ["a", "=", "+", "-", "+a", "-a=1", "a=1", "+a=1,+a=2", "+a=1,b", "," * 65_537])
def test_A2_what_is_no_list_of_changes_is_refused(text: str) -> None:
    with pytest.raises(BrokerError):
        parse_changes(text)


@pytest.mark.parametrize(
    ("current", "changes"),
    [
        (None, {"-message.type": ""}),
        (None, {"+unknown": "1"}),
        (None, {"message.type": "FIFO"}),
        (None, {"+message.type": "fifo"}),
        (None, {"+cleanup.policy": "COMPACTION"}),
        ({}, {"-message.type": ""}),
        ({}, {"+queue.type": "SimpleCQ"}),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}),
    ],
)
def test_A2_an_attribute_that_cannot_be_is_refused(current: dict[str, str] | None, changes: dict[str, str]) -> None:
    with pytest.raises(BrokerError):
        alter(TOPIC_ATTRIBUTES, current, changes)


async def test_A2_attributes_over_the_wire(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await create(client, attributes="+message.type=DELAY")
        assert broker.topics.get("T").attributes == {"message.type": "DELAY"}
        await create(client, attributes="")
        assert broker.topics.get("T").attributes == {"message.type": "DELAY"}
        await create(client, attributes="-message.type")
        assert broker.topics.get("T").attributes == {}
