"""The client half and the server half of routes, together: two name servers of ours and the client's route table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.testing

from rocketpy.client.api import name_server as api
from rocketpy.client.call import ask, request
from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import NameServerUnreachableError, TopicNotFoundError, TopicNotWritableError
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.bodies.registration import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.route import RegisterBrokerRequestHeader
from rocketpy_broker_sim.config import NamesrvConfig, NettyServerConfig
from rocketpy_broker_sim.namesrv import NameServer, open_name_server


class World:
    """Name servers, a broker that is registered with them all, and a client."""

    def __init__(self, servers: list[NameServer], pool: ConnectionPool, client: MQClientInstance) -> None:
        self.servers = servers
        self.client = client
        self._pool = pool
        self._counter = 0

    async def register(self, name: str, *topics: TopicConfig) -> None:
        self._counter += 1
        version = DataVersion(timestamp=self._counter, counter=self._counter)
        table = {topic.topic_name: topic for topic in topics}
        wrapper = TopicConfigAndMappingSerializeWrapper(topic_config_table=table, data_version=version)
        header = RegisterBrokerRequestHeader(
            broker_name=name,
            broker_addr=f"127.0.0.1:{10_000 + ord(name[-1])}",
            cluster_name="c",
            ha_server_addr="",
            broker_id=0,
        )
        data = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
        for server in self.servers:
            command = request(RequestCode.REGISTER_BROKER, header, data)
            await ask(self._pool, server.address, command, timeout=3, doing="registering")


def topic(name: str, queues: int = 2, perm: int = 6) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    network = MemoryNetwork()
    config = NamesrvConfig(order_message_enable=True, server=NettyServerConfig(listen_port=0))
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(open_name_server(config, network=network)) for _ in range(2)]
        pool = await stack.enter_async_context(ConnectionPool(network).open())
        client = MQClientInstance(namesrv=[server.address for server in servers], network=network)
        await stack.enter_async_context(client)
        yield World(servers, pool, client)


async def test_S19_routes_of_registered_brokers_become_queues(autojump_clock: trio.testing.MockClock) -> None:
    async with open_world() as w:
        await w.register("broker-b", topic("T"), topic("R", perm=4))
        await w.register("broker-a", topic("T", 1), topic("U"))
        routes = w.client.routes
        info = await routes.ensure("T")
        assert info.queues == (
            MessageQueue("T", "broker-a", 0),
            MessageQueue("T", "broker-b", 0),
            MessageQueue("T", "broker-b", 1),
        )
        assert routes.broker_address("broker-b") == f"127.0.0.1:{10_000 + ord('b')}"
        with pytest.raises(TopicNotWritableError):
            await routes.ensure("R")
        with pytest.raises(TopicNotFoundError):
            await routes.ensure("Unknown", default_topic="TBW102")
        cluster = await api.cluster_info(w.client.name_servers)
        assert cluster.cluster_addr_table == {"c": {"broker-a", "broker-b"}}


async def test_N11_order_configuration_reaches_the_client_with_the_route(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as w:
        await w.register("broker-a", topic("T", 4), topic("U"))
        await w.register("broker-b", topic("T", 4), topic("U"))
        names = w.client.name_servers
        assert not (await w.client.routes.ensure("T")).order_topic
        await api.put_kv_config(names, api.ORDER_TOPIC_CONFIG, "T", "broker-b:2;broker-a:1")
        await w.client.routes.refresh("T")
        info = w.client.routes.publish_info("T")
        assert info.order_topic
        assert [(queue.broker_name, queue.queue_id) for queue in info.queues] == [
            ("broker-b", 0),
            ("broker-b", 1),
            ("broker-a", 0),
        ]
        assert await api.get_kv_config(names, api.ORDER_TOPIC_CONFIG, "T") == "broker-b:2;broker-a:1"
        await api.delete_kv_config(names, api.ORDER_TOPIC_CONFIG, "T")
        await w.client.routes.refresh("T")
        assert len(w.client.routes.publish_info("T").queues) == 8


async def test_S6_a_name_server_that_stops_is_replaced_and_none_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_world() as w:
        await w.register("broker-a", topic("T"), topic("U"))
        names = w.client.name_servers
        await w.client.routes.ensure("T")
        first = next(server for server in w.servers if server.address == names.current)
        second = next(server for server in w.servers if server is not first)
        assert first.remoting is not None
        assert second.remoting is not None
        await first.remoting.stop(0.5)
        await w.client.routes.ensure("U")
        assert names.current == second.address
        await second.remoting.stop(0.5)
        with pytest.raises(NameServerUnreachableError) as error:
            await w.client.routes.ensure("V")
        assert set(error.value.tried) == {first.address, second.address}
        assert w.client.routes.publish_info("T") is not None
