"""The list of name servers: random start, sticky, failover within the time of one call."""

from __future__ import annotations

import errno
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.testing

from rocketpy.client.api import name_server as api
from rocketpy.client.name_server import NameServers
from rocketpy.client.routes.routing import RouteTable
from rocketpy.errors import BrokerError, ConfigError, ConnectError, NameServerUnreachableError, TopicNotExistError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.seams import set_random_seed
from rocketpy.wire.bodies.route import TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.client.fakes import FakeNameServer

EMPTY = TopicRouteData()
REFUSED = f"[Errno {errno.ECONNREFUSED}] nobody listens on"


@asynccontextmanager
async def name_servers(
    network: MemoryNetwork, count: int = 2, *, timeout: float = 3.0
) -> AsyncIterator[tuple[NameServers, list[FakeNameServer]]]:
    """Servers that know the topic T, and a client of them that starts with the first."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(FakeNameServer({"T": EMPTY}).open(network)) for _ in range(count)]
        pool = await stack.enter_async_context(ConnectionPool(network).open())
        found = NameServers([server.address for server in servers], pool, timeout=timeout)
        while found.current != servers[0].address:
            found = NameServers([server.address for server in servers], pool, timeout=timeout)
        yield found, servers


def test_S6_without_a_name_server_the_error_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"namesrv='host:9876'.*NAMESRV_ADDR"):
        NameServers([], ConnectionPool(MemoryNetwork()))


def test_clients_start_at_different_name_servers() -> None:
    set_random_seed(1)
    pool = ConnectionPool(MemoryNetwork())
    starts = {NameServers(["a:1", "b:1", "c:1"], pool).current for _ in range(50)}
    set_random_seed(None)
    assert starts == {"a:1", "b:1", "c:1"}


async def test_one_name_server_is_asked_until_it_fails(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (asked, servers):
        for _ in range(5):
            await api.topic_route(asked, "T")
        assert [len(server.requests) for server in servers] == [5, 0]
        network.refuse(servers[0].address)
        network.cut(servers[0].address)
        await api.topic_route(asked, "T")
        network.heal(servers[0].address)
        await api.topic_route(asked, "T")
        assert [len(server.requests) for server in servers] == [5, 2]
        assert asked.current == servers[1].address


async def test_a_name_server_that_hangs_leaves_time_for_the_next(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (asked, servers):
        servers[0].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        before = trio.current_time()
        await api.topic_route(asked, "T", timeout=2.0)
        assert trio.current_time() - before < 2.0
        assert asked.current == servers[1].address


async def test_a_busy_name_server_is_passed_over(autojump_clock: trio.testing.MockClock) -> None:
    async with name_servers(MemoryNetwork()) as (asked, servers):
        servers[0].on(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            lambda connection, request: request.answer(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]"),
        )
        await api.topic_route(asked, "T")
        assert asked.current == servers[1].address


def not_supported(connection, request):
    return request.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")


async def test_a_broker_among_the_name_servers_is_passed_over(autojump_clock: trio.testing.MockClock) -> None:
    async with name_servers(MemoryNetwork()) as (asked, servers):
        servers[0].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, not_supported)
        await api.topic_route(asked, "T")
        assert asked.current == servers[1].address


async def test_S6_the_address_of_a_broker_is_told_to_be_none_of_a_name_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with name_servers(MemoryNetwork(), 1) as (asked, servers):
        servers[0].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, not_supported)
        before = trio.current_time()
        with pytest.raises(NameServerUnreachableError) as caught:
            await api.topic_route(asked, "T")
        assert trio.current_time() == before
    assert (
        f"({servers[0].address}: this is not a name server (perhaps a broker): it answered 'request type 105 not "
        "supported'); check that this is the address of a name server (port 9876 as a rule)"
    ) in str(caught.value)


async def test_S6_the_address_of_an_http_server_is_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 1) as (asked, _), trio.open_nursery() as nursery:
        (listener,) = await network.listen("127.0.0.1", 8080)

        async def serve_http() -> None:
            while True:
                stream = await listener.accept()
                await stream.receive_some(4096)
                await stream.send_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                await stream.aclose()

        nursery.start_soon(serve_http)
        asked.addresses = ("127.0.0.1:8080",)
        with pytest.raises(NameServerUnreachableError) as caught:
            await api.topic_route(asked, "T")
        nursery.cancel_scope.cancel()
    assert str(caught.value) == (
        "no name server answered when asking for the route of T (127.0.0.1:8080: this is an HTTP server, not a name "
        "server); check that this is the address of a name server (port 9876 as a rule)"
    )


async def test_S6_a_server_that_never_answers_may_be_another_kind_of_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with name_servers(MemoryNetwork(), 1) as (asked, servers):
        servers[0].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        with pytest.raises(NameServerUnreachableError) as caught:
            await api.topic_route(asked, "T", timeout=3.0)
    assert str(caught.value) == (
        f"no name server answered when asking for the route of T ({servers[0].address}: no answer within 1.5 s); check "
        "that this is the address of a name server (port 9876 as a rule), and allow more time if it is slow"
    )


async def test_a_change_that_was_not_answered_may_have_been_made(autojump_clock: trio.testing.MockClock) -> None:
    async with name_servers(MemoryNetwork(), 2) as (asked, servers):
        for server in servers:
            server.on(RequestCode.PUT_KV_CONFIG, lambda connection, request: None)
        with pytest.raises(NameServerUnreachableError, match="carried out") as caught:
            await api.put_kv_config(asked, "N", "key", "value")
    assert "check that these are the addresses of name servers" in str(caught.value)
    assert not caught.value.nothing_sent


@pytest.mark.parametrize("count", [1, 2])
async def test_a_change_was_sent_unless_every_name_server_refuses_the_connection(
    autojump_clock: trio.testing.MockClock, count: int
) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 2) as (asked, servers):
        for server in servers:
            server.on(RequestCode.PUT_KV_CONFIG, lambda connection, request: request.answer())
        for server in servers[:count]:
            network.refuse(server.address)
        with pytest.raises(NameServerUnreachableError) as caught:
            await api.put_kv_config(asked, "N", "key", "value")
    assert caught.value.nothing_sent == (count == 2)


async def test_several_that_refuse_are_to_be_running(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 2) as (asked, servers):
        for server in servers:
            network.refuse(server.address)
        with pytest.raises(NameServerUnreachableError, match="check that they are running and reachable from this"):
            await api.topic_route(asked, "T")


async def test_an_unknown_topic_is_an_answer_not_a_failure(autojump_clock: trio.testing.MockClock) -> None:
    async with name_servers(MemoryNetwork()) as (asked, servers):
        with pytest.raises(TopicNotExistError):
            await api.topic_route(asked, "Unknown")
        assert [len(server.requests) for server in servers] == [1, 0]


async def test_S6_all_name_servers_down_lists_them_within_the_deadline(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 3) as (asked, servers):
        network.refuse(servers[0].address)
        network.hang(servers[1].address)
        servers[2].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        before = trio.current_time()
        with pytest.raises(
            NameServerUnreachableError, match="no name server answered when asking for the route of T"
        ) as e:
            await api.topic_route(asked, "T", timeout=3.0)
        assert trio.current_time() - before <= 3.0
        assert e.value.tried == tuple(server.address for server in servers)
        assert e.value.retriable
        assert all(server.address in str(e.value) for server in servers)
        assert e.value.__cause__ is not None


async def test_an_unreachable_name_server_has_one_cause_of_one_line(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 1) as (asked, servers):
        address = servers[0].address
        network.refuse(address)
        routes = RouteTable(asked)
        with pytest.raises(NameServerUnreachableError) as caught:
            await routes.ensure("T")
    assert str(caught.value) == (
        f"no route to the topic T: no name server answered when asking for the route of T ({address}: {REFUSED} "
        f"{address}); check that it is running and reachable from this host"
    )
    cause = caught.value.__cause__
    assert isinstance(cause, ConnectError)
    assert (cause.reason, cause.__cause__, cause.__traceback__) == (f"{REFUSED} {address}", None, None)
    lines = traceback.format_exception(caught.value)
    assert sum("direct cause" in line for line in lines) == 1
    assert not any("tenacity" in line or "not tried again" in line for line in lines)


async def test_one_that_was_asked_twice_is_told_of_once(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 1) as (asked, servers):
        network.refuse(servers[0].address)
        with pytest.raises(NameServerUnreachableError) as caught:
            await api.topic_route(asked, "T", timeout=3.0)
        assert str(caught.value).count("next try") <= 1
        assert str(caught.value).count(f"({servers[0].address}: ") == 1


async def test_a_restarted_single_name_server_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 1) as (asked, servers):

        def die_once(connection, request):
            servers[0].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, servers[0].route)
            connection.close()

        servers[0].on(RequestCode.GET_ROUTEINFO_BY_TOPIC, die_once)
        assert await api.topic_route(asked, "T") == EMPTY


async def test_what_every_name_server_must_know_is_told_to_every_one(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 3) as (asked, servers):
        for server in servers:
            server.on(RequestCode.PUT_KV_CONFIG, lambda connection, request: request.answer())
        await api.put_kv_config(asked, api.ORDER_TOPIC_CONFIG, "T", "broker-a:4")
        assert [server.requests[-1].ext_fields["value"] for server in servers] == ["broker-a:4"] * 3
        network.refuse(servers[1].address)
        network.cut(servers[1].address)
        with pytest.raises(NameServerUnreachableError) as error:
            await api.put_kv_config(asked, api.ORDER_TOPIC_CONFIG, "T", "broker-a:8")
        assert error.value.tried == (servers[1].address,)
        assert [len(server.requests) for server in servers] == [2, 1, 2]


async def test_key_values_that_are_not_set_are_none_not_errors(autojump_clock: trio.testing.MockClock) -> None:
    async with name_servers(MemoryNetwork(), 1) as (asked, servers):
        for code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
            servers[0].on(code, lambda connection, request: request.answer(ResponseCode.QUERY_NOT_FOUND, "no"))
        assert await api.get_kv_config(asked, "N", "k") is None
        assert await api.kv_list(asked, "N") == {}
        servers[0].on(RequestCode.GET_KV_CONFIG, lambda connection, request: request.answer(ext_fields={"value": "v"}))
        servers[0].on(
            RequestCode.GET_KVLIST_BY_NAMESPACE, lambda connection, request: request.answer(body=b'{"table":{"k":"v"}}')
        )
        assert await api.get_kv_config(asked, "N", "k") == "v"
        assert await api.kv_list(asked, "N") == {"k": "v"}
        servers[0].on(RequestCode.GET_KV_CONFIG, lambda connection, request: request.answer(ResponseCode.SYSTEM_ERROR))
        with pytest.raises(BrokerError, match="asking for k of N refused"):
            await api.get_kv_config(asked, "N", "k")


async def test_clusters_and_topics_are_read(autojump_clock: trio.testing.MockClock) -> None:
    async with name_servers(MemoryNetwork(), 1) as (asked, servers):
        body = b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1"},"brokerName":"a"}},"clusterAddrTable":{"c":["a"]}}'
        servers[0].on(RequestCode.GET_BROKER_CLUSTER_INFO, lambda connection, request: request.answer(body=body))
        for code in (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_TOPICS_BY_CLUSTER):
            servers[0].on(code, lambda connection, request: request.answer(body=b'{"topicList":["T","U"]}'))
        for code in (RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.DELETE_KV_CONFIG):
            servers[0].on(code, lambda connection, request: request.answer())
        info = await api.cluster_info(asked)
        assert info.broker_addr_table["a"].broker_addrs == {0: "h:1"}
        assert info.cluster_addr_table == {"c": {"a"}}
        assert await api.all_topics(asked) == {"T", "U"}
        assert await api.topics_of_cluster(asked, "c") == {"T", "U"}
        await api.delete_topic_route(asked, "T", cluster="c")
        await api.delete_kv_config(asked, "N", "k")
        assert servers[0].codes()[-2:] == [RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.DELETE_KV_CONFIG]
