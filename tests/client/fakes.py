"""Small name servers and brokers that answer from tables and remember what they were asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Processor, RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.server import RemotingServer, serve
from rocketpy.services import open_services
from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketpy.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy.wire.headers.group import UnregisterClientRequestHeader
from rocketpy.wire.headers.route import GetRouteInfoRequestHeader


class FakeServer:
    """A server whose processors are looked up by request code."""

    def __init__(self, processors: Mapping[int, Processor] | None = None) -> None:
        self.requests: list[RemotingCommand] = []
        self.dispatcher = RequestDispatcher(processors or {})
        self.address = ""
        self.server: RemotingServer | None = None

    def on(self, code: int, processor: Processor) -> None:
        self.dispatcher.processors[code] = processor

    def codes(self) -> list[int]:
        return [request.code for request in self.requests]

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        self.requests += requests
        return self.dispatcher.handle(connection, requests, arrived)

    @asynccontextmanager
    async def open(self, network: MemoryNetwork, port: int = 0) -> AsyncIterator[FakeServer]:
        async with open_services() as nursery:
            self.server = await nursery.start(serve, network, "127.0.0.1", port, self)
            self.address = self.server.addresses[0]
            yield self


class FakeNameServer(FakeServer):
    """Answers routes from a table, and names their brokers; without routes, those in `brokers`."""

    def __init__(self, routes: Mapping[str, TopicRouteData] | None = None) -> None:
        super().__init__(
            {RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route, RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster}
        )
        self.routes = dict(routes or {})
        self.brokers = {"a": BrokerData(broker_name="a", broker_addrs={0: "h:1"})}

    def cluster(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        routed = {each.broker_name: each for data in self.routes.values() for each in data.broker_datas}
        return request.answer(body=ClusterInfo(broker_addr_table=routed or self.brokers).encode())

    def route(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        topic = GetRouteInfoRequestHeader.from_ext(request.ext_fields).topic
        data = self.routes.get(topic)
        if data is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for {topic}")
        return request.answer(body=data.encode(browser_compatible=True))

    def asked_for(self) -> list[str]:
        return [request.ext_fields["topic"] for request in self.requests if "topic" in request.ext_fields]


class FakeBroker(FakeServer):
    """Takes heartbeats and farewells."""

    def __init__(self, name: str = "broker-a", version: int = 479) -> None:
        super().__init__({RequestCode.HEART_BEAT: self.heartbeat, RequestCode.UNREGISTER_CLIENT: self.unregister})
        self.name = name
        self.version = version
        self.heartbeats: list[HeartbeatData] = []
        self.left: list[UnregisterClientRequestHeader] = []
        self.clients: list[Connection] = []

    def heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.heartbeats.append(HeartbeatData.decode(request.body))
        if connection not in self.clients:
            self.clients.append(connection)
        answer = request.answer()
        answer.version = self.version
        return answer

    def unregister(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.left.append(UnregisterClientRequestHeader.from_ext(request.ext_fields))
        return request.answer()


def route_to(*brokers: FakeBroker, read: int = 4, write: int = 4, perm: int = 6) -> TopicRouteData:
    """A route to masters of the given brokers."""
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name=each.name, broker_addrs={0: each.address}) for each in brokers],
        queue_datas=[
            QueueData(broker_name=each.name, read_queue_nums=read, write_queue_nums=write, perm=perm)
            for each in brokers
        ],
    )


class FakeProducer:
    """A producer as a client sees it."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.closing = 0

    def on_route_changed(self, topic: str) -> None:
        self.changed.append(topic)

    def client_closing(self) -> None:
        self.closing += 1


class FakeConsumer(FakeProducer):
    """A consumer as a client sees it."""

    def __init__(self, group: str, *topics: str) -> None:
        super().__init__()
        self.group = group
        self.subscribed = topics
        self.rebalances = 0

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        )

    def topics(self) -> tuple[str, ...]:
        return self.subscribed

    def rebalance_now(self) -> None:
        self.rebalances += 1
