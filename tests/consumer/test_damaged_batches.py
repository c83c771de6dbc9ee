"""Batches that a broker keeps whole, and that are damaged inside: what stands before them is consumed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.unwrapping import unwrapped
from rocketpy.errors import MessageDecodeError
from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.sysflag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from tests.consumer.brokers import PullBroker, queue, world
from tests.consumer.helpers import record, stored

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WHOLE = INNER_BATCH | NEED_UNWRAP
ITEMS = encode_batch([Message("Orders", b"%d" % number) for number in range(3)])
CUT = record(5, body=ITEMS[:-1], sys_flag=WHOLE)
GOOD = record(0) + record(1, body=ITEMS, sys_flag=WHOLE) + record(4)
DAMAGES = {
    "cut": CUT,
    "packed": record(5, body=b"no zlib", sys_flag=WHOLE | COMPRESSED),
    "and another": CUT + record(8)[:-1],
    "and a whole one": CUT + record(8, body=ITEMS[:-1], sys_flag=WHOLE),
}


def always(broker: PullBroker, data: bytes) -> Callable[..., RemotingCommand]:
    """Answers with those of the records that begin at the offset that was asked for or later, however often."""

    def step(request: RemotingCommand, header: PullMessageRequestHeader) -> RemotingCommand:
        broker.script.append(step)
        rest = data if header.queue_offset < 5 else data[len(GOOD) :]
        return broker.answer_pull(request, 0, 20, rest)

    return step


@pytest.mark.parametrize("damage", DAMAGES)
async def test_threat_M1_what_stands_before_a_damaged_batch_is_consumed_and_the_log_names_the_batch(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    async with world() as w:
        w.broker.logs["Orders", 0].max_offset = 20
        w.broker.script = [always(w.broker, GOOD + DAMAGES[damage])]
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(20)
            assert [message.queue_offset for message in got] == [0, 1, 2, 3, 4]
            status = consumer.status().queues[queue()]
            assert (status.commit_offset, w.broker.offsets["Orders", 0]) == (5, 5)
            assert "stuck at offset 5: the message there is damaged" in caplog.text
            assert isinstance(status.error, MessageDecodeError)
            assert "item 2 of a batch" in str(status.error) or "zlib" in str(status.error)
            w.broker.script = []
            w.broker.logs["Orders", 0].records = {offset: record(offset) for offset in range(5, 20)}
            await trio.sleep(5)
            assert [message.queue_offset for message in got] == list(range(20))
            assert consumer.status().queues[queue()].error is None


def test_threat_M1_the_error_of_a_damaged_batch_has_what_stands_before_it_from_the_position_on() -> None:
    messages = [
        stored(0),
        stored(1, body=ITEMS, sys_flag=WHOLE),
        stored(4, body=ITEMS[:-1], sys_flag=WHOLE),
        stored(7),
    ]
    with pytest.raises(MessageDecodeError) as caught:
        unwrapped(messages, 2)
    assert [message.queue_offset for message in caught.value.decoded] == [2, 3]
