"""`send_many`: what comes of frames that fail, of messages that cannot be sent, and of one that is ended."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.errors import (
    ClientClosedError,
    ConnectionLostError,
    MessageIllegalError,
    RequestTimeoutError,
    SendManyError,
    TopicNotFoundError,
)
from rocketpy.message import Message
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.producer.brokers import SendBroker
from tests.producer.many import BUSY, ILLEGAL, Picky, Slow, Storing, bodies, numbered


async def test_the_frame_that_fails_is_named(autojump_clock, opened):
    broker = SendBroker(script=[0, 0, BUSY])
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        await producer.send(Message("T", b"connects, so that frames go in their order"))
        with pytest.raises(SendManyError, match=r"10 messages from 10 \(keys 'k10'\) to 19") as caught:
            await producer.send_many(numbered(25), batch_size=10, on_failure=None)
    error = caught.value
    assert (error.first, error.last, error.count, error.keys) == (10, 19, 10, ("k10",))
    assert error.sent in (10, 15)  # the third frame may have been on its way
    assert error.__cause__.code == BUSY


async def test_of_a_frame_that_is_refused_for_its_content_the_guilty_message_is_named(autojump_clock, opened):
    broker = Picky()
    failures = []
    async with opened(broker) as (producer, _):
        with pytest.raises(SendManyError) as caught:
            await producer.send_many(numbered(20), batch_size=20)
        assert (caught.value.first, caught.value.last, caught.value.keys) == (13, 13, ("k13",))
        assert isinstance(caught.value.__cause__, MessageIllegalError)
        result = await producer.send_many(numbered(20), batch_size=20, on_failure=failures.append)
    assert (result.messages, result.failed) == (19, 1)
    assert [(failure.first, failure.count) for failure in failures] == [(13, 1)]


async def test_a_message_that_cannot_be_sent_at_all_is_named_by_its_own_position(autojump_clock, opened):
    broker = SendBroker()
    messages = [*numbered(10)]
    messages[4].wire_properties["x"] = "a\x02b"
    messages[7] = None
    failures = []
    async with opened(broker) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
    assert sorted((failure.first, failure.last, failure.keys) for failure in failures) == [
        (4, 4, ("k4",)),
        (7, 7, ()),
    ]
    assert (result.messages, result.failed) == (8, 2)
    sent = {body for taken in broker.taken for body in bodies(taken)}
    assert sent == {b"%d" % number for number in range(10)} - {b"4", b"7"}


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "with a sharding key"])
@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        pytest.param(name, value, place, marks=() if place == quick else pytest.mark.matrix)
        for name, value, quick in [
            *[("topic", None, 0), ("topic", 5, 3), ("topic", [], 3), ("topic", "", 4)],
            *[("wire_properties", None, 0), ("wire_properties", [], 3), ("wire_properties", {"__SHARDINGKEY": 5}, 4)],
            *[("body", None, 0), ("body", "secret", 3), ("body", 5, 4), ("flag", "x", 0), ("flag", None, 4)],
        ]
        for place in (0, 3, 4)
    ],
)
async def test_a_message_with_what_does_not_belong_there_is_named(autojump_clock, opened, name, value, place, keyed):
    messages = [*numbered(5, sharding_key="k" if keyed else None)]
    setattr(messages[place], name, value)
    failures = []
    async with opened(SendBroker()) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
        with pytest.raises(SendManyError, match=f"^message {place}[^0-9]") as caught:
            await producer.send_many(messages)
    assert [(each.first, each.last) for each in failures] == [(place, place)]
    assert (result.messages, result.failed) == (4, 1)
    assert "secret" not in str(caught.value)


async def test_frames_of_sharding_keys_tell_the_places_of_their_messages(autojump_clock, opened):
    """Those of two queues in turn, so that no frame holds what stood side by side."""
    queues = {"a": 1, "b": 2}
    messages = [Message("T", b"%d" % number, sharding_key="ab"[number % 2]) for number in range(12)]
    broker, failures = SendBroker(script=[BUSY] * 4), []
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        result = await producer.send_many(messages, batch_size=3, on_failure=failures.append)
    assert result.failed == 12
    assert sorted((each.header.queue_id, bodies(each)) for each in broker.taken) == [
        (queues["a"], [b"0", b"2", b"4"]),
        (queues["a"], [b"6", b"8", b"10"]),
        (queues["b"], [b"1", b"3", b"5"]),
        (queues["b"], [b"7", b"9", b"11"]),
    ]
    assert sorted((each.first, each.last, each.count) for each in failures) == [
        (0, 4, 3), (1, 5, 3), (6, 10, 3), (7, 11, 3),
    ]  # fmt: skip


async def test_messages_whose_topic_has_no_queue_are_each_told_of_by_their_place(autojump_clock, opened):
    messages = [Message("Nowhere" if number % 3 else "T", b"x", sharding_key="k") for number in range(6)]
    failures = []
    async with opened(SendBroker()) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
    assert result.messages == 2
    assert [(each.first, each.last) for each in failures] == [(place, place) for place in (1, 2, 4, 5)]
    assert {type(each.__cause__) for each in failures} == {TopicNotFoundError}


async def test_queues_for_sharding_keys_are_looked_for_as_long_as_a_frame_has_time(autojump_clock, opened):
    async with opened(SendBroker(), send_timeout=0.5) as (producer, world):
        world.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        started = trio.current_time()
        with pytest.raises(SendManyError):
            await producer.send_many(numbered(3, sharding_key="k"), timeout=20)
        assert 19 < trio.current_time() - started < 21


async def test_a_message_that_is_changed_while_its_frame_is_refused_is_told_of_too(autojump_clock, opened):
    messages = [*numbered(20)]

    class Late(Picky):
        def send(self, connection, request):
            messages[3].body = b""
            messages[3].wire_properties["KEYS"] = 3
            return super().send(connection, request)

    failures = []
    async with opened(Late()) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
    assert sorted((failure.first, failure.keys) for failure in failures) == [(3, ()), (13, ("k13",))]
    assert (result.messages, result.failed) == (18, 2)


# --- failures ------------------------------------------------------------------------------------------


async def test_frames_are_tried_again_as_messages_are(autojump_clock, opened):
    broker = SendBroker(script=[0, BUSY, "hang up", 0])
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", b"connects"))
        result = await producer.send_many(numbered(30), batch_size=30)
    assert (result.messages, result.frames, result.failed) == (30, 1, 0)
    assert [len(bodies(each)) for each in broker.taken] == [1, 30, 30, 30]
    assert len({each.body for each in broker.taken[1:]}) == 1  # the same ids: a consumer can tell


async def test_a_frame_with_sharding_keys_that_no_broker_has_taken_is_tried_again_in_its_queue(autojump_clock, opened):
    broker = SendBroker(script=[0, BUSY, BUSY])
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", b"connects"))
        result = await producer.send_many(numbered(6, sharding_key="k"), batch_size=3)
    assert (result.messages, result.frames, result.failed) == (6, 2, 0)
    first, *again, last = broker.taken[1:]
    assert [each.body for each in again] == [first.body, first.body]
    assert len({each.header.queue_id for each in (first, *again, last)}) == 1
    assert bodies(last) == [b"3", b"4", b"5"]


async def test_a_frame_with_sharding_keys_that_may_be_stored_is_not_sent_again(autojump_clock, opened):
    broker = SendBroker(script=[0, "hang up"])
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", b"connects"))
        with pytest.raises(SendManyError) as caught:
            await producer.send_many(numbered(3, sharding_key="k"))
    assert isinstance(caught.value.__cause__, ConnectionLostError)
    assert len(broker.taken) == 2


async def test_after_a_failure_nothing_more_is_sent_and_what_is_in_flight_ends_first(autojump_clock, opened):
    broker = Slow(script=[0, 0, BUSY])
    raised = []

    async def send():
        with pytest.raises(SendManyError) as caught:
            await producer.send_many(numbered(1000), batch_size=10)
        raised.append(caught.value)

    settings = {"retry_times_when_send_failed": 0, "back_pressure_for_async_send_num": 40}
    async with opened(broker, **settings) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(send)
        await wait_all_tasks_blocked()
        broker.release(1)  # the one that fails
        await wait_all_tasks_blocked()
        assert (len(broker.due), raised) == (3, [])
        await broker.release_all()
    [error] = raised
    assert (error.first, error.last, error.sent) == (10, 19, 30)
    assert len(broker.taken) == 5


async def test_an_exception_of_the_iterable_comes_out_unchanged_when_what_is_in_flight_has_ended(
    autojump_clock, opened
):
    class MineError(Exception):
        pass

    def broken():
        yield from numbered(25)
        raise MineError

    ended = []

    async def send():
        with pytest.raises(MineError):
            await producer.send_many(broken(), batch_size=10)
        ended.append(len(broker.due))

    broker = Slow()
    async with opened(broker) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(send)
        await wait_all_tasks_blocked()
        assert (len(broker.due), ended) == (2, [])
        await broker.release_all()
    assert ended == [0]


async def test_with_on_failure_it_goes_on_and_counts(autojump_clock, opened):
    broker = SendBroker(script=[0, 0, BUSY])
    failures = []
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        await producer.send(Message("T", b"connects"))
        result = await producer.send_many(numbered(50), batch_size=10, on_failure=failures.append)
    assert (result.messages, result.frames, result.failed) == (40, 4, 10)
    assert [(each.first, each.last, each.count) for each in failures] == [(10, 19, 10)]


async def test_what_on_failure_raises_ends_everything(autojump_clock, opened):
    def angry(error):
        raise ValueError(error.first)

    broker = SendBroker(script=[0, BUSY])
    async with opened(broker, retry_times_when_send_failed=0, back_pressure_for_async_send_num=20) as (producer, _):
        await producer.send(Message("T", b"connects"))
        with pytest.raises(ValueError, match="0"):
            await producer.send_many(numbered(10_000), batch_size=10, on_failure=angry)
    assert len(broker.taken) < 10


async def test_a_frame_without_an_answer_is_given_up_after_its_own_time(autojump_clock, opened):
    broker = SendBroker(script=[0, "silence"])
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        await producer.send(Message("T", b"connects"))
        started = trio.current_time()
        with pytest.raises(SendManyError, match="may or may not") as caught:
            await producer.send_many(numbered(3), timeout=1.5)
        assert 1.4 < trio.current_time() - started < 1.7
    assert isinstance(caught.value.__cause__, RequestTimeoutError)


@pytest.mark.parametrize("fields", [{}, {"sharding_key": "k"}], ids=["plain", "with a sharding key"])
async def test_a_topic_that_nobody_takes_is_told_as_such(autojump_clock, opened, fields):
    failures = []
    async with opened(SendBroker()) as (producer, _):
        messages = [Message("Nowhere", b"x", keys=["lost"], **fields), Message("T", b"y", **fields)]
        with pytest.raises(SendManyError) as caught:
            await producer.send_many(messages)
        result = await producer.send_many(messages, on_failure=failures.append)
    assert isinstance(caught.value.__cause__, TopicNotFoundError)
    assert [(each.first, each.keys) for each in failures] == [(0, ("lost",))]
    assert (result.messages, result.failed) == (1, 1)


async def test_a_topic_whose_queues_go_as_they_are_looked_up_is_told_as_such(autojump_clock, opened, monkeypatch):
    async with opened(SendBroker()) as (producer, world):
        ensure_route = producer.outside.ensure_route

        async def ensure_too_early(topic, **fields):
            await ensure_route(topic, **fields)
            world.name_server.routes[topic].queue_datas[0].perm = 4
            await producer.client.routes.refresh(topic)

        monkeypatch.setattr(producer.outside, "ensure_route", ensure_too_early)
        with pytest.raises(SendManyError, match="the queues of T were removed a moment ago") as caught:
            await producer.send_many(numbered(1, sharding_key="k"))
    assert isinstance(caught.value.__cause__, TopicNotFoundError)
    assert caught.value.__cause__.topic == "T"


async def test_a_halved_frame_with_sharding_keys_keeps_its_order(autojump_clock, opened):
    broker = Picky()
    failures = []
    messages = [Message("T", b"%d" % number, sharding_key="k") for number in range(40)]
    async with opened(broker) as (producer, _):
        result = await producer.send_many(messages, batch_size=20, on_failure=failures.append)
    assert [each.first for each in failures] == [13]
    assert result.messages == 39
    arrived = [body for each in broker.taken if b"13" not in bodies(each) for body in bodies(each)]
    assert arrived == [b"%d" % number for number in range(40) if number != 13]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_brokers_do_every_message_is_acknowledged_or_told_of_once(autojump_clock, opened, seed):
    random = Random(seed)
    steps = [0] * 12 + [BUSY, ILLEGAL, ILLEGAL, ResponseCode.SYSTEM_BUSY, 10, "silence", "hang up"]
    # A connection that ends takes answers along to what was stored: then a retry doubles it.
    is_double_allowed = seed % 2 == 0
    brokers = [
        Storing(name, random.choices(steps if is_double_allowed else steps[:-1], k=60))
        for name in ("broker-a", "broker-b")
    ]
    fields = [{}, {}, {"sharding_key": "a"}, {"sharding_key": "b"}, {"delay_level": 1}, {"wait_store_ok": False}]
    messages = [Message("T", b"%d" % number, **random.choice(fields)) for number in range(600)]
    failures = []
    settings = {"back_pressure_for_async_send_num": random.choice([1, 16, 100, 1024]), "send_timeout": 1.0}
    async with opened(*brokers, **settings) as (producer, _):
        result = await producer.send_many(messages, batch_size=random.randrange(1, 40), on_failure=failures.append)
    assert result.messages + result.failed == 600
    assert result.failed == sum(failure.count for failure in failures)
    stored = [[int(body) for body in broker.stored] for broker in brokers]
    once = {number for numbers in stored for number in numbers}
    for number in {*range(600)} - once:
        assert any(failure.first <= number <= failure.last for failure in failures)
    assert is_double_allowed or sum(map(len, stored)) == len(once) == result.messages
    for key in ("a", "b"):
        of_key = [[number for number in numbers if messages[number].sharding_key == key] for numbers in stored]
        assert [] in of_key  # all of them went to one broker
        assert all(numbers == sorted(set(numbers)) for numbers in of_key)
    assert producer.outside.sends.total == 0


# --- the end -------------------------------------------------------------------------------------------


async def test_one_that_is_cancelled_gives_up_what_is_in_flight(autojump_clock, opened):
    broker = Slow()
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", b"connects"))
        with trio.move_on_after(1) as scope:
            await producer.send_many(numbered(5000), batch_size=10)
        assert scope.cancelled_caught
        closing = trio.current_time()
    assert trio.current_time() - closing < 0.1  # nothing was left to wait for


async def test_a_producer_that_closes_ends_it_also_where_it_should_go_on(autojump_clock, opened):
    broker = Slow()
    raised = []

    async def send():
        with pytest.raises(SendManyError, match="clos") as caught:
            await producer.send_many(numbered(5000), batch_size=10, on_failure=raised.append)
        raised.append(caught.value)

    async with trio.open_nursery() as nursery:
        async with opened(broker, back_pressure_for_async_send_num=20) as (producer, _):
            await producer.send(Message("T", b"connects"))
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            nursery.start_soon(broker.release_all)
    [error] = raised
    assert isinstance(error.__cause__, ClientClosedError)
    assert error.sent == 20


async def test_one_that_is_not_open_says_so(autojump_clock, opened):
    async with opened(enter=False) as (producer, _):
        with pytest.raises(ClientClosedError, match="async with"):
            await producer.send_many(numbered(1))
