"""Telling name servers: when, what, and that one of them never keeps the others waiting."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import TooManyRequestsError
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.outbound import Outbound
from rocketpy.remoting.server import serve
from rocketpy.services import open_services
from rocketpy.wire.bodies.registration import RegisterBrokerBody
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import QueryDataVersionResponseHeader, RegisterBrokerRequestHeader
from rocketpy.wire.message_codec import body_crc
from rocketpy_broker_sim.broker.opening import name_server_list, open_broker
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, client_of, settings
from tests.broker_sim.broker.test_admin_topic import create, create_list


class NameServer:
    """Takes notes of what brokers say."""

    def __init__(self) -> None:
        self.address = ""
        self.seen: list[tuple[float, int, RemotingCommand]] = []
        self.code = ResponseCode.SUCCESS
        self.changed = True
        self.silent = False

    def codes(self) -> list[int]:
        return [code for _, code, _ in self.seen]

    def registrations(self) -> list[tuple[float, RegisterBrokerRequestHeader, RegisterBrokerBody]]:
        return [
            (
                when,
                RegisterBrokerRequestHeader.from_ext(request.ext_fields),
                RegisterBrokerBody.decode_any(request.body, version=request.version),
            )
            for when, code, request in self.seen
            if code == RequestCode.REGISTER_BROKER
        ]

    def answer(self, connection: object, request: RemotingCommand) -> RemotingCommand | None:
        self.seen.append((trio.current_time(), request.code, request))
        if self.silent:
            return None
        if request.code == RequestCode.QUERY_DATA_VERSION:
            return request.answer(0, None, QueryDataVersionResponseHeader(changed=self.changed).to_ext())
        return request.answer(self.code, "not now" if self.code else None)


@asynccontextmanager
async def name_servers(network: MemoryNetwork, count: int = 1) -> AsyncIterator[list[NameServer]]:
    found = [NameServer() for _ in range(count)]
    async with open_services() as services:
        for each in found:
            server = await services.start(
                lambda task_status, each=each: serve(
                    network, None, 0, RequestDispatcher({}, each.answer), task_status=task_status
                )
            )
            each.address = server.addresses[0]
        yield found


def opened(network: MemoryNetwork, servers: list[str], **changes: object):
    return open_broker(settings(**changes), network=network, storage=MemoryStorage(), name_servers=servers)


async def test_LC3_a_broker_is_registered_when_it_is_open_and_says_goodbye(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 2) as servers:
        async with opened(network, [each.address for each in servers]) as broker:
            await wait_all_tasks_blocked()  # it is open when the first of them has answered
            assert sorted(broker.registration.registered_with) == sorted(each.address for each in servers)
            for each in servers:
                ((_, header, body),) = each.registrations()
                assert (header.broker_name, header.cluster_name) == ("broker-a", "DefaultCluster")
                assert (header.broker_id, header.broker_addr) == (0, broker.address)
                assert header.body_crc32 == body_crc(each.seen[0][2].body)
                wrapper = body.topic_config_serialize_wrapper
                assert set(wrapper.topic_config_table) == set(broker.topics.all())
                assert wrapper.data_version == broker.topics.data_version
        assert [each.codes()[-1] for each in servers] == [RequestCode.UNREGISTER_BROKER] * 2
        count = len(servers[0].seen)
        await trio.sleep(100)
        assert len(servers[0].seen) == count


@pytest.mark.parametrize(("period", "every"), [(30_000, 30), (1000, 10), (10**9, 60)])
async def test_LC3_it_registers_again_after_ten_seconds_then_at_the_period(
    autojump_clock: MockClock, period: int, every: int
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        async with opened(network, [server.address], register_name_server_period=period):
            await trio.sleep(10 + 2 * every + 1)
        times = [round(when) for when, _, _ in server.registrations()]
        assert times == [0, 10, 10 + every, 10 + 2 * every]


@pytest.mark.parametrize(("changed", "count"), [(True, 3), (False, 1)])
async def test_LC3_when_not_forced_it_registers_only_what_is_needed(
    autojump_clock: MockClock, changed: bool, count: int
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        server.changed = changed
        async with opened(network, [server.address], force_register=False):
            await trio.sleep(41)
        assert len(server.registrations()) == count
        assert server.codes().count(RequestCode.QUERY_DATA_VERSION) == 2


async def test_LC3_one_that_is_down_and_one_that_hangs_keep_nobody_waiting(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 2) as (good, mute):
        mute.silent = True
        network.hang("127.0.0.1:9999")
        began = trio.current_time()
        addresses = ["127.0.0.1:9998", "127.0.0.1:9999", mute.address, good.address]
        async with opened(network, addresses) as broker:
            assert trio.current_time() - began < 1
            assert broker.registration.registered_with == [good.address]
            await trio.sleep(45)
            assert len(good.registrations()) >= 3
            assert len(mute.registrations()) >= 2
            stopping = trio.current_time()
        assert trio.current_time() - stopping < 40


async def test_LC3_a_broker_starts_when_no_name_server_is_there_and_finds_it_later(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        network.refuse(server.address)
        async with opened(network, [server.address]) as broker:
            assert broker.registration.registered_with == []
            network.heal(server.address)
            await trio.sleep(60)
            assert broker.registration.registered_with == [server.address]


async def test_topics_that_come_and_go_while_no_name_server_is_there_are_not_remembered(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        network.refuse(server.address)
        async with opened(network, [server.address]) as broker:
            for number in range(5000):
                broker.topics.put(TopicConfig(topic_name=f"T{number}"))
                broker.topics.delete(f"T{number}")
            broker.topics.put(TopicConfig(topic_name="stays"))
            assert broker.registration is not None
            [link] = broker.registration._links
            assert len(link.changed) < 1200
            network.heal(server.address)
            await trio.sleep(60)
            _, _, body = server.registrations()[-1]
            assert "stays" in body.topic_config_serialize_wrapper.topic_config_table
            assert not link.changed


async def test_a_topic_that_is_made_is_registered_at_once_and_alone(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            for n in range(5):
                await client.send(f"T{n}")
        await trio.sleep(1)
        times = [when for when, _, _ in server.registrations()]
        assert times[1] < 0.1
        tables = [body.topic_config_serialize_wrapper.topic_config_table for _, _, body in server.registrations()[1:]]
        assert {name for table in tables for name in table} == {f"T{n}" for n in range(5)}


@pytest.mark.parametrize("listed", [False, True], ids=["one", "a list"])
async def test_an_administrator_hears_of_a_topic_when_the_name_servers_have_heard_of_it(
    autojump_clock: MockClock, listed: bool
) -> None:
    """As with Apache's broker; one that does not answer is waited for half a second."""
    network = MemoryNetwork()

    async def put(client: Client, queues: int) -> set[int]:
        if listed:
            answer = await create_list(
                client, *(TopicConfig(topic_name=name, write_queue_nums=queues) for name in ("T", "U"))
            )
        else:
            answer = await create(client, write_queue_nums=queues)
        assert answer.code == ResponseCode.SUCCESS
        tables = [body.topic_config_serialize_wrapper.topic_config_table for _, _, body in server.registrations()]
        return {config.write_queue_nums for table in tables for name, config in table.items() if name in {"T", "U"}}

    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            began = trio.current_time()
            assert await put(client, 2) == {2}
            assert await put(client, 4) == {2, 4}
            assert trio.current_time() - began < 0.4
            server.silent = True
            began = trio.current_time()
            assert await put(client, 6) == {2, 4, 6}
            assert 0.4 < trio.current_time() - began < 0.6


async def test_a_new_topic_is_on_the_disk_at_once_though_a_name_server_does_not_answer(
    autojump_clock: MockClock,
) -> None:
    network, storage = MemoryNetwork(), MemoryStorage()
    async with (
        name_servers(network) as (server,),
        open_broker(settings(), network=network, storage=storage, name_servers=[server.address]) as broker,
        client_of(network, broker.address) as client,
    ):
        server.silent = True
        with trio.move_on_after(0.2) as waiting:
            await create(client, "Kept")
        assert waiting.cancelled_caught
        assert b'"Kept"' in storage.read_bytes("config/topics.json")


async def test_a_name_server_that_refuses_a_single_topic_gets_them_all(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        server.code = ResponseCode.SYSTEM_ERROR
        async with client_of(network, broker.address) as client:
            await client.send("T")
        await trio.sleep(1)
        assert broker.registration.registered_with == []
        server.code = ResponseCode.SUCCESS
        await trio.sleep(15)
        assert set(server.registrations()[-1][2].topic_config_serialize_wrapper.topic_config_table) == set(
            broker.topics.all()
        )


async def test_a_broken_connection_is_registered_anew_at_once(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        await trio.sleep(15)
        count = len(server.registrations())
        network.cut(server.address)
        await trio.sleep(2)
        assert len(server.registrations()) == count + 1
        assert broker.registration.registered_with == [server.address]


async def test_a_broker_that_may_not_be_written_says_so_of_its_topics(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        async with opened(network, [server.address], broker_permission=4) as broker:
            table = server.registrations()[0][2].topic_config_serialize_wrapper.topic_config_table
            assert {topic.perm & 3 for topic in table.values()} == {0}
            assert broker.topics.get("TBW102").perm == 7


async def test_a_new_permission_of_the_broker_is_told_with_all_topics_although_one_changes_as_well(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            # Both within the moment in which changes gather.
            await client.send("T")
            assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=4")).code == 0
        await trio.sleep(1)
        told: dict[str, int] = {}
        for _, _, body in server.registrations():
            table = body.topic_config_serialize_wrapper.topic_config_table
            told.update({name: topic.perm for name, topic in table.items()})
        assert told.keys() == broker.topics.all().keys() >= {"T", "TBW102"}
        assert {perm & 3 for perm in told.values()} == {0}


async def test_the_compressed_form(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        async with opened(network, [server.address], compressed_register=True) as broker:
            (_, header, body), *_ = server.registrations()
            assert header.compressed
            assert set(body.topic_config_serialize_wrapper.topic_config_table) == set(broker.topics.all())
            request = next(each for _, code, each in server.seen if code == RequestCode.REGISTER_BROKER)
            # Name servers of 4.x take five words a topic and no more: attributes do not travel in this form.
            assert b" SINGLE_TAG\0" in zlib.decompress(request.body)
            assert b"SINGLE_TAG {" not in zlib.decompress(request.body)


@pytest.mark.parametrize(
    ("old", "code"), [(True, RequestCode.QUERY_DATA_VERSION), (False, RequestCode.BROKER_HEARTBEAT)]
)
async def test_light_pings_go_out_where_replicas_may_act_as_masters(
    autojump_clock: MockClock, old: bool, code: int
) -> None:
    network = MemoryNetwork()
    changes = {"enable_slave_acting_master": True, "compatible_with_old_name_srv": old}
    async with name_servers(network) as (server,):
        async with opened(network, [server.address], **changes):
            await trio.sleep(5.5)
        pings = [request for _, each, request in server.seen if each == code]
        assert len(pings) == 5
        assert all(request.is_oneway for request in pings)
        assert server.registrations()[0][1].heartbeat_timeout_millis == 10_000


async def test_pings_that_cannot_be_sent_end_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, refused = MemoryNetwork(), []

    def refuse(outbound: Outbound, frame: bytes) -> None:
        refused.append(outbound._address)
        raise TooManyRequestsError("too much waits for the name server")

    async with name_servers(network) as (server,):
        async with opened(network, [server.address], enable_slave_acting_master=True) as broker:
            with monkeypatch.context() as patched:
                patched.setattr(Outbound, "send_frame", refuse)
                await trio.sleep(3.5)
            assert refused == [server.address] * 3
            await trio.sleep(3)
            assert broker.registration.registered_with == [server.address]
        pings = [request for _, each, request in server.seen if each == RequestCode.QUERY_DATA_VERSION]
        assert len(pings) == 3


async def test_N11_topics_that_the_name_server_declares_ordered_are_so_here(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with open_name_server(network=network) as server, opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            for topic in ("Ordered", "Plain"):
                await client.send(topic)
        server.kv_config.put("ORDER_TOPIC_CONFIG", "Ordered", f"{broker.config.broker_name}:4")
        server.kv_config.put("ORDER_TOPIC_CONFIG", "Unknown", "elsewhere:4")
        await trio.sleep(61)
        assert broker.topics.is_order("Ordered")
        assert not broker.topics.is_order("Plain")
        assert "Unknown" not in broker.topics
        version = broker.topics.data_version
        await trio.sleep(120)
        assert broker.topics.data_version == version


def test_lists_of_name_servers() -> None:
    assert name_server_list("a:9876; b:1;[::1]:2;") == ["a:9876", "b:1", "[::1]:2"]
    assert name_server_list("") == []


async def test_threat_L4_what_is_no_name_server_is_not_stormed(autojump_clock: MockClock) -> None:
    """It takes each connection, answers something else and hangs up: dialling it never fails."""
    network = MemoryNetwork()
    connections = 0

    async def answer(stream: trio.abc.Stream) -> None:
        nonlocal connections
        connections += 1
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.aclose()

    [listener] = await network.listen("web", 80)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        async with opened(network, ["web:80"]):
            await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert 6 <= connections <= 8
