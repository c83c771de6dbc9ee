"""A name server with many topics and brokers: nothing is done in one go, and nothing is kept without bound."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress

import pytest
import trio

from rocketpy.errors import RemoteProtocolError, RocketMQError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.bodies.registration import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper, encode_steps
from rocketpy.wire.bodies.registration_steps import decode_steps, most_topics
from rocketpy.wire.bodies.route import ClusterInfo, KVTable, QueueData, TopicRouteData
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicList, TopicQueueMappingInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.config import NamesrvConfig
from rocketpy_broker_sim.namesrv import open_name_server, route_info, route_query
from rocketpy_broker_sim.namesrv.long_answers import cluster_info_body, route_body, topic_list_body
from rocketpy_broker_sim.namesrv.processor import FEW_BROKERS, MAX_ZONE
from rocketpy_broker_sim.namesrv.route_info import RouteInfo
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.namesrv.test_route_info import identity, registration
from tests.broker_sim.namesrv.test_server import Peer, body, register, running
from tests.steps import longest

MOST_SECONDS = 0.02
"""Processor time of a step."""


def topics(count):
    return [TopicConfig(topic_name=f"Many-{n:06}", read_queue_nums=4, write_queue_nums=4) for n in range(count)]


# --- registrations are read in steps ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_20000_topics_in_one_registration_are_read_in_short_steps(compressed):
    data = run_steps(encode_steps(topics(20_000), DataVersion(counter=3), compressed=compressed))
    worst, found = longest(lambda: decode_steps(data, version=479, compressed=compressed))
    assert worst < MOST_SECONDS
    assert list(found.topic_config_serialize_wrapper.topic_config_table.values()) == topics(20_000)
    assert found.topic_config_serialize_wrapper.data_version.counter == 3


def wrapped(**members):
    wrapper = TopicConfigAndMappingSerializeWrapper(data_version=DataVersion(timestamp=1, counter=1), **members)
    return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)


@pytest.mark.parametrize("version", [36, 400, 479])
@pytest.mark.parametrize("pad", [0, 20_000])
def test_what_is_read_in_steps_is_what_is_read_at_once(version, pad):
    mapping = TopicQueueMappingInfo(topic="t1", bname="b", total_queues=8, curr_id_map={0: 1})
    config = TopicConfig(topic_name='t"1', perm=4, order=True, topic_sys_flag=3)
    sent = wrapped(topic_config_table={'t"1': config}, topic_queue_mapping_info_map={"t1": mapping})
    data = (sent.topic_config_serialize_wrapper if version < 37 else sent).encode(browser_compatible=pad > 0)
    data = data[:-1] + b" " * pad + data[-1:]
    at_once = RegisterBrokerBody.decode_any(data, version=version)
    assert run_steps(decode_steps(data, version=version)) == at_once


def test_the_dialect_of_fastjson_is_read_too():
    data = wrapped(topic_config_table={t.topic_name: t for t in topics(200)}).encode().decode()
    data = data.replace('"counter"', "counter").replace('"topicConfigTable"', "'topicConfigTable'").encode()
    found = run_steps(decode_steps(data, version=479))
    assert len(found.topic_config_serialize_wrapper.topic_config_table) == 200


def test_members_that_nobody_knows_and_nulls_are_passed_over():
    table = json.dumps({t.topic_name: t.to_json() for t in topics(300)})
    odd = '"x":[{"y":[1,2,{}]},"}",null],"dataVersion":null'
    data = f'{{"z":{{}},"filterServerList":["f:1"],"topicConfigSerializeWrapper":{{{odd},"topicConfigTable":{table}}}}}'
    found = run_steps(decode_steps(data.encode(), version=479))
    assert len(found.topic_config_serialize_wrapper.topic_config_table) == 300
    assert found.filter_server_list == ["f:1"]


_TABLE = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{'
HOSTILE = {
    "white space": b" " * (15 << 20) + b"{}",
    "white space within": b'{"a":' + b"\n" * (15 << 20) + b"1}",
    "a long string": b'{"a":"' + b"a" * (15 << 20) + b'"}',
    "many arrays": b'{"a":[' + b"[]," * (5 << 20) + b"[]]}",
    "deep arrays": b'{"a":' + b"[" * (15 << 20),
    "many empty members": b'{"a":[' + b"," * (15 << 20) + b"]}",
    "a topic that is large": _TABLE + b'"t":{"attributes":{"' + b"a" * (15 << 20) + b'":"b"}}}}}',
    "a topic full of arrays": _TABLE + b'"t":{"x":[' + b"[]," * (5 << 20) + b"0]}}}}",
    "a topic that never ends": _TABLE + b'"t":{' + b'"a":1,' * (2 << 20),
    "a key that never ends": _TABLE + b'"' + b"a" * (15 << 20),
    "backslashes": _TABLE + b'"' + b"\\" * (15 << 20),
    "bytes that are no text": b'{"a":"' + b"\xff" * (15 << 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_16_mib_of_anything_are_refused_or_read_in_short_steps(name):
    """A step may hold one call into C over the whole body, which gets its 100 ms."""

    def read():
        with suppress(RemoteProtocolError):
            yield from decode_steps(HOSTILE[name], version=479)

    assert longest(read)[0] < 0.1


@pytest.mark.parametrize("name", ["zeros", "one topic again and again"])
def test_a_small_compressed_registration_does_not_become_a_large_one(name):
    """10.8 KB held the name server for two seconds."""
    entry = b"\0\0\0\0" if name == "zeros" else b"\0\0\0\x17t 8 8 6 SINGLE_TAG    "
    start = DataVersion(timestamp=1, counter=1).encode()
    data = len(start).to_bytes(4, "big") + start + (400_000).to_bytes(4, "big") + entry * 400_000
    packed = zlib.compress(data, 9)
    assert len(packed) < 40_000

    def read():
        with pytest.raises(RemoteProtocolError, match="enableSplitRegistration"):
            yield from decode_steps(packed, version=479, compressed=True)

    assert longest(read)[0] < MOST_SECONDS


@pytest.mark.slow
def test_more_topics_at_once_than_there_may_be_are_refused():
    """What becomes of a registration in memory goes with its size; that of 50,000 topics of a real broker is taken."""
    data = run_steps(encode_steps(topics(50_000), DataVersion()))
    assert most_topics(len(data)) > 50_000
    table = b",".join(b'"%d":null' % n for n in range(100_000))
    with pytest.raises(RemoteProtocolError, match="enableSplitRegistration"):
        run_steps(decode_steps(_TABLE + table + b"}}}", version=479))
    packed = run_steps(encode_steps(topics(30_000), DataVersion(), compressed=True))
    with pytest.raises(RemoteProtocolError, match="enableSplitRegistration"):
        run_steps(decode_steps(packed, version=479, compressed=True))


# --- over the wire ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_broker_of_20000_topics_registers_in_one_request(autojump_clock):
    data = run_steps(encode_steps(topics(20_000), DataVersion(counter=1)))
    async with running() as peer:
        assert (await peer.ask(register(data))).code == ResponseCode.SUCCESS
        assert (await peer.route("Many-019999")).code == ResponseCode.SUCCESS
        answer = await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert len(TopicList.decode(answer.body).topic_list) == 20_000


async def test_others_are_answered_while_a_large_registration_is_taken(autojump_clock):
    data = run_steps(encode_steps(topics(5_000), DataVersion(counter=1)))
    network = MemoryNetwork()
    async with (
        open_name_server(NamesrvConfig(), network=network) as server,
        ConnectionPool(network).open() as pool,
        ConnectionPool(network).open() as other_pool,
    ):
        peer, other, done = Peer(server, pool), Peer(server, other_pool), []

        async def large():
            done.append((await peer.ask(register(data))).code)

        await other.route("t")
        answered = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(large)
            while not done:
                await other.route("t")
                answered += 1
        assert done == [0]
        assert answered > 2


async def test_what_comes_behind_a_registration_on_its_connection_waits_for_it(autojump_clock):
    data = run_steps(encode_steps(topics(5_000), DataVersion(counter=1)))
    async with running() as peer:
        await peer.route("t")
        codes = []

        async def ask(command):
            codes.append((await peer.ask(command)).code if command else (await peer.route("Many-004999")).code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, register(data))
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(ask, None)
        assert codes == [0, 0]


async def test_a_broker_that_hangs_up_and_returns_has_what_it_registers_then(autojump_clock):
    async with running() as peer:
        for names in (topics(3000), topics(2000), topics(2500)):
            data = run_steps(encode_steps(names, DataVersion(counter=1)))
            assert (await peer.ask(register(data))).code == ResponseCode.SUCCESS
            answer = await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            assert TopicList.decode(answer.body).topic_list == {each.topic_name for each in names}
            peer.hang_up()
            await trio.lowlevel.checkpoint()
        await trio.sleep(1)
        assert peer.server.routes.queues == {}
        assert peer.server.routes.table.bytes == 0


@pytest.mark.slow
async def test_a_broker_that_hangs_up_within_its_registration_leaves_nothing(autojump_clock):
    data = run_steps(encode_steps(topics(5000), DataVersion(counter=1)))
    async with running() as peer:
        for turns in range(0, 60, 3):
            async with trio.open_nursery() as nursery:

                async def ask():
                    with suppress(RocketMQError):
                        await peer.ask(register(data))

                await peer.route("t")
                nursery.start_soon(ask)
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                peer.hang_up()
            peer.hang_up()  # it may have been dialled again
            await trio.sleep(1)
            tables = peer.server.routes
            assert (tables.queues, tables.live, tables.brokers, tables.table.bytes) == ({}, {}, {}, 0)
            assert tables._reserved == 0


async def test_the_name_of_a_zone_is_bounded(autojump_clock):
    async with running() as peer:
        for length, code in ((MAX_ZONE, ResponseCode.SUCCESS), (MAX_ZONE + 1, ResponseCode.SYSTEM_ERROR)):
            command = register(body("t1", "t2").encode())
            command.ext_fields["__ZONE_NAME"] = "z" * length
            assert (await peer.ask(command)).code == code


async def test_a_version_and_a_route_of_a_topic_are_bounded(autojump_clock):
    async with running() as peer:
        query = {"brokerName": "b", "brokerAddr": "a", "clusterName": "c", "brokerId": "0"}
        answer = await peer.ask(RequestCode.QUERY_DATA_VERSION, data=b"{" + b" " * 5000 + b"}", **query)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        answer = await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, data=b" " * (3 << 20) + b"{}", topic="t")
        assert answer.code == ResponseCode.INVALID_PARAMETER
        for bad in (b"", b"[]", b'{"queueDatas":7}', b'{"queueDatas":[7]}'):
            answer = await peer.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, data=bad, topic="t")
            assert answer.code == ResponseCode.SYSTEM_ERROR


# --- what brokers may take in memory ---------------------------------------------------------------------


def test_threat_L8_the_topics_of_a_connection_and_of_all_are_bounded_by_their_memory(monkeypatch):
    tables, link, other = RouteInfo(), object(), object()
    monkeypatch.setattr(route_info, "MAX_BYTES_OF_ONE", 40_000)
    monkeypatch.setattr(route_info, "MAX_BYTES", 60_000)
    names = [f"t{n}" for n in range(50)]
    assert tables.register(registration(identity("a"), names, connection=link)) is not None
    assert tables.register(registration(identity("b"), names, connection=link)) is None
    assert tables.register(registration(identity("b"), names, connection=other)) is not None
    assert tables.register(registration(identity("c"), names, connection=object())) is None
    before = tables.table.bytes
    assert tables.register(registration(identity("a"), names, connection=link)) is not None, "again takes no more"
    assert tables.table.bytes == before
    run_steps(tables.leave_steps(link))
    assert tables.register(registration(identity("c"), names, connection=object())) is not None
    tables.unregister([identity("b"), identity("c")])
    assert tables.table.bytes == 0


def test_threat_L8_mappings_count_too(monkeypatch):
    tables = RouteInfo()
    monkeypatch.setattr(route_info, "MAX_BYTES_OF_ONE", 40_000)
    made = registration(identity(), ("t1", "t2"))
    mapping = TopicQueueMappingInfo(topic="t1", bname="a", curr_id_map={n: n for n in range(1000)})
    made.topics.topic_queue_mapping_info_map["t1"] = mapping
    assert tables.register(made) is None


# --- long answers ----------------------------------------------------------------------------------------


def tables_of(brokers):
    tables = RouteInfo()
    for n in range(brokers):
        tables.register(registration(identity(f"b{n:05}"), ("t1", "t2"), filter_servers=(f"f:{n}",)))
    return tables


@pytest.mark.parametrize("browser", [False, True])
def test_a_long_route_is_written_as_a_short_one(browser):
    tables = tables_of(100)
    names = list(tables.queues["t1"])
    steps = route_body(
        names, lambda some: route_query.route_of(tables, "t1", names=some), "a:1", browser_compatible=browser
    )
    route = route_query.route_of(tables, "t1")
    route.order_topic_conf = "a:1"
    assert run_steps(steps) == route.encode(browser_compatible=browser)


async def test_a_route_over_many_brokers_is_answered_whole(autojump_clock):
    async with running() as peer:
        count = FEW_BROKERS + 5
        for n in range(count):
            fields = {"broker_name": f"b{n}", "broker_addr": f"127.0.0.1:{n + 1}"}
            assert (await peer.ask(register(body("t1", "t2").encode(), **fields))).code == 0
        route = TopicRouteData.decode((await peer.route("t1")).body)
        assert {each.broker_name for each in route.broker_datas} == {f"b{n}" for n in range(count)}
        assert len(route.queue_datas) == count


def test_long_lists_are_written_as_short_ones():
    tables = tables_of(50)
    assert run_steps(cluster_info_body(tables)) == route_query.cluster_info(tables).encode()
    assert ClusterInfo.decode(run_steps(cluster_info_body(RouteInfo()))) == ClusterInfo()
    assert run_steps(topic_list_body(iter(["b", None, "a"]))) == b'{"topicList":["b","a"]}'
    assert run_steps(topic_list_body(iter([None]))) == TopicList().encode()


@pytest.mark.slow
def test_what_grows_with_the_tables_is_done_in_short_steps():
    tables = RouteInfo()
    made = registration(identity(), [each.topic_name for each in topics(50_000)])
    assert longest(lambda: tables.register_steps(made), tries=2)[0] < MOST_SECONDS
    work = {
        "all topics": lambda: topic_list_body(topic for topic, _ in tables.table.topics()),
        "of a cluster": lambda: topic_list_body(route_query.names_of_cluster(tables, "c1")),
        "of a flag": lambda: topic_list_body(route_query.names_by_flag(tables, have=4)),
        "wipe": lambda: tables.write_permission_steps("a", allowed=False),
        "restore": lambda: tables.write_permission_steps("a", allowed=True),
        "delete the others": lambda: tables.table.remove_others("a", {"Many-000001"}),
    }
    assert {name: worst for name, make in work.items() if (worst := longest(make)[0]) >= MOST_SECONDS} == {}
    tables.register(made)
    assert longest(lambda: tables.table.forget("a"), tries=1)[0] < MOST_SECONDS


def test_a_broker_that_is_being_swept_up_is_gone_at_once_and_what_returned_stays():
    pending = []
    tables = RouteInfo(later=pending.append)
    names = [each.topic_name for each in topics(1000)]
    tables.register(registration(identity(), names))
    tables.unregister([identity()])
    assert route_query.route_of(tables, names[0]) is None
    assert route_query.all_topics(tables).topic_list == set()
    tables.register(registration(identity(), names[:500]))
    for steps in pending:
        run_steps(steps)
    assert set(tables.queues) == set(names[:500]) == tables.table.held["a"]


def test_a_master_that_returns_while_its_queues_lose_their_permission_has_it():
    pending = []
    tables = RouteInfo(later=pending.append)
    names = [each.topic_name for each in topics(1000)]
    tables.register(registration(identity(), names, acting=True))
    tables.register(registration(identity(broker_id=1), names, acting=True))
    tables.unregister([identity()])
    tables.register(registration(identity(), names, acting=True))
    for steps in pending:
        run_steps(steps)
    assert {queue.perm for by_broker in tables.queues.values() for queue in by_broker.values()} == {6}


def test_queues_that_are_alike_are_kept_once_and_change_alone():
    tables = RouteInfo()
    tables.register(registration(identity(), ("t1", "t2")))
    first, second = (tables.queues[topic]["a"] for topic in ("t1", "t2"))
    assert first is second
    tables.register_topic("t1", {"a": QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1, perm=2)})
    assert tables.queues["t2"]["a"].perm == 6


# --- key values ------------------------------------------------------------------------------------------


async def test_the_empty_namespace_and_the_empty_key_are_names_like_others(autojump_clock):
    async with running() as peer:
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="", key="", value="v")).code == 0
        answer = await peer.ask(RequestCode.GET_KV_CONFIG, namespace="", key="")
        assert answer.ext_fields == {"value": "v"}
        assert KVTable.decode((await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="")).body).table == {
            "": "v"
        }
        assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, namespace="", key="")).code == 0
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, namespace="", key="")).code == ResponseCode.QUERY_NOT_FOUND


async def test_key_values_that_come_together_are_written_together_and_answered_when_they_are(autojump_clock):
    storage, network, writes = MemoryStorage(), MemoryNetwork(), []
    write = storage.write_bytes_atomic

    def note(path, data, **more):
        writes.append(path)
        write(path, data, **more)

    storage.write_bytes_atomic = note
    async with open_name_server(NamesrvConfig(), network=network, storage=storage) as server:
        codes = []

        async def put(n):
            async with ConnectionPool(network).open() as pool:
                answer = await Peer(server, pool).ask(RequestCode.PUT_KV_CONFIG, namespace="n", key=str(n), value="v")
                codes.append(answer.code)

        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(put, n)
        assert codes == [0] * 50
        assert 1 <= len(writes) <= 25
    async with open_name_server(NamesrvConfig(), network=network, storage=storage) as server:
        assert len(server.kv_config.namespace("n")) == 50


async def test_what_comes_behind_a_change_on_its_connection_sees_it(autojump_clock):
    async with running(MemoryStorage()) as peer:
        found = []

        async def ask(code, **fields):
            found.append((await peer.ask(code, **fields)).ext_fields)

        await peer.route("t")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v"))
            await trio.lowlevel.checkpoint()
            nursery.start_soon(lambda: ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k"))
        assert {"value": "v"} in found


async def test_a_change_that_cannot_be_written_is_refused_and_the_next_one_is_not(autojump_clock):
    storage = MemoryStorage()
    async with running(storage) as peer:
        write = storage.write_bytes_atomic

        def refuse(path, data, **more):
            raise OSError(28, "No space left on device")

        storage.write_bytes_atomic = refuse
        refused = await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
        assert (refused.code, "try again" in refused.remark) == (ResponseCode.SYSTEM_ERROR, True)
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k")).code == ResponseCode.QUERY_NOT_FOUND
        storage.write_bytes_atomic = write
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")).code == 0
