"""Requests and replies: a producer asks, a consumer replies, and the broker pushes the reply to the one that asked."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client import requests
from rocketpy.client.heartbeat import Heartbeats
from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import (
    BrokerError,
    ClientClosedError,
    ConfigError,
    ReplyTimeoutError,
    TooManyRequestsError,
    TopicNotFoundError,
)
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.message.reply import create_reply_message
from rocketpy.producer import Producer
from rocketpy.wire.bodies.topics import TopicConfig
from tests.system.cable import Cable
from tests.system.consuming import Recorder, World, wait_until, world

TTL = 5.0


@asynccontextmanager
async def replying(
    made: World, answer: Callable[[MessageExt], bytes] = lambda request: b"re: " + request.body, delay: float = 0.0
) -> AsyncIterator[list[MessageExt]]:
    """A consumer that replies to everything; what it has got."""
    got: list[MessageExt] = []

    async def reply(request: MessageExt) -> None:
        got.append(request)
        await trio.sleep(delay)
        await made.producer.send(create_reply_message(request, answer(request)))

    consumer = made.consumer("repliers")
    consumer.subscribe("Orders", reply)
    async with consumer:
        yield got


def asking(made: World, group: str = "askers", **settings: Any) -> Producer:
    settings = {"namesrv": made.cluster.name_server_addresses, "network": made.cluster.network, **settings}
    return Producer(group, **settings)


# --- there and back -----------------------------------------------------------------------------------------


async def test_S18_a_request_gets_its_reply(autojump_clock: MockClock) -> None:
    async with world() as made, replying(made) as got, asking(made) as producer:
        message = Message("Orders", b"how much?", tags="q", keys=["k1"])
        before = dict(message.wire_properties)
        reply = await producer.request(message, timeout=TTL)
        assert (reply.body, reply.topic) == (b"re: how much?", "DefaultCluster_REPLY_TOPIC")
        assert message.wire_properties == before
        [request] = got
        assert request.system_properties["REPLY_TO_CLIENT"] == producer.client.client_id
        assert request.system_properties["TTL"] == "5000"
        assert (request.tags, request.keys) == ("q", ("k1",))
        assert reply.system_properties["CORRELATION_ID"] == request.system_properties["CORRELATION_ID"]
        assert len(producer.client.requests) == 0
        assert producer.client.requests.counts().replied == 1


@pytest.mark.slow
async def test_S18_many_requests_at_once_get_each_its_own_reply(autojump_clock: MockClock) -> None:
    replies: dict[int, bytes] = {}
    async with world(2) as made, replying(made, delay=0.2), asking(made) as producer, trio.open_nursery() as nursery:

        async def ask(number: int) -> None:
            replies[number] = (await producer.request(Message("Orders", b"%d" % number), timeout=30)).body

        for number in range(200):
            nursery.start_soon(ask, number)
    assert replies == {number: b"re: %d" % number for number in range(200)}


async def test_S18_the_reply_goes_to_the_one_that_asked_of_two_in_a_group(autojump_clock: MockClock) -> None:
    async with world() as made, replying(made), asking(made) as one, asking(made) as two:
        async with trio.open_nursery() as nursery:
            for producer in (one, two):
                nursery.start_soon(producer.request, Message("Orders", b"x"))
        for producer in (one, two):
            assert producer.client.requests.counts() == requests.ReplyCounts(0, 1, 0, 0)


async def test_S18_a_large_request_and_its_reply_travel_compressed(autojump_clock: MockClock) -> None:
    async with world() as made, replying(made), asking(made) as producer:
        reply = await producer.request(Message("Orders", b"x" * 100_000), timeout=TTL)
        assert reply.body == b"re: " + b"x" * 100_000
        assert reply.sys_flag & 1


async def test_S18_queue_selector_and_sharding_key_choose_the_queue(autojump_clock: MockClock) -> None:
    async with world() as made, replying(made) as got, asking(made) as producer:
        queue = (await producer.queues("Orders"))[2]
        await producer.request(Message("Orders", b"x"), queue=queue)
        await producer.request(Message("Orders", b"x"), selector=lambda queues, message, arg: queues[arg], arg=3)
        for _ in range(3):
            await producer.request(Message("Orders", b"x", sharding_key="k"))
        assert [each.queue_id for each in got[:2]] == [2, 3]
        assert len({each.queue_id for each in got[2:]}) == 1
        with pytest.raises(ConfigError, match="belongs to Other"):
            await producer.request(Message("Orders", b"x"), queue=MessageQueue("Other", queue.broker_name, 0))


async def test_S18_the_very_first_request_of_a_client_is_replied_to(autojump_clock: MockClock) -> None:
    """Every broker of the topic has to know the client before the request is sent, by a heartbeat."""
    async with world(3) as made, replying(made):
        for number in range(5):
            async with asking(made, f"g{number}") as producer:
                assert (await producer.request(Message("Orders", b"x"), timeout=1)).body == b"re: x"


async def test_S18_a_request_waits_until_the_brokers_know_who_asks(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Heartbeats._send

    async def late(self: Heartbeats, *arguments: Any) -> None:
        await trio.sleep(0.5)
        await send(self, *arguments)

    async with world() as made, replying(made):
        monkeypatch.setattr(Heartbeats, "_send", late)
        async with asking(made) as producer:
            assert (await producer.request(Message("Orders", b"x"), timeout=2)).body == b"re: x"
            began = trio.current_time()
            await producer.request(Message("Orders", b"x"), timeout=2)
            assert trio.current_time() - began < 0.1, "once they know it, nothing is waited for"


# --- no reply ------------------------------------------------------------------------------------------------


async def test_S18_a_request_without_a_reply_times_out_and_the_late_reply_is_told_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as made, replying(made, delay=2.0), asking(made) as producer:
        began = trio.current_time()
        with pytest.raises(ReplyTimeoutError, match="no reply to a message for Orders arrived within 1 s") as caught:
            await producer.request(Message("Orders", b"x"), timeout=1)
        assert trio.current_time() - began == pytest.approx(1, abs=0.01)
        assert caught.value.correlation_id
        assert caught.value.timeout == 1
        await trio.sleep(3)
        assert producer.client.requests.counts() == requests.ReplyCounts(0, 0, 1, 0)
        lines = [each.getMessage() for each in caplog.records if caught.value.correlation_id in each.getMessage()]
        assert len(lines) == 1
        assert "had ended" in lines[0]


async def test_S18_nobody_consumes_the_topic(autojump_clock: MockClock) -> None:
    async with world() as made, asking(made) as producer:
        with pytest.raises(ReplyTimeoutError):
            await producer.request(Message("Orders", b"x"))
        with pytest.raises(TopicNotFoundError):
            await asking_nothing(made)


async def asking_nothing(made: World) -> None:
    async with asking(made, create_topic_key="Missing") as producer:
        await producer.request(Message("Nowhere", b"x"))


async def test_S18_a_reply_to_nobody_is_told_once(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    """Of two replies the first counts; one with an id that is made up is nobody's."""
    async with world() as made, asking(made) as producer:
        recorder = Recorder()
        consumer = made.consumer("repliers")
        consumer.subscribe("Orders", recorder)
        async with consumer, trio.open_nursery() as nursery:
            nursery.start_soon(producer.request, Message("Orders", b"x"))
            await recorder.wait_count(1)
            reply = create_reply_message(recorder.messages[0], b"y")
            await made.producer.send(reply)
            with caplog.at_level(logging.WARNING):
                await made.producer.send(reply)
                reply.wire_properties["CORRELATION_ID"] = "made up"
                await made.producer.send(reply)
        assert producer.client.requests.counts() == requests.ReplyCounts(0, 1, 0, 2)
        assert len([each for each in caplog.records if "is not of this client" in each.getMessage()]) == 1


async def test_S18_a_reply_to_a_client_that_is_gone_is_an_error_of_its_sender(autojump_clock: MockClock) -> None:
    async with world() as made:
        recorder = Recorder()
        consumer = made.consumer("repliers")
        consumer.subscribe("Orders", recorder)
        async with consumer:
            async with asking(made) as producer:
                with pytest.raises(ReplyTimeoutError):
                    await producer.request(Message("Orders", b"x"), timeout=1)
                await recorder.wait_count(1)
            reply = create_reply_message(recorder.messages[0], b"y")
            with pytest.raises(BrokerError, match="no producer with the id") as caught:
                await made.producer.send(reply)
            assert caught.value.code == 1
            [broker] = made.cluster.brokers
            assert broker.runtime_info()["unpushedReplies"] == "1", "tried once: no other broker may know the client"


async def test_S18_of_several_brokers_the_one_that_knows_the_client_pushes(autojump_clock: MockClock) -> None:
    """The topic is on one broker, so only that one has had a heartbeat of the client; replies may go to any."""
    async with world(3, topics=()) as made:
        one = made.cluster.brokers[0]
        one.topics.put(TopicConfig(topic_name="Orders", read_queue_nums=4, write_queue_nums=4))
        await trio.sleep(1)  # the name server hears of it
        async with replying(made) as got, asking(made) as producer:
            for _ in range(6):
                assert (await producer.request(Message("Orders", b"x"), timeout=TTL)).body == b"re: x"
            assert {each.broker_name for each in got} == {one.config.broker_name}
            await wait_until(lambda: one.runtime_info()["pushedReplies"] == "6")
            assert {broker.runtime_info()["unpushedReplies"] for broker in made.cluster.brokers} == {"0"}


# --- bounds and ends -----------------------------------------------------------------------------------------


async def test_S18_pending_requests_are_bounded(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST", 2)
    async with world() as made, asking(made) as producer:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(ReplyTimeoutError):
                    await producer.request(Message("Orders", b"x"), timeout=2)

            for _ in range(2):
                nursery.start_soon(ask)
            await trio.sleep(1)
            with pytest.raises(TooManyRequestsError, match="2 requests of this client wait for replies"):
                await producer.request(Message("Orders", b"x"))
        assert len(producer.client.requests) == 0


async def test_threat_L8_only_the_last_requests_without_a_reply_are_remembered(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_MOST_ENDED", 2)
    async with world() as made, asking(made) as producer:
        table = producer.client.requests
        for number in range(4):
            table.close(table.open(f"{number}", producer))
        for number in range(4):
            reply = MessageExt("Orders", b"y")
            reply.wire_properties["CORRELATION_ID"] = f"{number}"
            table.take(reply, "broker")
        assert table.counts() == requests.ReplyCounts(pending=0, replied=0, late=2, unknown=2)


async def test_S18_closing_waits_for_replies_and_an_exception_answers_them(autojump_clock: MockClock) -> None:
    outcomes: list[str] = []

    async with world() as made, replying(made, delay=1.0):

        async def ask(producer: Producer) -> None:
            try:
                outcomes.append((await producer.request(Message("Orders", b"x"), timeout=TTL)).body.decode())
            except ClientClosedError as error:
                outcomes.append(str(error))

        async with trio.open_nursery() as nursery:
            async with asking(made) as producer:
                nursery.start_soon(ask, producer)
                await trio.sleep(0.5)
        assert outcomes == ["re: x"]

        async with trio.open_nursery() as nursery:
            with suppress(ZeroDivisionError):
                async with asking(made) as producer:
                    nursery.start_soon(ask, producer)
                    await trio.sleep(0.5)
                    raise ZeroDivisionError
        assert "closed before a reply to a message for Orders arrived" in outcomes[1]


async def test_S18_a_shared_client_that_closes_answers_the_requests_of_its_producers(
    autojump_clock: MockClock,
) -> None:
    errors: list[ClientClosedError] = []
    closing = trio.Event()
    async with world() as made, trio.open_nursery() as nursery:
        client = MQClientInstance(namesrv=made.cluster.name_server_addresses, network=made.cluster.network)

        async def hold(*, task_status: trio.TaskStatus[None]) -> None:
            async with client:
                task_status.started()
                await closing.wait()

        async def ask() -> None:
            async with Producer("askers", client=client) as producer:
                with pytest.raises(ClientClosedError, match="before a reply") as caught:
                    await producer.request(Message("Orders", b"x"), timeout=60)
                errors.append(caught.value)

        await nursery.start(hold)
        nursery.start_soon(ask)
        await trio.sleep(0.5)
        closing.set()
    assert len(errors) == 1


async def test_S18_a_request_that_is_cancelled_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    async with world() as made, replying(made, delay=1.0), asking(made) as producer:
        with trio.move_on_after(0.5) as scope:
            await producer.request(Message("Orders", b"x"), timeout=TTL)
        assert scope.cancelled_caught
        assert len(producer.client.requests) == 0
        await trio.sleep(1)
        assert producer.client.requests.counts().late == 1


async def test_S18_the_reply_comes_although_the_connection_was_lost_meanwhile(autojump_clock: MockClock) -> None:
    async with world() as made, replying(made, delay=5.0):
        cable = Cable(made.cluster.network)
        async with asking(made, network=cable) as producer, trio.open_nursery() as nursery:
            replies: list[MessageExt] = []

            async def ask() -> None:
                replies.append(await producer.request(Message("Orders", b"x"), timeout=20))

            nursery.start_soon(ask)
            await trio.sleep(1)
            cable.cut()
            await trio.sleep(0.1)
            cable.mend()
            await wait_until(lambda: replies, within=10)


async def test_S18_the_reply_ends_a_request_whose_answer_is_lost(autojump_clock: MockClock) -> None:
    """The broker has taken the request, and its answer never comes: the request is not sent again for that."""
    async with world() as made, replying(made, delay=0.5) as got, asking(made) as producer:
        await producer.request(Message("Orders", b"first"))
        made.cluster.lose_answers(1)
        assert (await producer.request(Message("Orders", b"x"), timeout=10)).body == b"re: x"
        assert [each.body for each in got] == [b"first", b"x"]


# --- replies do not travel with others ---------------------------------------------------------------------


async def test_S18_replies_go_one_by_one(autojump_clock: MockClock) -> None:
    async with world() as made, asking(made) as producer, trio.open_nursery() as nursery:
        recorder = Recorder()
        consumer = made.consumer("repliers")
        consumer.subscribe("Orders", recorder)
        async with consumer:
            bodies: list[bytes] = []

            async def ask() -> None:
                bodies.append((await producer.request(Message("Orders", b"x"), timeout=TTL)).body)

            for _ in range(3):
                nursery.start_soon(ask)
            await recorder.wait_count(3)
            replies = [create_reply_message(each, b"y") for each in recorder.messages]
            with pytest.raises(ConfigError, match="a batch cannot hold replies"):
                await made.producer.send_batch(replies)
            assert (await made.producer.send_many(replies)).frames == 3
            await wait_until(lambda: len(bodies) == 3)
