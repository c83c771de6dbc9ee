"""Answers about very many topics, groups and queues: other tasks run while they are read, and all of it arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketpy import Admin, RemoteProtocolError
from rocketpy.admin.slices import sorted_steps
from rocketpy.client.call import ADMIN_LIMITS
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.steps import run_steps
from tests.client.fakes import FakeBroker, FakeNameServer, route_to

COUNT = 30_000
LEAST_TURNS = 100
"""Turns that another task must get, at five milliseconds of work in each at most."""
OFFSETS = '{"brokerOffset":7,"consumerOffset":5,"lastTimestamp":0,"pullOffset":6}'


def table(value: str) -> str:
    """A table by queue as brokers write it, with objects for keys, in no order."""
    numbers = reversed(range(COUNT))
    return ",".join(f'{{"brokerName":"broker-a","queueId":{each},"topic":"Orders"}}:{value}' for each in numbers)


def names(prefix: str) -> str:
    return ",".join(f'"{prefix}{number:05}"' for number in reversed(range(COUNT)))


@asynccontextmanager
async def answering(code: RequestCode, body: str) -> AsyncIterator[Admin]:
    """An Admin whose servers answer one request with a large body."""
    network, name_server, broker = MemoryNetwork(), FakeNameServer(), FakeBroker()
    data = body.encode()
    for server in (name_server, broker):
        server.on(code, lambda _, request: request.answer(body=data))
    async with name_server.open(network), broker.open(network):
        name_server.routes = {"Orders": route_to(broker)}
        async with Admin(namesrv=name_server.address, network=network, request_timeout=20) as admin:
            yield admin


async def watched(work: Callable[[], Awaitable[Any]]) -> tuple[Any, int]:
    """What a call returns, and how many turns another task had meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        found = await work()
        nursery.cancel_scope.cancel()
    return found, turns


CASES: dict[str, tuple[RequestCode, str, Callable[[Admin], Awaitable[Any]], Callable[[Any], Any]]] = {
    "lag": (
        RequestCode.GET_CONSUME_STATS,
        f'{{"offsetTable":{{{table(OFFSETS)}}}}}',
        lambda admin: admin.offsets.lag("g", topic="Orders"),
        lambda found: found.queues,
    ),
    "lags": (
        RequestCode.GET_BROKER_CONSUME_STATS,
        f'{{"consumeStatsList":[{{"g":[{{"offsetTable":{{{table(OFFSETS)}}}}}]}}]}}',
        lambda admin: admin.offsets.lags(),
        lambda found: found[0].queues,
    ),
    "stats": (
        RequestCode.GET_TOPIC_STATS_INFO,
        '{"offsetTable":{' + table('{"maxOffset":3}') + "}}",
        lambda admin: admin.topics.stats("Orders"),
        lambda found: found.queues,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
async def test_the_loop_goes_on_while_many_queues_are_read(autojump_clock: MockClock, name: str) -> None:
    code, body, ask, queues = CASES[name]
    async with answering(code, body) as admin:
        found, turns = await watched(lambda: ask(admin))
    assert [each.queue for each in queues(found)] == [MessageQueue("Orders", "broker-a", n) for n in range(COUNT)]
    assert turns > LEAST_TURNS


@pytest.mark.slow
@pytest.mark.parametrize("internal", [True, False])
async def test_many_topics_are_listed(autojump_clock: MockClock, *, internal: bool) -> None:
    body = f'{{"topicList":[{names("topic-")}]}}'
    async with answering(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, body) as admin:
        found = await admin.topics.list(internal=internal)
    assert found == tuple(f"topic-{number:05}" for number in range(COUNT))


@pytest.mark.slow
async def test_many_groups_are_listed(autojump_clock: MockClock) -> None:
    settings = '"consumeEnable":true,"retryMaxTimes":16,"brokerId":0,"attributes":{},"groupRetryPolicy":{"type":"X"}'
    groups = ",".join(f'"g{n:05}":{{"groupName":"g{n:05}",{settings}}}' for n in reversed(range(COUNT)))
    body = f'{{"subscriptionGroupTable":{{{groups}}}}}'
    async with answering(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, body) as admin:
        found, turns = await watched(admin.groups.list)
    assert found == tuple(f"g{number:05}" for number in range(COUNT))
    assert turns > LEAST_TURNS


@pytest.mark.slow
async def test_the_settings_of_many_topics_and_groups_are_read(autojump_clock: MockClock) -> None:
    queues = '"readQueueNums":8,"writeQueueNums":8,"perm":6,"topicFilterType":"SINGLE_TAG","topicSysFlag":0'
    topics = ",".join(
        f'"T{n:05}":{{"topicName":"T{n:05}",{queues},"order":false,"attributes":{{}}}}' for n in reversed(range(COUNT))
    )
    settings = '"consumeEnable":true,"retryMaxTimes":16,"brokerId":0,"attributes":{},"retryQueueNums":1'
    groups = ",".join(f'"g{n:05}":{{"groupName":"g{n:05}",{settings}}}' for n in reversed(range(COUNT)))
    async with answering(RequestCode.GET_ALL_TOPIC_CONFIG, f'{{"topicConfigTable":{{{topics}}}}}') as admin:
        found, turns = await watched(admin.topics.get_all)
    assert [each.topic for each in found] == [f"T{number:05}" for number in range(COUNT)]
    assert turns > LEAST_TURNS
    body = f'{{"subscriptionGroupTable":{{{groups}}}}}'
    async with answering(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, body) as admin:
        found, turns = await watched(admin.groups.get_all)
    assert [each.group for each in found] == [f"g{number:05}" for number in range(COUNT)]
    assert turns > LEAST_TURNS


@pytest.mark.slow
async def test_an_answer_beyond_all_bounds_is_refused(autojump_clock: MockClock) -> None:
    assert ADMIN_LIMITS.max_frame == DEFAULT_LIMITS.max_frame
    body = '{"topicList":[' + "[]," * (ADMIN_LIMITS.max_body_members // 2 + 1) + "1]}"
    async with answering(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, body) as admin:
        with pytest.raises(RemoteProtocolError, match=f"more than {ADMIN_LIMITS.max_body_members} members"):
            await admin.topics.list()


@given(st.lists(st.integers(0, 9), max_size=3000))
def test_sorting_in_steps_is_sorting(numbers: list[int]) -> None:
    items = list(enumerate(numbers))
    assert run_steps(sorted_steps(items, key=lambda each: each[1])) == tuple(sorted(items, key=lambda each: each[1]))
