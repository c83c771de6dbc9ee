"""Servers that answer anything: every call ends with an error of ours, or with what could be read; nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from trio.testing import MockClock

from rocketpy import Admin, RocketMQError
from rocketpy.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeBroker, FakeNameServer, route_to
from tests.consumer.helpers import stored

QUEUE = MessageQueue("Orders", "broker-a", 0)
FIELDS = {"offset": "5", "timestamp": "1", "version": "1", "value": "x", "addTopicCount": "1", "wipeTopicCount": "1"}
BODIES = (
    b"",
    b"\xff\xfe",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b"[" * 5000,
    b'{"table":null,"topicList":null,"offsetTable":null,"subscriptionGroupTable":null}',
    b'{"table":1,"topicList":1,"offsetTable":1,"subscriptionGroupTable":1,"data":1,"consumeStatsList":1}',
    b'{"table":{"putTps":"x","bootTimestamp":"9999999999999999999999","msgPutTotalTodayNow":"","getTransferedTps":"-"}}',
    b'{"offsetTable":{{"topic":"Orders","brokerName":"broker-a","queueId":0}:{"minOffset":-9,"maxOffset":"x"}}}',
    b'{"consumeStatsList":[{"g":[{"offsetTable":{}}]},{"h":null}]}',
    b'{"connectionSet":[{}],"subscriptionTable":{"a":null}}',
    b'{"table":{"putTps":"inf","bootTimestamp":"inf","commitLogMinOffset":"nan","msgPutTotalTodayMorning":"-inf"}}',
    b'{"mqTable":{},"properties":{"PROP_CONSUMER_START_TIMESTAMP":"' + b"9" * 5000 + b'"},"statusTable":{"a":{}}}',
    b'{"data":{"g":[{}]},"groupList":["a",null,1],"consumerTable":{"c":{}}}',
    b"a\\u12=b\n",
)


def calls(admin: Admin) -> list[Callable[[], Awaitable[object]]]:
    """Every call that reads answers."""
    message = stored(5)
    message.broker_name = "broker-a"
    names, messages = admin.name_servers, admin.messages
    return [
        lambda: admin.topics.list(),
        lambda: admin.topics.get("Orders"),
        lambda: admin.topics.route("Orders"),
        lambda: admin.topics.stats("Orders"),
        lambda: admin.topics.get_all(),
        lambda: admin.topics.traffic("Orders"),
        lambda: admin.topics.update("Orders", queues=1),
        lambda: admin.topics.create("New", order=True),
        lambda: admin.topics.create("Orders", exist_ok=True),
        lambda: admin.topics.delete("Orders"),
        lambda: admin.groups.create("g", exist_ok=True),
        lambda: admin.groups.delete("g"),
        lambda: admin.groups.list(),
        lambda: admin.groups.get("g"),
        lambda: admin.groups.get_all(internal=True),
        lambda: admin.groups.update("g", consume=False),
        lambda: admin.groups.set_readable("g", "Orders", True),
        lambda: admin.offsets.lag("g"),
        lambda: admin.offsets.lags(),
        lambda: admin.offsets.at(QUEUE, 0),
        lambda: admin.offsets.reset("g", "Orders", "begin"),
        lambda: admin.offsets.commit("g", QUEUE, 5),
        lambda: admin.offsets.clone("g", "h", "Orders"),
        lambda: messages.view("7F000001" + "00004E21" + "0" * 16),
        lambda: messages.query("Orders", "key"),
        lambda: messages.query_unique("Orders", "AC1100010002" + "0" * 20),
        lambda: messages.read(QUEUE),
        lambda: messages.entries(QUEUE, group="g"),
        lambda: messages.by_time("Orders", 0),
        lambda: messages.dead_letters("g"),
        lambda: messages.replay_dead_letters("g"),
        lambda: messages.resend(message, topic="Orders"),
        lambda: messages.track(message),
        lambda: messages.trace("key", trace_topic="Orders"),
        lambda: admin.consumers.connections("g"),
        lambda: admin.consumers.of_topic("Orders"),
        lambda: admin.consumers.topics("g"),
        lambda: admin.consumers.state("g", "c"),
        lambda: admin.consumers.state("g", ""),
        lambda: admin.consumers.offsets("g", "Orders"),
        lambda: admin.consumers.consume("g", "", message),
        lambda: admin.producers.connections("g"),
        lambda: admin.producers.list(),
        lambda: admin.brokers.list(),
        lambda: admin.brokers.config("broker-a"),
        lambda: admin.brokers.runtimes(),
        lambda: admin.brokers.stats("broker-a", "TOPIC_PUT_NUMS", "Orders"),
        lambda: admin.brokers.replication("broker-a"),
        lambda: admin.brokers.set_writable("broker-a", True),
        lambda: admin.brokers.update_config({"traceOn": True}),
        lambda: admin.brokers.delete_unused_queues(),
        lambda: names.update_config({"orderMessageEnable": True}),
        lambda: names.set_order("Orders", {"broker-a": 1}),
        lambda: names.config(),
        lambda: names.get("a", "b"),
        lambda: names.list("a"),
    ]


@asynccontextmanager
async def answering(body: bytes, *, routes: bool) -> AsyncIterator[Admin]:
    """An Admin whose servers answer each request with a body; with `routes`, the name server alone knows better."""
    network = MemoryNetwork()
    servers: list[Any] = [FakeNameServer(), FakeBroker()]

    def answer(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.answer(body=body, ext_fields=FIELDS)

    known = {RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO} if routes else set()
    for server in servers:
        for code in RequestCode:
            if code not in known or server is not servers[0]:
                server.on(code, answer)
    async with servers[0].open(network), servers[1].open(network):
        servers[0].routes = {name: route_to(servers[1]) for name in ("Orders", "%DLQ%g")}
        async with Admin(namesrv=servers[0].address, network=network, request_timeout=2) as admin:
            yield admin


@pytest.mark.slow
@pytest.mark.parametrize("routes", [True, False], ids=["a broker", "all servers"])
@pytest.mark.parametrize("number", range(len(BODIES)))
async def test_any_answer_ends_in_an_error_of_ours(autojump_clock: MockClock, number: int, *, routes: bool) -> None:
    texts = []
    async with answering(BODIES[number], routes=routes) as admin:
        for call in calls(admin):
            try:
                texts.append(repr(await call()))
            except RocketMQError as error:
                texts.append(str(error))
        assert len(texts) == len(calls(admin))
    assert all(texts)
