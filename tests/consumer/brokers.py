"""A broker that gives messages as told, and a world around it, for tests of the consumer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import trio

from rocketpy.consumer import LitePullConsumer
from rocketpy.consumer.push import PushConsumer
from rocketpy.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.groups import GetConsumerListByGroupResponseBody
from rocketpy.wire.bodies.route import TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.offset import (
    GetMaxOffsetResponseHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.wire.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.wire.properties import decode_properties
from tests.client.fakes import FakeBroker, FakeNameServer, route_to
from tests.consumer.helpers import record

Queue = tuple[str, int]
Step = Callable[[RemotingCommand, PullMessageRequestHeader], RemotingCommand | None]


@attrs.define
class Log:
    """One queue of the broker."""

    records: dict[int, bytes] = attrs.Factory(dict)
    min_offset: int = 0
    max_offset: int = 0


class PullBroker(FakeBroker):
    """Gives what is in its logs. Pulls that find nothing are parked until something is there.

    `script` holds a step for each of the next pulls: a code to answer, or a function of request and header.
    """

    def __init__(self, name: str = "broker-a") -> None:
        super().__init__(name)
        self.logs: defaultdict[Queue, Log] = defaultdict(Log)
        self.script: list[int | Step] = []
        self.pulls: list[PullMessageRequestHeader] = []
        self.pull_times: list[float] = []
        self.parked: list[tuple[Connection, RemotingCommand]] = []
        self.offsets: dict[Queue, int] = {}
        self.commits: list[UpdateConsumerOffsetRequestHeader] = []
        self.searches: list[SearchOffsetRequestHeader] = []
        self.members: list[str] | None = None
        """What to answer when asked for members; None for the ids of heartbeats."""
        self.query_code: int = 0
        """What queries for offsets are refused with, 0 when they are not."""
        self.send_back_code: int | str = 0
        self.sent_back: list[ConsumerSendMsgBackRequestHeader] = []
        self.send_code: int = 0
        self.sent: list[SendMessageRequestHeader] = []
        self.hangs = False
        """Whether it takes requests and answers none."""
        self.on(RequestCode.PULL_MESSAGE, self.pull)
        self.on(RequestCode.LITE_PULL_MESSAGE, self.pull)
        self.on(RequestCode.GET_MIN_OFFSET, self.min_offset)
        self.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.list_members)
        self.on(RequestCode.QUERY_CONSUMER_OFFSET, self.query_offset)
        self.on(RequestCode.UPDATE_CONSUMER_OFFSET, self.update_offset)
        self.on(RequestCode.GET_MAX_OFFSET, self.max_offset)
        self.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search)
        self.on(RequestCode.CONSUMER_SEND_MSG_BACK, self.take_back)
        self.on(RequestCode.SEND_MESSAGE_V2, self.send)

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        if self.hangs:
            self.requests += requests
            return None
        return super().handle(connection, requests, arrived)

    # --- messages -------------------------------------------------------------------------------------

    def store(self, count: int, *, topic: str = "Orders", queue_id: int = 0, **fields: Any) -> None:
        """Append messages to a queue, and answer the pulls that wait."""
        log = self.logs[topic, queue_id]
        for offset in range(log.max_offset, log.max_offset + count):
            log.records[offset] = record(offset, topic=topic, queue_id=queue_id, **fields)
        log.max_offset += count
        parked, self.parked = self.parked, []
        for connection, request in parked:
            answer = self._answer(connection, request)
            if answer is not None:
                connection.send_answer(request, answer)

    def pull(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        header = PullMessageRequestHeader.from_ext(request.ext_fields)
        self.pulls.append(header)
        self.pull_times.append(trio.current_time())
        if header.sys_flag & 1:
            self.offsets[header.topic, header.queue_id] = header.commit_offset
        if self.script and not header.topic.startswith("%"):
            step = self.script.pop(0)
            return step(request, header) if callable(step) else request.answer(step, "as told")
        return self._answer(connection, request)

    def _answer(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        header = PullMessageRequestHeader.from_ext(request.ext_fields)
        log = self.logs[header.topic, header.queue_id]
        wanted = range(header.queue_offset, min(header.queue_offset + header.max_msg_nums, log.max_offset))
        found = [log.records[offset] for offset in wanted if offset in log.records]
        if not found:
            self.parked.append((connection, request))
            return None
        return self.answer_pull(request, ResponseCode.SUCCESS, wanted[-1] + 1, b"".join(found))

    def answer_pull(
        self, request: RemotingCommand, code: int, next_offset: int, body: bytes = b"", suggested: int = 0
    ) -> RemotingCommand:
        header = PullMessageRequestHeader.from_ext(request.ext_fields)
        log = self.logs[header.topic, header.queue_id]
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=suggested,
            next_begin_offset=next_offset,
            min_offset=log.min_offset,
            max_offset=log.max_offset,
        )
        return request.answer(code, None, answer.to_ext(), body)

    def answer_parked(self, code: int, next_offset: int, *, topic: str = "Orders") -> None:
        """Answer the pulls of a topic that wait."""
        waiting = [each for each in self.parked if each[1].ext_fields["topic"] == topic]
        self.parked = [each for each in self.parked if each not in waiting]
        for connection, request in waiting:
            connection.send_answer(request, self.answer_pull(request, code, next_offset))

    def times(self, topic: str = "Orders") -> list[float]:
        """When a topic was pulled."""
        return [at for at, pull in zip(self.pull_times, self.pulls, strict=True) if pull.topic == topic]

    def pulled(self, topic: str = "Orders") -> list[int]:
        """The offsets that were asked for."""
        return [header.queue_offset for header in self.pulls if header.topic == topic]

    # --- groups and offsets ---------------------------------------------------------------------------

    def list_members(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        gone = {each.client_id for each in self.left}
        known = sorted({beat.client_id for beat in self.heartbeats} - gone)
        members = known if self.members is None else self.members
        return request.answer(body=GetConsumerListByGroupResponseBody(consumer_id_list=members).encode())

    def query_offset(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = QueryConsumerOffsetRequestHeader.from_ext(request.ext_fields)
        if self.query_code:
            return request.answer(self.query_code, "as told")
        offset = self.offsets.get((header.topic, header.queue_id))
        if offset is None:
            return request.answer(ResponseCode.QUERY_NOT_FOUND, "not found")
        return request.answer(ext_fields=QueryConsumerOffsetResponseHeader(offset=offset).to_ext())

    def update_offset(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = UpdateConsumerOffsetRequestHeader.from_ext(request.ext_fields)
        self.commits.append(header)
        self.offsets[header.topic, header.queue_id] = header.commit_offset
        return request.answer()

    def max_offset(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        fields = request.ext_fields
        log = self.logs[fields["topic"], int(fields["queueId"])]
        return request.answer(ext_fields=GetMaxOffsetResponseHeader(offset=log.max_offset).to_ext())

    def min_offset(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        fields = request.ext_fields
        log = self.logs[fields["topic"], int(fields["queueId"])]
        return request.answer(ext_fields=GetMinOffsetResponseHeader(offset=log.min_offset).to_ext())

    def search(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.searches.append(SearchOffsetRequestHeader.from_ext(request.ext_fields))
        return request.answer(ext_fields={"offset": "30"})

    # --- what comes back --------------------------------------------------------------------------------

    def take_back(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.sent_back.append(ConsumerSendMsgBackRequestHeader.from_ext(request.ext_fields))
        if self.send_back_code == "silence":
            return None
        return request.answer(int(self.send_back_code), "as told")

    def send(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.sent.append(SendMessageRequestHeader.from_short_ext(request.ext_fields))
        answer = SendMessageResponseHeader(msg_id="0" * 32, queue_id=0, queue_offset=0)
        return request.answer(self.send_code, "as told", None if self.send_code else answer.to_ext())

    def sent_properties(self) -> list[dict[str, str]]:
        return [decode_properties(header.properties or "") for header in self.sent]


class World:
    """Brokers, a name server that knows them, and consumers."""

    def __init__(self, network: MemoryNetwork, name_server: FakeNameServer, brokers: list[PullBroker]) -> None:
        self.network = network
        self.name_server = name_server
        self.brokers = brokers

    @property
    def broker(self) -> PullBroker:
        return self.brokers[0]

    def consumer(self, group: str = "billing", **settings: Any) -> PushConsumer:
        settings = {"namesrv": self.name_server.address, "network": self.network, **settings}
        return PushConsumer(group, **settings)

    def lite(self, group: str = "billing", **settings: Any) -> LitePullConsumer:
        settings = {"namesrv": self.name_server.address, "network": self.network, **settings}
        return LitePullConsumer(group, **settings)

    def set_route(self, topic: str, data: TopicRouteData | None = None, *, queues: int = 1) -> None:
        self.name_server.routes[topic] = data or route_to(*self.brokers, read=queues, write=queues)


@asynccontextmanager
async def world(*names: str, queues: int = 1, topics: tuple[str, ...] = ("Orders",)) -> AsyncIterator[World]:
    """Brokers with those names, each with so many queues of each topic, and the retry topic of billing."""
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        brokers = [PullBroker(name) for name in names or ("broker-a",)]
        for broker in brokers:
            await stack.enter_async_context(broker.open(network))
        name_server = FakeNameServer()
        await stack.enter_async_context(name_server.open(network))
        made = World(network, name_server, brokers)
        for topic in topics:
            made.set_route(topic, queues=queues)
        made.set_route("%RETRY%billing")
        yield made


def queue(number: int = 0, broker: str = "broker-a", topic: str = "Orders") -> MessageQueue:
    return MessageQueue(topic, broker, number)
