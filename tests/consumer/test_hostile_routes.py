"""Routes that make no sense under a consumer: what it makes of each, and that the next good one is enough."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.wire.codes import RequestCode
from tests.consumer.brokers import World, queue, world
from tests.system.consuming import Recorder, wait_until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUICK = {"consume_from_where": FIRST, "poll_name_server_interval": 1.0, "rebalance_interval": 2.0}


def at(*addresses: str, queues: int = 1, first_id: int = 0) -> TopicRouteData:
    """A route to one broker: its master and slaves, or slaves alone."""
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name="broker-a", broker_addrs=dict(enumerate(addresses, first_id)))],
        queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=queues, write_queue_nums=queues, perm=6)],
    )


NOT_USABLE = {
    "empty": (TopicRouteData(), "may not be read"),
    "no broker": (TopicRouteData(queue_datas=at("h:1").queue_datas), "usable address"),
    "no address": (at(), "usable address"),
    "no port": (at("::"), "usable address"),
    "port 0": (at("127.0.0.1:0"), "usable address"),
    "port 70000": (at("127.0.0.1:70000"), "usable address"),
    "a URL": (at("file:///etc/passwd"), "usable address"),
    "too many queues": (at("127.0.0.1:1", queues=10**6), "impossible number"),
    "fewer than none": (at("127.0.0.1:1", queues=-1), "impossible number"),
}
NOBODY_THERE = {
    "loopback": at("127.0.0.1:9"),
    "link-local": at("169.254.169.254:80"),
    "a shell's": at("$(touch x):10911"),
    "a word": at("broker-a:10911"),
    "slaves alone": at("127.0.0.1:9", "10.0.0.1:9", first_id=1),
}


TOPICS = ("Orders", "%RETRY%billing")


async def recovers(w: World, got: Recorder) -> None:
    """With the next good route everything comes."""
    for topic in TOPICS:
        w.set_route(topic)
    await got.wait_count(3, within=90)
    assert [message.queue_offset for message in got.messages] == [0, 1, 2]


@pytest.mark.parametrize("what", NOT_USABLE)
async def test_threat_M14_a_route_that_cannot_be_used_is_told_and_the_next_one_counts(
    autojump_clock: MockClock, what: str
) -> None:
    route, why = NOT_USABLE[what]
    async with world() as w:
        w.broker.store(3)
        w.set_route("Orders", route)
        got = Recorder()
        consumer = w.consumer(**QUICK)
        consumer.subscribe("Orders", got)
        async with consumer:
            await wait_until(lambda: "Orders" in consumer.status().errors, within=10)
            assert why in str(consumer.status().errors["Orders"])
            assert consumer.assignment == ()
            await recovers(w, got)
            assert "Orders" not in consumer.status().errors


@pytest.mark.parametrize("what", NOBODY_THERE)
async def test_threat_M14_an_address_is_only_dialled_and_not_for_long(autojump_clock: MockClock, what: str) -> None:
    dialled: set[tuple[str, int]] = set()
    async with world() as w:
        open_stream = w.network.open_stream

        async def noted(host: str, port: int) -> trio.abc.Stream:
            dialled.add((host, port))
            return await open_stream(host, port)

        w.network.open_stream = noted  # type: ignore[method-assign]
        w.broker.store(3)
        for topic in TOPICS:
            w.set_route(topic, NOBODY_THERE[what])
        wanted = NOBODY_THERE[what].broker_datas[0].broker_addrs.values()
        got = Recorder()
        consumer = w.consumer(**QUICK)
        consumer.subscribe("Orders", got)
        began = trio.current_time()
        async with consumer:
            assert trio.current_time() - began <= consumer.config.start_timeout + 0.5
            await trio.sleep(5)
            known = {w.broker.address, w.name_server.address, *wanted}
            assert {f"{host}:{port}" for host, port in dialled} <= known
            assert got.messages == []
            await recovers(w, got)


async def test_threat_M14_a_running_consumer_keeps_what_it_has_when_routes_turn_bad(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(**QUICK)
        consumer.subscribe("Orders", got)
        async with consumer:
            assert consumer.assignment == (queue(0),)
            w.set_route("Orders", at("127.0.0.1:1", queues=10**6))
            await trio.sleep(10)
            w.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _, request: request.answer(body=b"{"))
            await trio.sleep(10)
            w.broker.store(3)
            await got.wait_count(3, within=10)
            assert consumer.assignment == (queue(0),)
