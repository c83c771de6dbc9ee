"""A running name server, spoken to in frames over a memory network in virtual time."""

from __future__ import annotations

import zlib
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.errors import TransportError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.bodies.registration import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.route import (
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    QueueData,
    TopicRouteData,
)
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicList
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fields import camel_case
from rocketpy.wire.headers import route as headers
from rocketpy_broker_sim.config import NamesrvConfig, NettyServerConfig
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage

BROKER = {"cluster_name": "c", "broker_name": "b", "broker_addr": "127.0.0.1:10911", "broker_id": 0}


def body(*topics, version=1):
    table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in topics}
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table=table, data_version=DataVersion(timestamp=version, counter=version)
    )
    return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)


def register(data, **fields):
    header = headers.RegisterBrokerRequestHeader(ha_server_addr="127.0.0.1:10912", **(BROKER | fields))
    return RemotingCommand(RequestCode.REGISTER_BROKER, header.to_ext(), data)


class Peer:
    """A client of the name server under test."""

    def __init__(self, server, pool):
        self.server = server
        self._pool = pool

    async def ask(self, code, header=None, data=b"", **fields):
        command = code
        if not isinstance(code, RemotingCommand):
            command = RemotingCommand(code, header.to_ext() if header else fields, data)
        connection = await self._pool.get(self.server.address, timeout=3)
        return await connection.request(command, timeout=3)

    async def route(self, topic):
        return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)

    def hang_up(self):
        self._pool.discard(self.server.address)


@asynccontextmanager
async def running(storage=None, limits=None, **settings):
    network = MemoryNetwork()
    async with open_name_server(NamesrvConfig(**settings), network=network, storage=storage, limits=limits) as server:
        async with ConnectionPool(network).open() as pool:
            yield Peer(server, pool)
        await wait_all_tasks_blocked()
        assert server.memory.kinds() == {}, "something still counts for connections that have closed"


async def test_N1_a_registration_is_taken_and_answered_with_the_order_configuration(autojump_clock):
    async with running() as peer:
        put = headers.PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="t1", value="b:4")
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, put)).code == 0
        data = body("t1", "t2").encode()
        crc = zlib.crc32(data) & 0x7FFFFFFF
        answer = await peer.ask(register(data, body_crc32=crc))
        assert answer.code == ResponseCode.SUCCESS
        assert KVTable.decode(answer.body).table == {"t1": "b:4"}
        route = TopicRouteData.decode((await peer.route("t1")).body)
        assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}


async def test_N1_a_slave_hears_where_its_master_is(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        answer = await peer.ask(register(body("t1", "t2").encode(), broker_id=1, broker_addr="127.0.0.1:20911"))
        got = headers.RegisterBrokerResponseHeader.from_ext(answer.ext_fields)
        assert (got.master_addr, got.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")


@pytest.mark.parametrize("says_so", [True, False])
async def test_N1_a_compressed_body_is_read_whether_the_header_says_so_or_not(autojump_clock, says_so):
    async with running() as peer:
        answer = await peer.ask(register(body("t1", "t2").encode_compressed(), compressed=says_so))
        assert answer.code == ResponseCode.SUCCESS
        assert (await peer.route("t2")).code == ResponseCode.SUCCESS


async def test_N1_a_broker_of_before_3_0_11_sends_its_topics_alone(autojump_clock):
    async with running() as peer:
        command = register(body("t1", "t2").topic_config_serialize_wrapper.encode())
        command.version = 36
        assert (await peer.ask(command)).code == ResponseCode.SUCCESS
        assert (await peer.route("t1")).code == ResponseCode.SUCCESS


async def test_N1_a_body_that_does_not_match_its_crc_is_refused(autojump_clock):
    async with running() as peer:
        answer = await peer.ask(register(body("t1", "t2").encode(), body_crc32=1))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await peer.route("t1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_N1_a_body_that_is_none_is_an_answer_not_a_closed_connection(autojump_clock):
    async with running() as peer:
        for bad in (b"{", b"x\x9c\x00\x00", b'{"topicConfigSerializeWrapper":7}'):
            assert (await peer.ask(register(bad))).code == ResponseCode.SYSTEM_ERROR
        assert (await peer.ask(register(body("t1", "t2").encode()))).code == ResponseCode.SUCCESS


async def test_N3_an_unknown_topic_has_no_route(autojump_clock):
    async with running() as peer:
        answer = await peer.route("nobody")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert "nobody" in answer.remark
        missing = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert missing.code == ResponseCode.TOPIC_NOT_EXIST


async def test_N3_old_clients_get_bare_keys_and_new_ones_standard_json(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t1"}, version=300)
        assert b"{0:" in (await peer.ask(request)).body
        assert b'{"0":' in (await peer.route("t1")).body
        request = RemotingCommand(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t1", "acceptStandardJsonOnly": "true"}, version=300
        )
        assert b'{"0":' in (await peer.ask(request)).body


async def test_N2_unregistering_takes_effect_at_once(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        header = headers.UnRegisterBrokerRequestHeader(**BROKER)
        assert (await peer.ask(RequestCode.UNREGISTER_BROKER, header)).code == 0
        assert (await peer.route("t1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_N4_a_silent_broker_leaves_after_two_minutes(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        await trio.sleep(115)
        # The connection must live on, or its end would be what removes the broker.
        assert (await peer.route("t1")).code == ResponseCode.SUCCESS
        await trio.sleep(11)
        assert (await peer.route("t1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_N4_a_closed_connection_takes_its_broker_along(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        peer.hang_up()
        await trio.testing.wait_all_tasks_blocked()
        assert (await peer.route("t1")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_N12_heartbeats_and_version_queries_keep_a_broker_alive(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        query = headers.QueryDataVersionRequestHeader(**BROKER)
        beat = headers.BrokerHeartbeatRequestHeader(**BROKER)
        for _ in range(3):
            await trio.sleep(60)
            assert (await peer.ask(RequestCode.BROKER_HEARTBEAT, beat)).code == 0
        same = await peer.ask(RequestCode.QUERY_DATA_VERSION, query, DataVersion(timestamp=1, counter=1).encode())
        assert headers.QueryDataVersionResponseHeader.from_ext(same.ext_fields).changed is False
        assert DataVersion.decode(same.body) == DataVersion(timestamp=1, counter=1)
        other = await peer.ask(RequestCode.QUERY_DATA_VERSION, query, DataVersion(timestamp=2, counter=2).encode())
        assert headers.QueryDataVersionResponseHeader.from_ext(other.ext_fields).changed is True
        assert (await peer.route("t1")).code == ResponseCode.SUCCESS


async def test_N11_the_order_configuration_travels_with_the_route(autojump_clock):
    async with running(order_message_enable=True) as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        put = headers.PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="t1", value="b:4")
        await peer.ask(RequestCode.PUT_KV_CONFIG, put)
        assert TopicRouteData.decode((await peer.route("t1")).body).order_topic_conf == "b:4"
        assert TopicRouteData.decode((await peer.route("t2")).body).order_topic_conf is None


async def test_N10_key_values_are_kept_over_a_restart(autojump_clock):
    storage = MemoryStorage()
    async with running(storage) as peer:
        for key in ("a", "b"):
            header = headers.PutKVConfigRequestHeader(namespace="ns", key=key, value="v" + key)
            assert (await peer.ask(RequestCode.PUT_KV_CONFIG, header)).code == 0
        assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, namespace="ns", key="b")).code == 0
    async with running(storage) as peer:
        answer = await peer.ask(RequestCode.GET_KV_CONFIG, namespace="ns", key="a")
        assert headers.GetKVConfigResponseHeader.from_ext(answer.ext_fields).value == "va"
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, namespace="ns", key="b")).code == 22
        assert KVTable.decode((await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns")).body).table == {
            "a": "va"
        }
        assert (await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="none")).code == 22


async def test_key_values_are_kept_in_the_file_of_the_settings(autojump_clock):
    storage = MemoryStorage()
    config = NamesrvConfig(kv_config_path="~/names/kv.json", server=NettyServerConfig(listen_port=9876))
    async with open_name_server(config, network=MemoryNetwork(), storage=storage) as server:
        server.kv_config.put("ns", "a", "va")
    assert storage.list("") == ["kv.json"]


async def test_N13_harmless_settings_change_and_paths_do_not(autojump_clock):
    async with running() as peer:
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=b"orderMessageEnable=true\n")).code == 0
        for line in (b"kvConfigPath=/etc/passwd", b"configStorePath=/tmp/x", b"rocketmqHome=/", b"listenPort=1"):
            refused = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=b"enableTopicList=false\n" + line)
            assert refused.code == ResponseCode.NO_PERMISSION
        text = (await peer.ask(RequestCode.GET_NAMESRV_CONFIG)).body.decode()
        assert "orderMessageEnable=true\n" in text
        assert "enableTopicList=true\n" in text


async def test_N9_lists_over_the_wire(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        everything = await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert TopicList.decode(everything.body).topic_list == {"t1", "t2"}
        clusters = ClusterInfo.decode((await peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert clusters.cluster_addr_table == {"c": {"b"}}
        in_cluster = await peer.ask(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c")
        assert TopicList.decode(in_cluster.body).topic_list == {"t1", "t2"}


async def test_N9_lists_by_unit_flag_and_by_cluster_over_the_wire(autojump_clock):
    async with running() as peer:
        data = body("plain", "unit", "sub", "both")
        for name, flag in (("unit", 1), ("sub", 2), ("both", 3)):
            data.topic_config_serialize_wrapper.topic_config_table[name].topic_sys_flag = flag
        await peer.ask(register(data.encode()))
        expected = {
            RequestCode.GET_UNIT_TOPIC_LIST: {"unit", "both"},
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: {"sub", "both"},
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: {"sub"},
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: {"c", "b"},
        }
        for code, names in expected.items():
            assert TopicList.decode((await peer.ask(code)).body).topic_list == names
        group = await peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="c", brokerName="b")
        members = GetBrokerMemberGroupResponseBody.decode(group.body).broker_member_group
        assert members.broker_addrs == {0: "127.0.0.1:10911"}


async def test_N9_lists_of_topics_can_be_switched_off(autojump_clock):
    async with running(enable_topic_list=False, enable_all_topic_list=False) as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        for code in (
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.GET_TOPICS_BY_CLUSTER,
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ):
            assert (await peer.ask(code, cluster="c")).code == ResponseCode.SYSTEM_ERROR
        assert (await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).code == ResponseCode.SUCCESS


async def test_N7_permissions_are_wiped_and_restored_over_the_wire(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        wiped = await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="b")
        assert headers.WipeWritePermOfBrokerResponseHeader.from_ext(wiped.ext_fields).wipe_topic_count == 2
        assert TopicRouteData.decode((await peer.route("t1")).body).queue_datas[0].perm == 4
        added = await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="b")
        assert headers.AddWritePermOfBrokerResponseHeader.from_ext(added.ext_fields).add_topic_count == 2
        assert TopicRouteData.decode((await peer.route("t1")).body).queue_datas[0].perm == 6


async def test_N8_topics_are_registered_and_deleted_over_the_wire(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        route = TopicRouteData(queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)])
        code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
        assert (await peer.ask(code, data=route.encode(), topic="by-hand")).code == ResponseCode.SUCCESS
        assert (await peer.ask(code, data=route.encode(), topic="../x")).code == ResponseCode.INVALID_PARAMETER
        assert (await peer.route("by-hand")).code == ResponseCode.SUCCESS
        for fields in ({"clusterName": "another"}, {}):
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="by-hand", **fields)).code == 0
            gone = ResponseCode.SUCCESS if fields else ResponseCode.TOPIC_NOT_EXIST
            assert (await peer.route("by-hand")).code == gone


async def test_N8_whether_topics_are_forgotten_can_be_changed_while_it_runs(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2", "t3", version=1).encode()))
        await peer.ask(register(body("t1", "t2", version=2).encode()))
        assert (await peer.route("t3")).code == ResponseCode.SUCCESS
        line = b"deleteTopicWithBrokerRegistration=true\n"
        assert (await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=line)).code == 0
        await peer.ask(register(body("t1", "t2", version=3).encode()))
        assert (await peer.route("t3")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_N14_a_client_that_asks_for_its_zone_hears_of_no_other(autojump_clock):
    async with running() as peer:
        for name, zone in (("b", "east"), ("b2", "west")):
            command = register(body("t1", "t2").encode(), broker_name=name, broker_addr=f"127.0.0.1:1{len(name)}")
            command.ext_fields["__ZONE_NAME"] = zone
            await peer.ask(command)
        fields = {"topic": "t1", "__ZONE_MODE": "true", "__ZONE_NAME": "west"}
        route = TopicRouteData.decode((await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, **fields)).body)
        assert [broker.broker_name for broker in route.broker_datas] == ["b2"]


async def test_N4_a_silent_broker_loses_its_connection_and_may_come_back(autojump_clock):
    async with running() as peer:
        await peer.ask(register(body("t1", "t2").encode(), heartbeat_timeout_millis=20_000))
        [connection] = peer.server.remoting.connections
        await trio.sleep(30)
        assert not connection.is_open
        assert (await peer.ask(register(body("t1", "t2").encode()))).code == 0
        assert (await peer.route("t1")).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("seconds", [45, 10])
async def test_N15_routes_are_held_back_while_brokers_have_time_to_register(autojump_clock, seconds):
    async with running(need_wait_for_service=True, wait_seconds_for_service=seconds) as peer:
        await peer.ask(register(body("t1", "t2").encode()))
        await trio.sleep(seconds - 1)
        assert (await peer.route("t1")).code == ResponseCode.SYSTEM_ERROR
        await trio.sleep(2)
        assert (await peer.route("t1")).code == ResponseCode.SUCCESS


async def test_R6_unknown_codes_are_answered_and_the_connection_stays(autojump_clock):
    async with running() as peer:
        assert (await peer.ask(7777)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert (await peer.route("x")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_threat_A1_a_broker_with_an_illegal_name_is_refused(autojump_clock):
    async with running() as peer:
        answer = await peer.ask(register(body("t1", "t2").encode(), broker_name="../../x"))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert not peer.server.routes.brokers


@pytest.mark.parametrize("name", ["east@broker-e", "ip-10-0-0-1.eu.example.com"])
async def test_a_broker_may_have_a_host_name_or_that_of_a_machine_room(autojump_clock, name):
    """Apache's default is the host name; consumers that share by machine room want "room@name"."""
    async with running() as peer:
        registration = register(
            body("t1", name, f"rmq_sys_SYNC_BROKER_MEMBER_{name}", "a@b").encode(), broker_name=name
        )
        assert (await peer.ask(registration)).code == ResponseCode.SUCCESS
        assert list(peer.server.routes.brokers) == [name]
        assert set(peer.server.routes.queues) == {"t1", name, f"rmq_sys_SYNC_BROKER_MEMBER_{name}"}


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a b", "a/b", "a\nb", "a;b", "x" * 128])
async def test_threat_A1_names_of_brokers_that_are_paths_or_more_are_refused(autojump_clock, name):
    async with running() as peer:
        answer = await peer.ask(register(body("t1").encode(), broker_name=name))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert not peer.server.routes.brokers


async def test_a_taken_port_is_said_plainly(autojump_clock):
    network = MemoryNetwork()
    config = NamesrvConfig(server=NettyServerConfig(listen_port=9876))
    async with open_name_server(config, network=network) as server:
        assert server.address == "127.0.0.1:9876"
        with pytest.raises(TransportError, match="9876"):
            async with open_name_server(config, network=network):
                pass


async def test_key_values_that_cannot_be_kept_do_not_count(autojump_clock, monkeypatch):
    monkeypatch.setattr("rocketpy_broker_sim.namesrv.kv_config.MAX_ENTRIES", 1)
    async with running(MemoryStorage()) as peer:
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="ns", key="a", value="1")).code == 0
        refused = await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="another", key="b", value="1")
        assert refused.code == ResponseCode.NO_PERMISSION
        assert (await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="another")).code == 22
        assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, namespace="ns", key="a")).code == 0
        assert (await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="ns")).code == 22


async def test_threat_L8_key_values_are_bounded_by_their_size_too(autojump_clock, monkeypatch):
    monkeypatch.setattr("rocketpy_broker_sim.namesrv.kv_config.MAX_SIZE", 10)
    async with running() as peer:
        for value, code in (("x" * 7, ResponseCode.SUCCESS), ("x" * 8, ResponseCode.NO_PERMISSION), ("y", 0)):
            assert (await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="ns", key="a", value=value)).code == code
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, namespace="ns", key="a")).ext_fields == {"value": "y"}


async def test_threat_A1_topics_of_illegal_names_and_endless_filter_servers_are_left_out(autojump_clock):
    retry = "%RETRY%" + "g" * 200
    async with running() as peer:
        data = body("good", retry, "../bad", "x" * 300, "")
        data.filter_server_list = ["f" * 301, *(f"f:{number}" for number in range(100_000))]
        assert (await peer.ask(register(data.encode()))).code == ResponseCode.SUCCESS
        assert set(peer.server.routes.queues) == {"good", retry}
        [servers] = peer.server.routes.filter_servers.values()
        assert servers[:2] == ("f:0", "f:1")
        assert len(servers) == 64


@pytest.mark.parametrize("field", ["broker_addr", "ha_server_addr"])
async def test_threat_L8_an_endless_address_is_refused(autojump_clock, field):
    async with running() as peer:
        command = register(body("t1", "t2").encode())
        command.ext_fields[camel_case(field)] = "a" * 301 + ":1"
        assert (await peer.ask(command)).code == ResponseCode.SYSTEM_ERROR
        assert not peer.server.routes.brokers
