"""What is known to be stored when a send of many messages ends too early."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import Message, NoPermissionError, RequestTimeoutError, SendResult, SendStatus
from rocketpy.cli.traffic.inputs import Item
from rocketpy.cli.traffic.sending import BATCH, Sending
from rocketpy.message import MessageQueue
from rocketpy.wire.codes import ResponseCode

QUEUE = MessageQueue("Orders", "broker-a", 0)


class Slow:
    """A producer whose first sends take longest; `wrong` fails, by its first body."""

    def __init__(self, wrong: dict[bytes, Exception], status: SendStatus = SendStatus.SEND_OK) -> None:
        self.wrong = wrong
        self.status = status
        self.most = self.now = 0
        self.sizes: list[int] = []

    async def send(self, message: Message, *, queue: MessageQueue | None) -> SendResult:
        return await self.send_batch([message], queue=queue)

    async def send_batch(self, messages: Sequence[Message], *, queue: MessageQueue | None) -> SendResult:
        self.now += 1
        self.most = max(self.most, self.now)
        self.sizes.append(len(messages))
        try:
            await trio.sleep(10 - len(self.sizes) / 100)
            if error := self.wrong.get(messages[0].body):
                raise error
        finally:
            self.now -= 1
        return SendResult(self.status, "id", "offset id", queue or QUEUE, 0)


def item(line: int, **more: Any) -> Item:
    return Item(line, Message("Orders", b"%d" % line, **more), 10)


class chunks:
    """The messages of an input."""

    def __init__(self, *parts: Sequence[Item]) -> None:
        self._parts = list(parts)

    def __aiter__(self) -> chunks:
        return self

    async def __anext__(self) -> list[Item]:
        if not self._parts:
            raise StopAsyncIteration
        return list(self._parts.pop(0))


def sending(producer: Any, **more: Any) -> Sending:
    return Sending(producer, **{"in_flight": 4, "queue": None, "progress": lambda messages, size: None, **more})


async def test_messages_go_in_batches_with_so_many_in_flight(autojump_clock: MockClock) -> None:
    producer, told = Slow({}), []
    one = sending(producer, progress=lambda messages, size: told.append((messages, size)))
    await one.run(chunks([item(line) for line in range(1, 2 * BATCH + 11)], [item(2 * BATCH + 11)]))
    assert sorted(producer.sizes) == [1, 10, BATCH, BATCH]
    assert (one.stored, one.size, producer.most) == (2 * BATCH + 11, 20 * BATCH + 110, 4)
    assert sum(messages for messages, _ in told) == one.stored
    assert one.next_line == 2 * BATCH + 12


async def test_one_queue_is_filled_by_one_request_at_a_time(autojump_clock: MockClock) -> None:
    producer = Slow({})
    await sending(producer, queue=QUEUE).run(chunks(*[[item(line)] for line in range(1, 5)]))
    assert producer.most == 1


async def test_delayed_and_ordered_messages_go_by_themselves(autojump_clock: MockClock) -> None:
    producer = Slow({})
    await sending(producer).run(
        chunks([item(1), item(2), item(3, delay=5), item(4, sharding_key="k"), item(5), item(6)])
    )
    assert producer.sizes == [2, 1, 1, 2]


async def test_a_refusal_says_which_lines_are_stored(autojump_clock: MockClock) -> None:
    refusal = NoPermissionError(ResponseCode.NO_PERMISSION, "no", address="a:1")
    producer = Slow({b"2": refusal})
    one = sending(producer)
    with pytest.raises(NoPermissionError):
        await one.run(chunks(*[[item(line)] for line in range(1, 100)]))
    assert one.next_line == 2
    assert one.state() == (
        "5 messages stored; the next line is 2, but lines 3 to 6 are stored too. To continue there: --skip 1"
    )


async def test_a_failure_does_not_wait_for_the_next_line(autojump_clock: MockClock) -> None:
    async def silent() -> AsyncIterator[list[Item]]:
        yield [item(1)]
        yield [item(2)]
        await trio.sleep_forever()

    one = sending(Slow({b"1": NoPermissionError(ResponseCode.NO_PERMISSION, "no", address="a:1")}))
    with trio.fail_after(11), pytest.raises(NoPermissionError):
        async with aclosing(silent()) as lines:
            await one.run(lines)
    assert one.state() == (
        "1 message stored; the next line is 1, but lines 2 are stored too. To continue there: --skip 0"
    )


async def test_what_arrives_in_another_order_is_stored_all_the_same(autojump_clock: MockClock) -> None:
    one = sending(Slow({}))
    await one.run(chunks(*[[item(line)] for line in range(1, 9)]))
    assert one.state() == "8 messages stored; the next line is 9. To continue there: --skip 8"


async def test_lines_without_an_answer_may_be_stored(autojump_clock: MockClock) -> None:
    one = sending(Slow({b"3": RequestTimeoutError("too late")}))
    with pytest.raises(RequestTimeoutError):
        await one.run(chunks([item(1)], [item(2)], [item(3), item(4)], [item(5)]))
    assert one.state() == (
        "3 messages stored; the next line is 3, but lines 5 are stored too; the lines without an answer may be stored "
        "as well. To continue there: --skip 2"
    )


async def test_what_was_in_flight_at_ctrl_c_may_be_stored(autojump_clock: MockClock) -> None:
    one = sending(Slow({}))
    with trio.move_on_after(15):
        await one.run(chunks(*[[item(line)] for line in range(1, 100)]))
    assert one.state() == (
        "4 messages stored; the next line is 5; the lines without an answer may be stored as well. To continue there: "
        "--skip 4"
    )


async def test_messages_that_are_stored_badly_are_counted(autojump_clock: MockClock) -> None:
    one = sending(Slow({}, SendStatus.FLUSH_DISK_TIMEOUT))
    await one.run(chunks([item(1), item(2)]))
    assert (one.stored, one.badly) == (2, 2)


async def test_lines_that_were_passed_over_stay_passed_over(autojump_clock: MockClock) -> None:
    one = sending(Slow({}), skipped=7)
    assert one.state() == "0 messages stored; the next line is 8. To continue there: --skip 7"
    refused = sending(Slow({b"8": NoPermissionError(ResponseCode.NO_PERMISSION, "no", address="a:1")}), skipped=7)
    with pytest.raises(NoPermissionError):
        await refused.run(chunks([item(8)]))
    assert refused.state() == "0 messages stored; the next line is 8. To continue there: --skip 7"
