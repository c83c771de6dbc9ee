"""MQClientInstance: shared by roles, heartbeats, fresh routes, an orderly end, nothing left behind."""

from __future__ import annotations

import os
import pickle
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.client.instance import MQClientInstance
from rocketpy.config import ProducerConfig
from rocketpy.errors import ClientClosedError, ConfigError, ServiceCrashedError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeBroker, FakeConsumer, FakeNameServer, FakeProducer, route_to


@attrs.define
class World:
    """A name server and two brokers; the topic T lives on both, A on the first."""

    network: MemoryNetwork
    names: FakeNameServer
    brokers: list[FakeBroker]

    def client(self, **fields: object) -> MQClientInstance:
        return MQClientInstance(namesrv=self.names.address, network=self.network, **fields)


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(FakeNameServer().open(network))
        brokers = [FakeBroker("broker-a"), FakeBroker("broker-b")]
        for broker in brokers:
            await stack.enter_async_context(broker.open(network))
        names.routes = {"T": route_to(*brokers), "A": route_to(brokers[0])}
        yield World(network, names, brokers)


def groups(broker: FakeBroker) -> tuple[set[str], set[str]]:
    """Producer and consumer groups of the last heartbeat."""
    last = broker.heartbeats[-1]
    return {p.group_name for p in last.producer_data_set}, {c.group_name for c in last.consumer_data_set}


# --- sharing ---------------------------------------------------------------------------------------------


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"network must be a Network, .* not 3"):
        MQClientInstance(namesrv="ns:9876", network=3)  # type: ignore[arg-type]


async def test_LC2_producers_and_consumers_share_a_client(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("T")
        client.register_producer("p1", FakeProducer())
        client.register_producer("p2", FakeProducer())
        client.register_consumer("c1", FakeConsumer("c1", "T"))
        await trio.sleep(0.1)
        for broker in world.brokers:
            assert groups(broker) == ({"p1", "p2"}, {"c1"})
            assert broker.heartbeats[-1].client_id == client.client_id
            assert len(broker.clients) == 1, "one connection for all of them"


async def test_LC2_one_group_twice_on_one_client_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        client.register_producer("g", FakeProducer())
        client.register_consumer("g", FakeConsumer("g"))
        with pytest.raises(ConfigError, match=r"has a producer of the group 'g' already.*client of its own"):
            client.register_producer("g", FakeProducer())
        with pytest.raises(ConfigError, match="has a consumer of the group 'g' already"):
            client.register_consumer("g", FakeConsumer("g"))
        async with world.client() as other:
            other.register_producer("g", FakeProducer())


async def test_LC2_a_role_that_goes_is_unregistered(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("T")
        client.register_producer("p", FakeProducer())
        client.register_consumer("c", FakeConsumer("c", "T"))
        await trio.sleep(0.1)
        await client.unregister_producer("p")
        await client.unregister_producer("p")
        await client.unregister_consumer("c")
        for broker in world.brokers:
            told = [(left.client_id, left.producer_group, left.consumer_group) for left in broker.left]
            assert told == [(client.client_id, "p", None), (client.client_id, None, "c")]
        beats = len(world.brokers[0].heartbeats)
        await trio.sleep(100)
        assert len(world.brokers[0].heartbeats) == beats, "nobody is left to tell of"


async def test_LC2_closing_tells_roles_then_brokers_then_hangs_up(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        producer, consumer = FakeProducer(), FakeConsumer("c", "T")
        async with world.client() as client:
            await client.routes.ensure("T")
            client.register_producer("p", producer)
            client.register_consumer("c", consumer)
            await trio.sleep(0.1)
        assert (producer.closing, consumer.closing) == (1, 1)
        for broker in world.brokers:
            assert {left.producer_group or left.consumer_group for left in broker.left} == {"p", "c"}
        await trio.sleep(0.1)
        assert world.network.links() == []
        assert not client.is_open


async def test_closing_waits_for_a_silent_broker_only_so_long(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        async with world.client(close_timeout=2.0) as client:
            await client.routes.ensure("T")
            client.register_producer("p", FakeProducer())
            await trio.sleep(0.1)
            world.brokers[0].on(RequestCode.UNREGISTER_CLIENT, lambda connection, request: None)
            before = trio.current_time()
        assert trio.current_time() - before <= 3.1
        assert len(world.brokers[1].left) == 1


async def test_closing_under_cancellation_still_says_goodbye(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        with trio.move_on_after(1):
            async with world.client() as client:
                await client.routes.ensure("T")
                client.register_producer("p", FakeProducer())
                await trio.sleep_forever()
        assert [len(broker.left) for broker in world.brokers] == [1, 1]
        assert world.network.links() == []


# --- starting --------------------------------------------------------------------------------------------


async def test_LC2_a_second_start_is_refused_and_harms_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        client = world.client()
        async with client:
            with pytest.raises(ClientClosedError, match="was started already"):
                await client.__aenter__()
            await client.routes.ensure("T")
        with pytest.raises(ClientClosedError, match="cannot be started again"):
            await client.__aenter__()


async def test_a_failed_start_leaves_nothing_behind(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world() as world:
        tasks = trio.lowlevel.current_statistics().tasks_living
        client = world.client()

        def broken() -> None:
            raise OSError("no")

        monkeypatch.setattr("rocketpy.client.instance.open_services", broken)
        with pytest.raises(OSError, match="no"):
            await client.__aenter__()
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert not client.is_open
        monkeypatch.undo()
        async with client:
            await client.routes.ensure("T")


def test_without_name_servers_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        MQClientInstance(network=MemoryNetwork())


async def test_use_outside_of_its_life_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world:
        client = world.client()
        with pytest.raises(ClientClosedError, match="not started"):
            client.register_producer("p", FakeProducer())
        async with client:
            client.check_open()
        with pytest.raises(ClientClosedError, match="closed"):
            client.register_consumer("c", FakeConsumer("c"))


async def test_a_bug_in_a_service_ends_the_client_loudly(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world() as world:
        client = world.client()

        async def bug(*args: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(client.routes, "refresh_all", bug)
        with pytest.raises(ServiceCrashedError):
            async with client:
                await trio.sleep(60)
        assert not client.is_open


# --- what it is ------------------------------------------------------------------------------------------


def test_every_client_has_an_id_of_its_own() -> None:
    network = MemoryNetwork()
    ids = {MQClientInstance(namesrv="a:1", network=network).client_id for _ in range(50)}
    assert len(ids) == 50
    host, _, rest = ids.pop().partition("@")
    assert host == "127.0.0.1"
    pid, boot, chance = rest.split("#")
    assert int(pid) == os.getpid()
    assert int(boot) > 10**18
    assert len(chance) == 8


def test_parts_of_the_client_id_may_be_set() -> None:
    client = MQClientInstance(
        namesrv="a:1", network=MemoryNetwork(), client_ip="10.1.2.3", instance_name="billing", unit_name="east"
    )
    assert client.client_id == "10.1.2.3@billing@east"
    assert "billing" in repr(client)


def test_a_role_s_config_makes_a_client() -> None:
    config = ProducerConfig(group="p", namesrv="a:1", request_timeout=9.0)
    client = MQClientInstance(config, network=MemoryNetwork(), heartbeat_broker_interval=7.0)
    assert client.config.request_timeout == 9.0
    assert client.config.heartbeat_broker_interval == 7.0
    assert not hasattr(client.config, "group")


def test_threat_L12_a_client_refuses_pickling_and_its_config_pickles() -> None:
    client = MQClientInstance(namesrv="a:1", network=MemoryNetwork())
    with pytest.raises(TypeError, match="MQClientInstance holds connections"):
        pickle.dumps(client)
    assert pickle.loads(pickle.dumps(client.config)) == client.config


async def test_threat_L12_a_client_used_after_a_fork_raises(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world() as world, world.client() as client:
        monkeypatch.setattr("rocketpy.client.lifecycle._forks", 1)
        with pytest.raises(ClientClosedError, match="make a new one in the child"):
            client.register_producer("p", FakeProducer())
        with pytest.raises(ClientClosedError, match="after a fork"):
            client.check_open()
        assert not client.is_open
        monkeypatch.undo()
        client.check_open()


async def test_threat_L12_a_copy_in_a_child_says_no_goodbye_for_the_parent(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world() as world:
        async with world.client() as client:
            await client.routes.ensure("A")
            client.register_producer("p", FakeProducer())
            await trio.sleep(0.1)
            monkeypatch.setattr("rocketpy.client.lifecycle._forks", 1)
        assert world.brokers[0].left == []


# --- heartbeats ------------------------------------------------------------------------------------------


async def test_heartbeats_come_at_their_interval(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("T")
        client.register_producer("p", FakeProducer())
        await trio.sleep(301)
        assert 10 <= len(world.brokers[0].heartbeats) <= 13
        assert client.heartbeats.versions == {broker.address: 479 for broker in world.brokers}


async def test_a_new_broker_gets_a_heartbeat_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        client.register_producer("p", FakeProducer())
        await client.routes.ensure("A")
        await trio.sleep(0.1)
        assert [len(broker.heartbeats) > 0 for broker in world.brokers] == [True, False]
        await client.routes.ensure("T")
        await trio.sleep(0.1)
        assert len(world.brokers[1].heartbeats) > 0


async def test_a_broker_that_lost_us_gets_a_heartbeat_with_the_next_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("A")
        client.register_producer("p", FakeProducer())
        await trio.sleep(1)
        broker = world.brokers[0]
        beats = len(broker.heartbeats)
        world.network.cut(broker.address)
        await trio.sleep(1)
        assert len(broker.heartbeats) == beats, "nobody needs the broker, nobody dials"
        await client.pool.get(broker.address, timeout=3)
        await trio.sleep(0.1)
        assert len(broker.heartbeats) == beats + 1
        assert broker.clients[-1].is_open


async def test_slaves_hear_of_consumers_only(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        route = route_to(world.brokers[0])
        route.broker_datas[0].broker_addrs[1] = world.brokers[1].address
        world.names.routes["T"] = route
        await client.routes.ensure("T")
        client.register_producer("p", FakeProducer())
        await trio.sleep(0.1)
        assert [len(broker.heartbeats) > 0 for broker in world.brokers] == [True, False]
        client.register_consumer("c", FakeConsumer("c", "T"))
        await trio.sleep(0.1)
        assert len(world.brokers[1].heartbeats) > 0


async def test_a_broker_that_is_away_is_warned_of_once_and_welcomed_back(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("T")
        client.register_producer("p", FakeProducer())
        await trio.sleep(1)
        caplog.clear()
        world.network.refuse(world.brokers[0].address)
        world.network.cut(world.brokers[0].address)
        await trio.sleep(200)
        failed = [r for r in caplog.records if "heartbeat to broker broker-a" in r.getMessage()]
        assert [r.levelname for r in failed].count("WARNING") == 1
        world.network.heal(world.brokers[0].address)
        await trio.sleep(70)
        assert any("answers heartbeats again" in r.getMessage() for r in caplog.records)
        assert len(world.brokers[1].heartbeats) > 5, "the other one was not kept waiting"


async def test_send_all_tells_how_many_answered(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        assert await client.heartbeats.send_all() == 0
        await client.routes.ensure("T")
        client.register_consumer("c", FakeConsumer("c", "T"))
        assert await client.heartbeats.send_all() == 2
        world.brokers[0].on(
            RequestCode.HEART_BEAT, lambda connection, request: request.answer(ResponseCode.SYSTEM_ERROR, "no")
        )
        assert await client.heartbeats.send_all() == 1


# --- routes ----------------------------------------------------------------------------------------------


async def test_routes_are_refreshed_and_roles_are_told(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        producer, consumer = FakeProducer(), FakeConsumer("c", "A")
        client.register_producer("p", producer)
        client.register_consumer("c", consumer)
        await client.routes.ensure("T")
        await trio.sleep(31)
        assert client.routes.subscribe_queues("A") is not None, "what consumers need is looked up too"
        world.names.routes["T"] = route_to(world.brokers[0], write=9)
        await trio.sleep(30)
        assert producer.changed == ["T", "A", "T"]
        assert consumer.changed == ["T", "A", "T"]
        assert len(client.routes.publish_info("T").queues) == 9


async def test_a_broker_that_left_every_route_is_hung_up_on(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("T")
        client.register_producer("p", FakeProducer())
        await trio.sleep(1)
        gone = world.brokers[1].address
        assert client.pool.nowait(gone) is not None
        world.names.routes["T"] = route_to(world.brokers[0])
        await trio.sleep(31)
        assert client.pool.nowait(gone) is None
        await trio.sleep(30)
        assert gone not in client.heartbeats.versions
        beats = len(world.brokers[1].heartbeats)
        await trio.sleep(100)
        assert len(world.brokers[1].heartbeats) == beats


# --- what brokers ask ------------------------------------------------------------------------------------


async def test_PC7_members_that_changed_mean_a_rebalance_of_that_group(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        ours, other = FakeConsumer("c1", "A"), FakeConsumer("c2", "A")
        await client.routes.ensure("A")
        client.register_consumer("c1", ours)
        client.register_consumer("c2", other)
        await trio.sleep(0.1)
        link = world.brokers[0].clients[0]
        for group in ("c1", "c1", "someone-elses"):
            link.send_oneway(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}))
        await trio.sleep(0.1)
        assert (ours.rebalances, other.rebalances) == (2, 0)


async def test_what_a_client_does_not_do_it_says(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("A")
        client.register_producer("p", FakeProducer())
        await trio.sleep(0.1)
        answer = await world.brokers[0].clients[0].request(RemotingCommand(RequestCode.PULL_MESSAGE), timeout=3)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert client.is_open


# --- virtual time ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_hours_pass_without_anything_piling_up(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as world, world.client() as client:
        await client.routes.ensure("T")
        client.register_producer("p", FakeProducer())
        await trio.sleep(65)
        tasks = trio.lowlevel.current_statistics().tasks_living
        await trio.sleep(14_400)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert client.pool.statistics().open == 3
        assert client.pool.statistics().dials == 3
