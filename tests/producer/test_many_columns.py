"""`send_many` with columns among its messages: frames, positions and errors are those of the messages."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError, SendManyError
from rocketpy.message import Message
from rocketpy.producer.frames import FrameBuilder
from rocketpy.results import SendManyResult
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.message_columns import MessageColumns
from rocketpy.wire.properties import decode_properties
from tests.producer.brokers import SendBroker
from tests.producer.many import Picky, bodies, numbered


def columns(first, count, *, topic="T", size=0, unique_ids=None):
    texts = [f"WAIT\x01true\x02KEYS\x01k{number}\x02" for number in range(first, first + count)]
    return MessageColumns(
        topic, [b"%d" % number + bytes(size) for number in range(first, first + count)], texts, unique_ids
    )


async def sent(opened, messages, broker=None, *, batch_size=10, on_failure=None, **settings):
    """The result, and the bodies of each frame."""
    broker = SendBroker() if broker is None else broker
    async with opened(broker, **settings) as (producer, _):
        result = await producer.send_many(messages, batch_size=batch_size, on_failure=on_failure)
    return result, [bodies(each) for each in broker.taken]


async def test_columns_are_frames_or_are_parted_to_frames(autojump_clock, opened):
    result, frames = await sent(opened, [columns(0, 10), columns(10, 3), columns(13, 12)])
    assert result == SendManyResult(messages=25, frames=4, bytes=40, failed=0)
    assert sorted(map(len, frames)) == [2, 3, 10, 10]
    assert sorted(int(body) for frame in frames for body in frame) == list(range(25))


async def test_columns_are_parted_by_bytes(autojump_clock, opened):
    settings = {"max_message_size": 2000, "compress_body_over": 5000}
    result, frames = await sent(opened, [columns(0, 10, size=299)], **settings)
    assert (result.messages, sorted(map(len, frames))) == (10, [1, 3, 3, 3])


async def test_messages_and_columns_keep_their_order_and_positions(autojump_clock, opened):
    messages = list(numbered(30))
    given = [*messages[:4], columns(4, 5), columns(9, 6), *messages[15:]]
    failed = []
    result, frames = await sent(opened, given, Picky(), on_failure=failed.append)
    assert (result.messages, result.failed) == (29, 1)
    assert [(error.first, error.count, error.keys) for error in failed] == [(13, 1, ("k13",))]
    assert sorted(int(body) for frame in frames if b"13" not in frame for body in frame) == [
        number for number in range(30) if number != 13
    ]


async def test_a_message_of_columns_that_is_too_large_fails_alone(autojump_clock, opened):
    large = MessageColumns("T", [b"a", b"x" * 5000, b"c"], [f"WAIT\x01true\x02KEYS\x01k{at}\x02" for at in range(3)])
    failed = []
    result, frames = await sent(opened, [large], on_failure=failed.append, max_message_size=4096)
    assert (result.messages, result.bytes, result.failed) == (2, 2, 1)
    assert [(error.first, error.keys) for error in failed] == [(1, ("k1",))]
    assert isinstance(failed[0].__cause__, ConfigError)
    assert sorted(frames) == [[b"a"], [b"c"]]


async def test_properties_that_are_too_long_for_a_batch_go_alone(autojump_clock, opened):
    texts = ["WAIT\x01true\x02", "WAIT\x01true\x02p\x01" + "x" * 32_767 + "\x02", "WAIT\x01true\x02"]
    result, frames = await sent(opened, [MessageColumns("T", [b"a", b"b", b"c"], texts)])
    assert (result.messages, sorted(frames)) == (3, [[b"a"], [b"b"], [b"c"]])


@pytest.mark.parametrize("topic", ["a/b", "SCHEDULE_TOPIC_XXXX"])
async def test_a_topic_that_cannot_be_sent_to_is_refused(autojump_clock, opened, topic):
    with pytest.raises(SendManyError) as caught:
        await sent(opened, [columns(0, 3, topic=topic)])
    assert isinstance(caught.value.__cause__, ConfigError)


def test_messages_to_a_retry_topic_and_too_many_bytes_are_no_whole_frame():
    builder = FrameBuilder(10, 5, 5)
    assert builder.whole(columns(0, 3, topic="%RETRY%g"), 0) is None
    assert builder.whole(columns(0, 6), 0) is None
    frame = builder.whole(columns(0, 5), 7)
    assert (frame.positions, frame.size, frame.queue) == (range(7, 12), 5, None)


async def test_messages_keep_unique_ids_that_they_have(autojump_clock, opened):
    broker = SendBroker()
    ids = [f"{number:032X}" for number in range(4)]
    await sent(opened, [columns(0, 4, unique_ids=ids), columns(4, 1, unique_ids=["B" * 32]), columns(5, 2)], broker)
    found = {}
    for taken in broker.taken:
        if len(bodies(taken)) == 1:
            found[taken.body] = decode_properties(taken.header.properties)["UNIQ_KEY"]
        else:
            found |= {
                item.body: decode_properties(item.properties.decode())["UNIQ_KEY"] for item in decode_batch(taken.body)
            }
    assert [found[b"%d" % number] for number in range(5)] == [*ids, "B" * 32]
    assert len({*found.values()}) == 7


async def test_columns_from_an_async_iterable_are_refused(autojump_clock, opened):
    async def several():
        yield columns(0, 2)

    with pytest.raises(SendManyError, match="expected a Message"):
        await sent(opened, several())


async def test_hooks_see_the_messages(autojump_clock, opened):
    seen = []
    await sent(opened, [columns(0, 3)], before_send=lambda context: seen.append(context.messages))
    ((first, *others),) = seen
    assert (type(first), first.topic, first.body, first.keys, len(others)) == (Message, "T", b"0", ("k0",), 2)
