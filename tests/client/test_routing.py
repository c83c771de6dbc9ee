"""The route table: looking up once, keeping what was good, one error for each cause."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.client.name_server import NameServers
from rocketpy.client.routes.routing import BrokerAddress, RouteTable
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    NameServerUnreachableError,
    NoPermissionError,
    RemoteProtocolError,
    TopicNotFoundError,
    TopicNotWritableError,
)
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.client.fakes import FakeNameServer


def data(perm: int = 6, *, queues: int = 2, name: str = "a", **addresses: str) -> TopicRouteData:
    ids = {0 if key == "master" else int(key.removeprefix("slave")): value for key, value in addresses.items()}
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name=name, broker_addrs=ids or {0: "h:1"})],
        queue_datas=[QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)],
    )


@attrs.define
class World:
    network: MemoryNetwork
    server: FakeNameServer
    routes: RouteTable
    changed: list[str]


@asynccontextmanager
async def world(on_change: Callable[[str], None] | None = None, **routes: TopicRouteData) -> AsyncIterator[World]:
    network = MemoryNetwork()
    changed: list[str] = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeNameServer(routes).open(network))
        pool = await stack.enter_async_context(ConnectionPool(network).open())
        names = NameServers([server.address], pool)
        yield World(network, server, RouteTable(names, on_change=on_change or changed.append), changed)


async def test_a_route_is_asked_for_once_and_then_known(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        assert w.routes.publish_info("T") is None
        assert w.routes.subscribe_queues("T") is None
        info = await w.routes.ensure("T")
        assert await w.routes.ensure("T") is info
        assert w.routes.publish_info("T") is info
        assert info.queues == (MessageQueue("T", "a", 0), MessageQueue("T", "a", 1))
        assert w.routes.subscribe_queues("T") == info.queues
        assert await w.routes.ensure_subscribe("T") == info.queues
        assert w.routes.broker_address("a") == "h:1"
        assert w.routes.topics() == {"T"}
        assert w.changed == ["T"]
        assert len(w.server.requests) == 1


async def test_tasks_that_ask_at_the_same_time_share_the_question(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        found = []

        async def ask() -> None:
            found.append(await w.routes.ensure("T"))

        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(ask)
        assert len(found) == 64
        assert len(w.server.requests) == 1


async def test_when_the_task_that_asks_is_cancelled_another_one_asks(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        w.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        leader = trio.CancelScope()
        found = []

        async def lead() -> None:
            with leader:
                await w.routes.ensure("T")

        async def follow() -> None:
            found.append(await w.routes.ensure("T"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lead)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked()
            w.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, w.server.route)
            leader.cancel()
        assert len(found) == 1


async def test_a_follower_waits_no_longer_than_it_said(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        w.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)

        async def lead() -> None:
            with pytest.raises(NameServerUnreachableError):
                await w.routes.ensure("T", timeout=10)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lead)
            await trio.testing.wait_all_tasks_blocked()
            before = trio.current_time()
            with pytest.raises(NameServerUnreachableError, match="within 1 s") as error:
                await w.routes.ensure("T", timeout=1)
            assert trio.current_time() - before == pytest.approx(1)
            assert error.value.tried == (w.server.address,)


async def test_a_follower_with_more_time_asks_again_when_the_leader_has_none_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with world(T=data()) as w:
        w.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        found = []

        async def lead() -> None:
            with pytest.raises(NameServerUnreachableError):
                await w.routes.ensure("T", timeout=1)

        async def follow() -> None:
            found.append(await w.routes.ensure("T", timeout=10))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lead)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                nursery.start_soon(follow)
            await trio.sleep(0.9)
            asked = len(w.server.requests)
            w.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, w.server.route)
        assert len(found) == 3
        assert len(w.server.requests) == asked + 1
        assert trio.current_time() < 1.1


async def test_waiters_have_errors_of_their_own_whatever_the_error_is(autojump_clock: trio.testing.MockClock) -> None:
    async with world() as w:
        w.server.on(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            lambda connection, request: request.answer(ResponseCode.NO_PERMISSION, "go away"),
        )
        said = []

        async def ask() -> None:
            with pytest.raises(BrokerError, match="go away") as error:
                await w.routes.ensure("T")
            said.append(error.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert len({id(error) for error in said}) == 3
        assert {(type(error), error.code, error.address) for error in said} == {
            (NoPermissionError, ResponseCode.NO_PERMISSION, w.server.address)
        }
        assert len(w.server.requests) == 1


async def test_followers_get_the_cause_too(autojump_clock: trio.testing.MockClock) -> None:
    async with world() as w:
        said = []

        async def ask() -> None:
            with pytest.raises(TopicNotFoundError) as error:
                await w.routes.ensure("T")
            said.append(error.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert len({id(error) for error in said}) == 3, "each caller has an error of its own"
        assert w.server.codes() == [RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO]


# --- one error for each cause ----------------------------------------------------------------------------


async def test_S6_no_name_server_is_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        w.network.refuse(w.server.address)
        with pytest.raises(NameServerUnreachableError, match=r"no route to the topic T.*check that it is run") as error:
            await w.routes.ensure("T")
        assert (error.value.topic, error.value.tried) == ("T", (w.server.address,))


async def test_S6_an_unknown_topic_is_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    async with world() as w:
        with pytest.raises(TopicNotFoundError, match="does not exist: create it, or let brokers create") as error:
            await w.routes.ensure("T")
        assert (error.value.topic, error.value.tried) == ("T", (w.server.address,))
        with pytest.raises(TopicNotFoundError):
            await w.routes.ensure_subscribe("T")
        with pytest.raises(TopicNotFoundError, match="the topic T does not exist") as error:
            await w.routes.ensure("T", default_topic="TBW102")
        assert "TBW102" not in str(error.value), "nobody has asked for it"


async def test_S6_no_registered_broker_is_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    async with world() as w:
        w.server.brokers = {}
        said: list[BrokerUnreachableError] = []

        async def ask() -> None:
            with pytest.raises(
                BrokerUnreachableError, match="no route to the topic T: no broker is registered"
            ) as error:
                await w.routes.ensure("T", default_topic="TBW102")
            said.append(error.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert len({id(error) for error in said}) == 3, "each caller has an error of its own"
        assert w.server.codes().count(RequestCode.GET_BROKER_CLUSTER_INFO) == 1, "one question for all of them"
        assert said[0].tried == (w.server.address,)
        assert f"name server {w.server.address}: the broker is down, has not registered yet" in str(said[0])
        with pytest.raises(BrokerUnreachableError, match="no broker is registered"):
            await w.routes.ensure_subscribe("T")


async def test_a_refresh_does_not_ask_for_brokers(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        await w.routes.ensure("T")
        w.server.routes, w.server.brokers = {}, {}
        assert await w.routes.refresh("T") is not None, "the old route stays"
        assert await w.routes.refresh_existing("T") is None
        assert RequestCode.GET_BROKER_CLUSTER_INFO not in w.server.codes()


async def test_a_retry_topic_that_no_broker_has_made_yet_is_only_not_found(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with world() as w:
        w.server.brokers = {}
        with pytest.raises(TopicNotFoundError):
            await w.routes.ensure_subscribe("%RETRY%billing")


async def test_a_name_server_that_does_not_name_its_brokers_leaves_the_topic_not_found(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with world() as w:
        for silent in (lambda connection, request: None, lambda connection, request: request.answer(body=b"{")):
            w.server.on(RequestCode.GET_BROKER_CLUSTER_INFO, silent)
            began = trio.current_time()
            with pytest.raises(TopicNotFoundError, match="does not exist: create it"):
                await w.routes.ensure("T", timeout=2)
            assert trio.current_time() - began < 2.1, "one deadline for both questions"


async def test_S6_a_topic_without_permission_is_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    async with world(R=data(perm=4), W=data(perm=2)) as w:
        with pytest.raises(TopicNotWritableError, match=r"may not be written.*permission") as error:
            await w.routes.ensure("R")
        assert error.value.topic == "R"
        with pytest.raises(TopicNotWritableError, match="may not be read"):
            await w.routes.ensure_subscribe("W")
        assert len(await w.routes.ensure_subscribe("R")) == 2
        assert w.routes.publish_info("R") is None


async def test_S6_brokers_without_a_master_or_address_are_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    async with world(M=data(slave1="h:2"), A=data(master="::")) as w:
        with pytest.raises(BrokerUnreachableError, match=r"living master \(addresses given: h:2\); start a master"):
            await w.routes.ensure("M")
        with pytest.raises(
            BrokerUnreachableError, match=r"usable address \(addresses given: ::\).*address_map"
        ) as error:
            await w.routes.ensure("A")
        assert error.value.tried == ("::",)
        with pytest.raises(BrokerUnreachableError):
            await w.routes.ensure_subscribe("A")


async def test_registered_masters_are_found_without_any_topic(autojump_clock: trio.testing.MockClock) -> None:
    async with world() as w:
        assert await w.routes.masters("T", timeout=1) == {"a": "h:1"}
        w.server.brokers = {"a": BrokerData(broker_name="a", broker_addrs={1: "h:2"})}
        with pytest.raises(
            BrokerUnreachableError, match=r"T cannot be created: no registered .* master .*\(addresses given: h:2\)"
        ) as error:
            await w.routes.masters("T", timeout=1)
        assert error.value.tried == ("h:2",)


async def test_other_answers_keep_their_own_error(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data(queues=10**6)) as w:
        with pytest.raises(RemoteProtocolError, match="impossible number"):
            await w.routes.ensure("T")
        w.server.on(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            lambda connection, request: request.answer(ResponseCode.SYSTEM_ERROR, "broken"),
        )
        with pytest.raises(BrokerError, match="broken"):
            await w.routes.ensure("T")
        w.server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: request.answer(body=b"{"))
        with pytest.raises(RemoteProtocolError, match=w.server.address):
            await w.routes.ensure("T")


async def test_a_topic_that_may_be_used_again_is_asked_for_again(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data(perm=4)) as w:
        with pytest.raises(TopicNotWritableError):
            await w.routes.ensure("T")
        w.server.routes["T"] = data(perm=6)
        assert len((await w.routes.ensure("T")).queues) == 2


# --- topics that sending creates ---------------------------------------------------------------------------


async def test_a_topic_to_be_created_has_the_route_of_the_default_topic(autojump_clock: trio.testing.MockClock) -> None:
    async with world(TBW102=data(perm=7, queues=8)) as w:
        info = await w.routes.ensure("New", default_topic="TBW102", default_queue_nums=4)
        assert [queue.queue_id for queue in info.queues] == [0, 1, 2, 3]
        assert w.server.asked_for() == ["New", "TBW102"]
        await w.routes.refresh_all()
        assert w.routes.publish_info("New") == info, "still not there: the default route is kept"
        w.server.routes["New"] = data(queues=3)
        await w.routes.refresh_all()
        assert len(w.routes.publish_info("New").queues) == 3
        assert w.changed == ["New", "New"]


# --- keeping fresh -----------------------------------------------------------------------------------------


async def test_a_change_is_seen_and_told_once(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        await w.routes.ensure("T")
        await w.routes.refresh_all()
        assert w.changed == ["T"]
        w.server.routes["T"] = data(queues=5, master="h:9")
        await w.routes.refresh_all()
        await w.routes.refresh_all()
        assert w.changed == ["T", "T"]
        assert len(w.routes.publish_info("T").queues) == 5
        assert w.routes.broker_address("a") == "h:9"
        w.server.routes["T"] = data(perm=4)
        await w.routes.refresh_all()
        assert w.routes.publish_info("T") is None


async def test_a_good_route_outlives_the_name_servers(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data()) as w:
        info = await w.routes.ensure("T")
        del w.server.routes["T"]
        await w.routes.refresh_all()
        assert w.routes.publish_info("T") is info, "a name server that was restarted knows nothing for a while"
        w.network.refuse(w.server.address)
        w.network.cut()
        await w.routes.refresh_all()
        assert w.routes.publish_info("T") is info
        with pytest.raises(NameServerUnreachableError):
            await w.routes.refresh("T")


async def test_topics_that_consumers_wait_for_are_asked_for_until_they_are_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with world() as w:
        await w.routes.refresh_all(["Later"])
        assert w.routes.subscribe_queues("Later") is None
        w.server.routes["Later"] = data()
        await w.routes.refresh_all(["Later"])
        assert len(w.routes.subscribe_queues("Later")) == 2


async def test_one_damaged_route_does_not_keep_the_others_from_being_refreshed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with world(A=data(), B=data()) as w:
        await w.routes.ensure("A")
        await w.routes.ensure("B")
        w.server.routes["A"] = data(queues=10**6)
        w.server.routes["B"] = data(queues=3)
        await w.routes.refresh_all()
        assert len(w.routes.publish_info("A").queues) == 2
        assert len(w.routes.publish_info("B").queues) == 3


async def test_brokers_that_no_route_names_any_more_are_forgotten(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data(name="a", master="h:1", slave1="h:2"), U=data(name="b", master="h:3")) as w:
        await w.routes.ensure("T")
        await w.routes.ensure("U")
        assert w.routes.clean_offline_brokers() == []
        w.server.routes["U"] = data(name="c", master="h:4")
        w.server.routes["T"] = data(name="a", master="h:1")
        await w.routes.refresh_all()
        assert w.routes.clean_offline_brokers() == ["h:3"]
        assert w.routes.brokers() == {"a": {0: "h:1"}, "c": {0: "h:4"}}


async def test_an_address_at_which_a_broker_has_another_name_now_is_not_gone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with world(T=data(name="old")) as w:
        await w.routes.ensure("T")
        w.server.routes["T"] = data(name="new")
        await w.routes.refresh("T")
        assert w.routes.clean_offline_brokers() == []
        assert w.routes.brokers() == {"new": {0: "h:1"}}


async def test_whom_to_pull_from(autojump_clock: trio.testing.MockClock) -> None:
    async with world(T=data(master="h:1", slave2="h:2"), S=data(name="s", slave3="h:5")) as w:
        await w.routes.ensure("T")
        await w.routes.ensure_subscribe("S")
        assert w.routes.find_broker("a") == BrokerAddress("h:1", is_slave=False)
        assert w.routes.find_broker("a", 2) == BrokerAddress("h:2", is_slave=True)
        assert w.routes.find_broker("a", 1) == BrokerAddress("h:2", is_slave=True), "the next one"
        assert w.routes.find_broker("a", 7) == BrokerAddress("h:1", is_slave=False), "anybody"
        assert w.routes.find_broker("s") == BrokerAddress("h:5", is_slave=True)
        assert w.routes.find_broker("x") is None
        assert w.routes.broker_address("s") is None
        assert w.routes.broker_address("s", master=False) == "h:5"
        assert w.routes.broker_address("x", master=False) is None
        assert w.routes.broker_name(MessageQueue("T", "a", 0)) == "a"
        assert w.routes.broker_name(MessageQueue("Unknown", "z", 0)) == "z"
