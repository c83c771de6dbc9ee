"""Topics that a first send, give-back or heartbeat makes: the name servers have them when that is answered."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.route import TopicRouteData
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy_broker_sim.namesrv import open_name_server
from tests.broker_sim.broker.kit import Client, client_of, heartbeat
from tests.broker_sim.broker.test_registration import name_servers, opened


async def route_of(names: Client, topic: str) -> TopicRouteData | None:
    answer = await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return None if answer.code else TopicRouteData.decode(answer.body)


async def test_the_name_server_has_a_new_topic_when_its_first_send_is_answered(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with open_name_server(network=network) as server, opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client, client_of(network, server.address) as names:
            for n in range(20):
                assert await route_of(names, f"New-{n}") is None
                assert (await client.send(f"New-{n}")).code == 0
                assert await route_of(names, f"New-{n}") is not None


async def test_the_name_server_has_the_retry_topic_when_a_message_has_been_given_back(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with open_name_server(network=network) as server, opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client, client_of(network, server.address) as names:
            await client.heartbeat("g", "T")
            await client.send("T")
            for level, topic in ((0, "%RETRY%g"), (-1, "%DLQ%g")):
                broker.topics.delete(topic)
                header = ConsumerSendMsgBackRequestHeader(offset=0, group="g", delay_level=level)
                assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_ext())).code == 0
                assert await route_of(names, topic) is not None


async def test_the_name_server_has_the_retry_topics_when_the_first_heartbeat_of_the_groups_is_answered(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with open_name_server(network=network) as server, opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client, client_of(network, server.address) as names:
            await client.send("T")
            for n in range(20):
                assert await route_of(names, f"%RETRY%g{n}") is None
                assert (await client.heartbeat(f"g{n}", "T")).code == 0
                assert await route_of(names, f"%RETRY%g{n}") is not None
            several = heartbeat("h", "T")
            several.consumer_data_set += heartbeat("i", "T").consumer_data_set
            assert (await client.ask(RequestCode.HEART_BEAT, body=several.encode())).code == 0
            for name in ("h", "i"):
                assert await route_of(names, f"%RETRY%{name}") is not None


async def test_a_retry_topic_that_is_deleted_during_the_first_heartbeat_is_made_again(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client, trio.open_nursery() as nursery:
            server.silent = True
            codes: list[int] = []

            async def beat() -> None:
                codes.append((await client.heartbeat("g", "T")).code)

            nursery.start_soon(beat)
            await trio.sleep(0.2)
            assert broker.topics.delete("%RETRY%g")
            nursery.start_soon(beat)
        assert codes == [0, 0]


async def test_a_heartbeat_that_comes_during_the_first_one_waits_with_it(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client, trio.open_nursery() as nursery:
            server.silent = True
            ended: list[float] = []
            began = trio.current_time()

            async def beat() -> None:
                assert (await client.heartbeat("g", "T")).code == 0
                ended.append(round(trio.current_time() - began, 1))

            for _ in range(2):
                nursery.start_soon(beat)
                await trio.sleep(0.2)
            assert ended == []
        assert ended == [0.5, 0.5]


async def test_a_name_server_that_hangs_delays_the_first_heartbeat_of_a_group_by_half_a_second_and_no_other(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            server.silent = True
            for expected in (0.5, 0.0):
                began = trio.current_time()
                assert (await client.heartbeat("g", "T")).code == 0
                assert round(trio.current_time() - began, 1) == expected


async def test_a_name_server_that_hangs_delays_the_first_send_by_half_a_second_and_no_other(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            await client.send("Old")
            server.silent = True
            took: dict[str, float] = {}
            began = trio.current_time()

            async def send(name: str, topic: str) -> None:
                assert (await client.send(topic)).code == 0
                took[name] = round(trio.current_time() - began, 1)

            async with trio.open_nursery() as nursery:
                for name, topic in (("first", "New"), ("second", "New"), ("old", "Old")):
                    nursery.start_soon(send, name, topic)
            # Tasks of a nursery begin in no set order: one of the two made the topic, and waited for it.
            assert sorted((took.pop("first"), took.pop("second"))) == [0.0, 0.5]
            assert took == {"old": 0.0}


async def test_a_broker_that_leaves_waits_for_no_name_server(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client, trio.open_nursery() as nursery:
            server.silent = True
            nursery.start_soon(broker.naming.leave)
            await wait_all_tasks_blocked()
            assert server.codes()[-1] == RequestCode.UNREGISTER_BROKER
            began = trio.current_time()
            for topic in ("New", "Newer"):
                assert (await client.send(topic)).code == 0
            assert trio.current_time() - began <= 0.5


async def test_without_a_name_server_nobody_waits_for_one(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with opened(network, []) as broker, client_of(network, broker.address) as client:
        began = trio.current_time()
        assert (await client.send("New")).code == 0
        assert trio.current_time() == began


async def test_with_synchronous_flushing_the_first_send_waits_for_the_disk_and_for_the_name_server(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        async with opened(network, [server.address], flush_disk_type="SYNC_FLUSH") as broker:
            async with client_of(network, broker.address) as client:
                await client.send("Old")
                server.silent = True
                began = trio.current_time()
                assert (await client.send("New")).code == 0
                assert 0.5 <= trio.current_time() - began < 0.6
                assert broker.store.flushed_position == broker.store.written_position
