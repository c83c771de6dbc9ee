"""`send_many`: which messages travel together, how many frames are under way, what comes of those that fail."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError, MessageIllegalError, SendManyError
from rocketpy.message import Message
from rocketpy.results import SendManyResult
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.codes import ResponseCode
from tests.producer.brokers import SendBroker

BUSY, ILLEGAL = ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.MESSAGE_ILLEGAL


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
    class Picky(SendBroker):
        def send(self, connection, request):
            if b"13" in request.body:
                self.script.insert(0, ILLEGAL)
            return super().send(connection, request)

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


async def test_arguments_that_cannot_be_used_are_refused(autojump_clock, opened):
    async with opened() as (producer, _):
        for fields in ({"batch_size": 0}, {"batch_size": True}, {"timeout": 0}, {"on_failure": "print"}):
            with pytest.raises(ConfigError):
                await producer.send_many([], **fields)
        with pytest.raises(ConfigError, match="iterable of messages"):
            await producer.send_many(5)
        assert await producer.send_many([]) == SendManyResult(0, 0, 0, 0)
