"""Messages of one batch whose deadlines lie far apart: what those hear whose time is up first."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from rocketpy.errors import NameServerUnreachableError, RequestTimeoutError, RocketMQError
from rocketpy.message import Message
from rocketpy.results import SendResult
from rocketpy.wire.codes import RequestCode
from tests.producer.test_accumulator import Sink as OneSink
from tests.producer.test_auto_batching import LINGER, BatchBroker

LONGEST = 9.0


class Sink(OneSink):
    @staticmethod
    def hear_all(sinks, results):
        for sink, result in zip(sinks, results, strict=True):
            sink.hear(result)


class SlowNameServer:
    """Makes a name server answer about topics some time after it was asked."""

    def __init__(self, name_server, nursery, delay):
        self.name_server, self.nursery, self.delay = name_server, nursery, delay
        name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.route)

    def route(self, connection, request):
        self.nursery.start_soon(self.answer_later, connection, request)

    async def answer_later(self, connection, request):
        await trio.sleep(self.delay)
        connection.send_answer(request, self.name_server.route(connection, request))


def linger(producer, *lefts, queue=None):
    """Have messages form a batch that have so many seconds left, which are their bodies. Returns who hears of each."""
    outside, sinks = producer.outside, []
    for left in lefts:
        message, sink = Message("T", b"%d" % left), Sink()
        deadline = trio.current_time() + left
        head = outside.items.head(message)
        entry = outside.items.entry(message, head, sink, queue, LONGEST, 1, deadline, waits=False)
        outside.accumulator.drop_in(entry)
        sinks.append(sink)
    return sinks


async def test_S17_a_batch_that_no_name_server_lets_go_out_was_not_sent(autojump_clock, nursery, opened):
    async with opened(BatchBroker(), linger=LINGER) as (producer, world):
        SlowNameServer(world.name_server, nursery, 60)
        first, last = linger(producer, 1, 3)
        await trio.sleep(1.1)
        [error] = first.outcomes
        assert isinstance(error, NameServerUnreachableError)
        assert error.nothing_sent
        assert "about the topic T within 9 s" in str(error)
        assert not last.outcomes
        await trio.sleep(2)
        assert [each.nothing_sent for each in last.outcomes] == [True]
        assert len(first.outcomes) == 1


@pytest.mark.parametrize("lefts", [(1, 7, 8), (1, 8)], ids=["batch", "single"])
async def test_S17_a_message_that_was_told_that_nothing_was_sent_is_not_sent_later(
    autojump_clock, nursery, opened, lefts
):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, world):
        SlowNameServer(world.name_server, nursery, 2)
        first, *others = linger(producer, *lefts)
        await trio.sleep(3)
        assert [each.nothing_sent for each in first.outcomes] == [True]
        assert broker.frames == [[b"%d" % left for left in lefts[1:]]]
        [results] = zip(*(each.outcomes for each in others), strict=True)
        assert all(isinstance(each, SendResult) for each in results)
        assert [each.queue_offset for each in results] == list(range(len(others)))


async def test_S17_a_batch_whose_messages_have_all_been_given_up_goes_out_as_it_was_made(
    autojump_clock, nursery, opened
):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, world):
        SlowNameServer(world.name_server, nursery, 2)
        sinks = linger(producer, 7, 8)
        await trio.sleep(1)
        for each in sinks:
            each.is_gone = True
        await trio.sleep(2)
        assert broker.frames == [[b"7", b"8"]]


@pytest.mark.parametrize("delay", [0, 0.5], ids=["at once", "after a wait"])
@pytest.mark.parametrize("has_queue", [False, True], ids=["any queue", "queue"])
async def test_S17_a_batch_that_nobody_answers_may_be_stored(autojump_clock, nursery, opened, delay, has_queue):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, world):
        if delay:
            SlowNameServer(world.name_server, nursery, delay)
            place = (await producer.queues("T"))[0] if has_queue else None
        else:
            place = (await producer.send(Message("T", b"before"))).queue
        broker.script = ["silence"]
        first, last = linger(producer, 1, 3, queue=place if has_queue else None)
        await trio.sleep(1.1)
        [error] = first.outcomes
        assert type(error) is RequestTimeoutError
        assert not error.nothing_sent
        named = str(place) if has_queue else "T"
        assert f"a message for {named} within 9 s: it may be stored" in str(error)
        assert not last.outcomes


@pytest.mark.parametrize("longest", [60, math.inf])
async def test_S17_a_keyed_message_does_not_wait_for_a_route_longer_than_it_may(
    autojump_clock, nursery, opened, longest
):
    broker, outcomes = BatchBroker(), []
    async with opened(broker, linger=LINGER) as (producer, world):
        SlowNameServer(world.name_server, nursery, 5)
        nursery.start_soon(send_keyed, producer, b"long", longest, outcomes)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(send_keyed, producer, b"short", 0.5, outcomes)
        await trio.sleep(0.6)
        [error] = outcomes
        assert isinstance(error, NameServerUnreachableError)
        assert error.nothing_sent
        assert "about the topic T within 0.5 s" in str(error)
        await trio.sleep(5)
        assert broker.frames == [[b"long"]]
        assert isinstance(outcomes[1], SendResult)


async def test_S17_a_keyed_message_waits_for_a_route_as_long_as_it_may(autojump_clock, nursery, opened):
    broker, outcomes = BatchBroker(), []
    async with opened(broker, linger=LINGER) as (producer, world):
        SlowNameServer(world.name_server, nursery, 2)
        nursery.start_soon(send_keyed, producer, b"short", 0.5, outcomes)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(send_keyed, producer, b"long", 10, outcomes)
        await trio.sleep(3)
        assert [type(each) for each in outcomes] == [NameServerUnreachableError, SendResult]
        assert broker.frames == [[b"long"]]


async def test_S17_keyed_messages_that_keep_coming_do_not_cut_each_others_lookup_short(autojump_clock, nursery, opened):
    """The name server answers again after a while, and each lookup has as long as a message that waits for it."""
    broker, outcomes = BatchBroker(), []
    async with opened(broker, linger=LINGER) as (producer, world):
        name_server = SlowNameServer(world.name_server, nursery, 60)
        for number in range(500):
            if number == 320:
                name_server.delay = 0.02
            nursery.start_soon(send_keyed, producer, b"%d" % number, 3, outcomes)
            await trio.sleep(0.01)
        await trio.sleep(4)
    assert len(outcomes) == 500
    assert isinstance(outcomes[0], NameServerUnreachableError)
    assert isinstance(outcomes[-1], SendResult)


async def send_keyed(producer, body, timeout, outcomes):
    try:
        outcomes.append(await producer.send(Message("T", body, sharding_key="k"), timeout=timeout))
    except RocketMQError as error:
        outcomes.append(error)
