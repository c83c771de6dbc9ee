"""Routes and members that change under a consumer: no queue is left without its pulls, and none goes unsaid."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.bodies.offsets import ResetOffsetBody
from rocketpy.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from tests.client.fakes import route_to
from tests.consumer.brokers import PullBroker, World, queue, world
from tests.consumer.helpers import role_of
from tests.system.consuming import Recorder, wait_until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUICK = {"consume_from_where": FIRST, "poll_name_server_interval": 1.0, "rebalance_interval": 2.0}


def subscribed(w: World, got: Recorder, **settings: object) -> PushConsumer:
    consumer = w.consumer(**{**QUICK, **settings})
    consumer.subscribe("Orders", got)
    return consumer


async def test_a_commit_in_on_revoked_is_with_the_broker_before_the_queue_goes(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        got, seen = Recorder(), []

        async def revoked(queues: tuple[MessageQueue, ...]) -> None:
            assert set(queues) <= set(consumer.assignment)
            await trio.sleep(1)
            await consumer.commit()
            seen.append(dict(w.broker.offsets))

        w.broker.store(5, queue_id=0)
        w.broker.store(7, queue_id=1)
        consumer = subscribed(w, got, on_revoked=revoked, persist_consumer_offset_interval=3600.0)
        async with consumer:
            await got.wait_count(12)
            w.broker.members = [consumer.client.client_id, "another", "0"]
            role_of(consumer).rebalance_now()
            await wait_until(lambda: seen)
            assert seen[0]["Orders", 0] == 5
            assert seen[0]["Orders", 1] == 7


async def test_a_queue_that_went_before_all_were_taken_is_not_revoked(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        parked: list[tuple[Connection, RemotingCommand]] = []
        revoked: list[MessageQueue] = []

        def query(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            if (request.ext_fields["topic"], request.ext_fields["queueId"]) != ("Orders", "1"):
                return w.broker.query_offset(connection, request)
            parked.append((connection, request))
            return None

        w.broker.on(RequestCode.QUERY_CONSUMER_OFFSET, query)
        async with w.consumer(on_revoked=revoked.extend, **QUICK) as consumer:
            consumer.subscribe("Orders", Recorder())
            await wait_until(lambda: parked and consumer.assignment)
            [(connection, request)] = parked
            w.broker.members = ["0", consumer.client.client_id]
            header = ResetOffsetRequestHeader(group="billing", topic="Orders", timestamp=0, is_force=True).to_ext()
            body = ResetOffsetBody(offset_table={queue(0): 0}).encode()
            code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            connection.send_oneway(RemotingCommand.oneway(code, header, body))
            await trio.sleep(1)
            connection.send_answer(request, w.broker.query_offset(connection, request))
            await trio.sleep(10)
            assert consumer.assignment == (queue(1),)
        assert revoked == [queue(1)]


async def test_members_that_change_are_seen_at_the_next_look_without_a_notice(autojump_clock: MockClock) -> None:
    async with world(queues=4) as w:
        consumer = subscribed(w, Recorder())
        async with consumer:
            assert len(consumer.assignment) == 4
            w.broker.members = [consumer.client.client_id, "zzz"]
            await trio.sleep(3)
            assert consumer.assignment == (queue(0), queue(1))


async def test_complaint_21_queues_that_are_added_are_pulled(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        async with subscribed(w, got) as consumer:
            assert consumer.assignment == (queue(0),)
            w.set_route("Orders", queues=3)
            await wait_until(lambda: len(consumer.assignment) == 3, within=5)
            for number in range(3):
                w.broker.store(2, queue_id=number)
            await got.wait_count(6, within=5)


async def test_complaint_21_a_route_that_loses_a_broker_for_a_moment(autojump_clock: MockClock) -> None:
    async with world("broker-a", "broker-b") as w:
        got = Recorder()
        async with subscribed(w, got) as consumer:
            a, b = w.brokers
            b.store(3)
            await got.wait_count(3)
            for _ in range(3):
                w.set_route("Orders", route_to(a, read=1, write=1))
                await wait_until(lambda: consumer.assignment == (queue(0),), within=10)
                w.set_route("Orders", route_to(a, b, read=1, write=1))
                await wait_until(lambda: len(consumer.assignment) == 2, within=10)
            b.store(3)
            a.store(3)
            await got.wait_count(9, within=10)
            await trio.sleep(10)
        assert len(got.messages) == 9  # what was committed as the queue went is not pulled again


async def test_complaint_21_an_empty_route_takes_nothing_away_for_good(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        async with subscribed(w, got) as consumer:
            del w.name_server.routes["Orders"]
            await trio.sleep(30)
            w.broker.store(3)
            w.set_route("Orders")
            await got.wait_count(3, within=10)
            assert consumer.assignment == (queue(0),)


async def test_complaint_21_a_broker_that_has_moved(autojump_clock: MockClock) -> None:
    """Its address is another one now: the queue stays ours, and is pulled there."""
    async with world("broker-a", "broker-b") as w:
        old, new = w.brokers
        w.set_route("Orders", route_to(old, read=1, write=1))
        w.set_route("%RETRY%billing", route_to(old, read=1, write=1))
        new.name = "broker-a"
        got = Recorder()
        async with subscribed(w, got, pull_time_delay_when_exception=1.0) as consumer:
            old.store(3)
            await got.wait_count(3)
            new.store(3)
            new.store(3)
            old.hangs = True
            for topic in ("Orders", "%RETRY%billing"):
                w.set_route(topic, route_to(new, read=1, write=1))
            await got.wait_count(6, within=90)
            assert consumer.assignment == (queue(0),)
            assert [message.queue_offset for message in got.messages] == [0, 1, 2, 3, 4, 5]


def with_slave(master: PullBroker | None, slave: PullBroker) -> TopicRouteData:
    addresses = {1: slave.address} if master is None else {0: master.address, 1: slave.address}
    return TopicRouteData(
        broker_datas=[BrokerData(broker_name="broker-a", broker_addrs=addresses)],
        queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)],
    )


async def test_complaint_21_a_master_that_dies_and_leaves_a_slave(autojump_clock: MockClock) -> None:
    async with world("broker-a", "slave") as w:
        master, slave = w.brokers
        for topic in ("Orders", "%RETRY%billing"):
            w.set_route(topic, with_slave(master, slave))
        got = Recorder()
        async with subscribed(w, got, pull_time_delay_when_exception=1.0) as consumer:
            master.store(3)
            slave.store(6)
            await got.wait_count(3)
            master.hangs = True
            for topic in ("Orders", "%RETRY%billing"):
                w.set_route(topic, with_slave(None, slave))
            await got.wait_count(6, within=90)
            assert consumer.assignment == (queue(0),)
            master.hangs = False
            for topic in ("Orders", "%RETRY%billing"):
                w.set_route(topic, with_slave(master, slave))
            master.store(6)
            await got.wait_count(9, within=90)
            assert [message.queue_offset for message in got.messages] == list(range(9))


@pytest.mark.parametrize(
    "answer",
    [
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.FLOW_CONTROL,
        9999,
        lambda request, header: request.answer(ResponseCode.SUCCESS, None, {"nextBeginOffset": "x"}),
        lambda request, header: request.answer(ResponseCode.SUCCESS, None, {}, b"garbage"),
    ],
)
async def test_complaint_21_no_answer_ends_the_pulls_of_a_queue(
    autojump_clock: MockClock, answer: int | Callable[..., object]
) -> None:
    async with world() as w:
        w.broker.script = [answer] * 4  # type: ignore[list-item]
        got = Recorder()
        async with subscribed(w, got):
            w.broker.store(3)
            await got.wait_count(3, within=60)


async def test_complaint_21_a_broker_that_is_started_again(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        async with subscribed(w, got, pull_time_delay_when_exception=1.0):
            w.broker.store(3)
            await got.wait_count(3)
            assert w.broker.server is not None
            for _ in range(3):
                for connection in tuple(w.broker.server.connections):
                    connection.close()
                await trio.sleep(5)
            w.broker.parked.clear()
            w.broker.store(3)
            await got.wait_count(6, within=60)
