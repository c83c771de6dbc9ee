"""`send_many`: which messages travel together, how many frames are under way, what comes of those that fail."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.client.selection import sharding_queue
from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    MessageIllegalError,
    RequestTimeoutError,
    SendManyError,
    TopicNotFoundError,
)
from rocketpy.message import Message
from rocketpy.results import SendManyResult
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.serialize import encode_command
from tests.producer.brokers import SendBroker

BUSY, ILLEGAL = ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.MESSAGE_ILLEGAL


class Slow(SendBroker):
    """Answers when it is told to, `release`; the largest numbers of what was due at a time are noted."""

    def __init__(self, script=()):
        super().__init__(script=script)
        self.due = []
        self.most = self.most_messages = 0
        self.connected = False

    def send(self, connection, request):
        answer = super().send(connection, request)
        if not self.connected:  # so that the frames after it go out in their order
            self.connected = True
            return answer
        self.due.append((connection, answer, bodies(self.taken[-1])))
        self.most = max(self.most, len(self.due))
        self.most_messages = max(self.most_messages, sum(len(held) for _, _, held in self.due))
        return None

    def release(self, number=0):
        """Answer the request that came so many before the last ones, and give what it held."""
        connection, answer, held = self.due.pop(number)
        connection.send_frame(encode_command(answer))
        return held

    async def release_all(self):
        """Answer one after the other until nothing comes any more."""
        await wait_all_tasks_blocked()
        while self.due:
            self.release()
            await wait_all_tasks_blocked()


class Picky(SendBroker):
    """Refuses the body "13", alone and in a frame."""

    def send(self, connection, request):
        if request.body == b"13" or b"\x00\x00\x00\x0213" in request.body:
            self.script.insert(0, ILLEGAL)
        return super().send(connection, request)


def bodies(taken):
    """What a frame held."""
    return [item.body for item in decode_batch(taken.body)] if taken.header.batch else [taken.body]


def numbered(count, **fields):
    return (Message("T", b"%d" % number, keys=[f"k{number}"], **fields) for number in range(count))


async def test_messages_travel_in_frames_and_all_of_them_arrive(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        result = await producer.send_many(numbered(25), batch_size=10)
    assert result == SendManyResult(messages=25, frames=3, bytes=40, failed=0)
    assert sorted(map(bodies, broker.taken), key=lambda frame: int(frame[0])) == [
        [b"%d" % number for number in range(start, min(start + 10, 25))] for start in (0, 10, 20)
    ]
    assert len({taken.header.queue_id for taken in broker.taken}) == 3


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
    messages[4].properties["x"] = "a\x02b"
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


async def test_a_message_that_is_changed_while_its_frame_is_refused_is_told_of_too(autojump_clock, opened):
    messages = [*numbered(20)]

    class Late(Picky):
        def send(self, connection, request):
            messages[3].body = b""
            messages[3].properties["KEYS"] = 3
            return super().send(connection, request)

    failures = []
    async with opened(Late()) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
    assert sorted((failure.first, failure.keys) for failure in failures) == [(3, ()), (13, ("k13",))]
    assert (result.messages, result.failed) == (18, 2)


async def test_arguments_that_cannot_be_used_are_refused(autojump_clock, opened):
    async with opened() as (producer, _):
        for fields in ({"batch_size": 0}, {"batch_size": True}, {"timeout": 0}, {"on_failure": "print"}):
            with pytest.raises(ConfigError):
                await producer.send_many([], **fields)
        with pytest.raises(ConfigError, match="iterable of messages"):
            await producer.send_many(5)
        assert await producer.send_many([]) == SendManyResult(0, 0, 0, 0)


# --- what is under way ---------------------------------------------------------------------------------


async def test_frames_are_pipelined_within_the_bounds_and_messages_taken_only_as_there_is_room(autojump_clock, opened):
    taken = 0

    def counted():
        nonlocal taken
        for message in numbered(200):
            taken += 1
            yield message

    broker = Slow()
    async with opened(broker, back_pressure_for_async_send_num=40) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(lambda: producer.send_many(counted(), batch_size=10))
        await wait_all_tasks_blocked()
        assert (len(broker.due), taken) == (4, 50)
        await broker.release_all()
    assert (broker.most, broker.most_messages) == (4, 40)
    assert [body for each in broker.taken[1:] for body in bodies(each)] == [b"%d" % number for number in range(200)]


async def test_bytes_under_way_are_bounded_too(autojump_clock, opened):
    broker = Slow()
    async with (
        opened(broker, back_pressure_for_async_send_size=1000, compress_body_over=5000) as (producer, _),
        trio.open_nursery() as nursery,
    ):
        await producer.send(Message("T", b"connects"))
        messages = [Message("T", b"x" * size) for size in [100] * 30 + [4000] + [100] * 10]
        nursery.start_soon(producer.send_many, messages)
        await broker.release_all()
    sizes = [sum(map(len, bodies(each))) for each in broker.taken[1:]]
    assert (sum(sizes), max(sizes), broker.most) == (8000, 4000, 2)
    assert sizes[:6] == [500] * 6


@pytest.mark.parametrize("awaited", [False, True], ids=["iterable", "async iterable"])
async def test_no_more_bytes_are_taken_than_there_is_room_for(autojump_clock, opened, awaited):
    taken = 0

    def counted():
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield Message("T", b"x" * 600)

    async def slowly():
        for each in counted():
            yield each

    broker = Slow()
    async with opened(broker, back_pressure_for_async_send_size=4000) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(producer.send_many, slowly() if awaited else counted())
        await wait_all_tasks_blocked()
        assert [len(held) for _, _, held in broker.due] == [3, 3]
        assert taken == 10  # two frames that fly, one that waits for room, and one that did not fit into it
        await broker.release_all()
    assert sum(len(bodies(each)) for each in broker.taken[1:]) == 100


async def test_with_one_message_under_way_nothing_is_pipelined(autojump_clock, opened):
    broker = Slow()
    async with opened(broker, back_pressure_for_async_send_num=1) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(producer.send_many, numbered(5))
        await broker.release_all()
    assert (broker.most, broker.most_messages, len(broker.taken)) == (1, 1, 6)


async def test_frames_of_one_queue_follow_each_other_and_queues_do_not_wait_for_others(autojump_clock, opened):
    keys = "abcdefgh"
    messages = [Message("T", b"%d" % number, sharding_key=keys[number % 8]) for number in range(160)]
    broker = Slow()
    async with opened(broker) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        queues = await producer.queues("T")
        nursery.start_soon(lambda: producer.send_many(messages, batch_size=4))
        await wait_all_tasks_blocked()
        used = {sharding_queue(queues, key).queue_id for key in keys}
        assert sorted(each.header.queue_id for each in broker.taken[1:]) == sorted(used)  # one of each
        while broker.due:
            broker.release(-1)
            await wait_all_tasks_blocked()
    assert broker.most == len(used) > 1
    got = {queue: [] for queue in used}
    for each in broker.taken[1:]:
        got[each.header.queue_id] += bodies(each)
    for queue, found in got.items():
        key_of = {message.body: message.sharding_key for message in messages}
        assert {sharding_queue(queues, key_of[body]).queue_id for body in found} == {queue}
        assert found == sorted(found, key=int)
    assert sum(map(len, got.values())) == 160


async def test_delayed_messages_and_topics_go_in_frames_of_their_own(autojump_clock, opened):
    broker = SendBroker()
    messages = [Message("T", b"1"), Message("T", b"2", delay_level=3), Message("T", b"3", wait_store_ok=False)]
    messages += [Message("T", b"4"), Message("U", b"5")]
    async with opened(broker) as (producer, world):
        world.route("U", broker)
        result = await producer.send_many(messages)
    assert (result.messages, result.frames) == (5, 4)
    assert sorted(bodies(each) for each in broker.taken) == [[b"1", b"4"], [b"2"], [b"3"], [b"5"]]
    [delayed] = [each for each in broker.taken if each.body == b"2"]
    assert delayed.properties["DELAY"] == "3"


async def test_what_can_be_awaited_is_taken_as_well(autojump_clock, opened):
    async def slowly():
        for number in range(25):
            await trio.sleep(0.01)
            yield Message("T", b"%d" % number)

    broker = SendBroker()
    async with opened(broker) as (producer, _):
        result = await producer.send_many(slowly(), batch_size=10)
    assert (result.messages, result.frames) == (25, 3)


# --- sizes ---------------------------------------------------------------------------------------------


async def test_properties_that_make_a_frame_too_large_part_it(autojump_clock, opened):
    broker = SendBroker()
    messages = [Message("T", b"x", properties={"p": "v" * 500}) for _ in range(64)]
    async with opened(broker, max_message_size=10_000) as (producer, _):
        result = await producer.send_many(messages)
    assert (result.messages, result.frames) == (64, 4)
    assert all(len(each.body) <= 10_000 for each in broker.taken)


async def test_a_message_that_is_too_large_is_named_and_the_others_go(autojump_clock, opened):
    messages = [*numbered(5)]
    messages[2].body = b"x" * 101
    failures = []
    async with opened(SendBroker(), max_message_size=100) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
        with pytest.raises(SendManyError, match=r"message 2 \(keys 'k2'\).*101 bytes, the limit is 100"):
            await producer.send_many(messages)
    assert [(each.first, each.last) for each in failures] == [(2, 2)]
    assert result.messages == 4


async def test_a_broker_that_takes_less_soon_gets_frames_of_its_size(autojump_clock, opened):
    class Small(SendBroker):
        def send(self, connection, request):
            if len(request.body) > 100_000:
                self.script.insert(0, ILLEGAL)
            return super().send(connection, request)

    broker = Small()
    async with opened(broker, back_pressure_for_async_send_num=128) as (producer, _):
        result = await producer.send_many((Message("T", b"x" * 4000) for _ in range(1000)), batch_size=64)
    assert (result.messages, result.bytes) == (1000, 4_000_000)
    assert all(len(each.body) <= 100_000 for each in broker.taken[-30:])


# --- failures ------------------------------------------------------------------------------------------


async def test_frames_are_tried_again_as_messages_are(autojump_clock, opened):
    broker = SendBroker(script=[0, BUSY, "hang up", 0])
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", b"connects"))
        result = await producer.send_many(numbered(30), batch_size=30)
    assert (result.messages, result.frames, result.failed) == (30, 1, 0)
    assert [len(bodies(each)) for each in broker.taken] == [1, 30, 30, 30]
    assert len({each.body for each in broker.taken[1:]}) == 1  # the same ids: a consumer can tell


async def test_a_frame_with_sharding_keys_is_tried_once(autojump_clock, opened):
    broker = SendBroker(script=[0, BUSY])
    async with opened(broker) as (producer, _):
        await producer.send(Message("T", b"connects"))
        with pytest.raises(SendManyError):
            await producer.send_many(numbered(3, sharding_key="k"))
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
        with pytest.raises(SendManyError, match="whether") as caught:
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


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_brokers_do_every_message_is_acknowledged_or_told_of_once(autojump_clock, opened, seed):
    random = Random(seed)
    steps = [0] * 12 + [BUSY, ILLEGAL, ILLEGAL, ResponseCode.SYSTEM_BUSY, 10, "hang up", "silence"]
    brokers = [SendBroker(name, random.choices(steps, k=60)) for name in ("broker-a", "broker-b")]
    fields = [{}, {}, {"sharding_key": "a"}, {"sharding_key": "b"}, {"delay_level": 1}, {"wait_store_ok": False}]
    messages = [Message("T", b"%d" % number, **random.choice(fields)) for number in range(600)]
    failures = []
    settings = {"back_pressure_for_async_send_num": random.choice([1, 16, 100, 1024]), "send_timeout": 1.0}
    async with opened(*brokers, **settings) as (producer, _):
        result = await producer.send_many(messages, batch_size=random.randrange(1, 40), on_failure=failures.append)
    assert result.messages + result.failed == 600
    assert result.failed == sum(failure.count for failure in failures)
    arrived = {body for broker in brokers for each in broker.taken for body in bodies(each)}
    for number in {*range(600)} - set(map(int, arrived)):
        assert any(failure.first <= number <= failure.last for failure in failures)
    assert producer._under_way == 0


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
