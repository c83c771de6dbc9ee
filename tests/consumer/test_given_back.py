"""Messages that a lite pull consumer has lent to a poll that was cancelled: nobody has them or has dealt with them.

Meanwhile other polls, commits and acknowledgements go on.
"""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.consumer.lite.handed_out import HandedOut
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.results import ConsumeFromWhere
from tests.consumer.brokers import world
from tests.consumer.helpers import QUEUE, stored_range

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def test_what_was_given_back_is_the_lowest_again_though_others_looked_meanwhile() -> None:
    held = ProcessQueue(QUEUE, 0)
    held.put(stored_range(0, 6))
    book = HandedOut(held)
    first, second = held.hand_out(3), held.hand_out(3)
    book.add(first)
    book.add(second)
    held.give_back(first)
    book.give_back(first)
    assert (book.lowest_open, book.acknowledged) == (3, 0)
    again = held.hand_out(9)
    book.add(again)
    assert (book.lowest_open, book.acknowledged, book.span, len(book)) == (0, 0, 5, 6)
    assert all(book.acknowledge(offset) for offset in (3, 4, 5, 0))
    assert book.acknowledged == 1
    assert all(book.acknowledge(offset) for offset in (1, 2))
    assert (book.lowest_open, book.acknowledged) == (None, 6)


async def test_acknowledging_does_not_pass_over_what_was_given_back(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(20)
        async with w.lite(consume_from_where=FIRST, auto_commit=False) as consumer:
            consumer.subscribe("Orders")
            consumer.ack((await consumer.poll(1, timeout=60))[0])
            await trio.sleep(1)
            cancelled = await consumer.outside.polling.lend(9, 1)
            other = await consumer.poll(10, timeout=1)
            consumer.outside.polling.give_back(cancelled)
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 1
            again = await consumer.poll(9, timeout=1)
            assert [message.queue_offset for message in again] == list(range(1, 10))
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 1
            for message in other:
                consumer.ack(message)
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 1
            for message in again:
                consumer.ack(message)
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 20


async def test_a_commit_beside_a_poll_that_is_cancelled_is_taken_back(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(20)
        async with w.lite(consume_from_where=FIRST, auto_commit=False) as consumer:
            consumer.subscribe("Orders")
            await consumer.wait_assigned(60)
            await trio.sleep(1)
            cancelled = await consumer.outside.polling.lend(10, 1)
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 10
            consumer.outside.polling.give_back(cancelled)
        assert w.broker.offsets["Orders", 0] == 0


async def test_a_commit_of_offsets_that_the_user_has_chosen_stays(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(20)
        async with w.lite(consume_from_where=FIRST, auto_commit=False) as consumer:
            consumer.subscribe("Orders")
            [queue] = await consumer.wait_assigned(60)
            await trio.sleep(1)
            cancelled = await consumer.outside.polling.lend(10, 1)
            await consumer.commit({queue: 15})
            consumer.outside.polling.give_back(cancelled)
        assert w.broker.offsets["Orders", 0] == 15


async def test_another_poll_does_not_say_that_it_is_dealt_with(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(20)
        async with w.lite(consume_from_where=FIRST) as consumer:
            consumer.subscribe("Orders")
            await consumer.wait_assigned(60)
            await trio.sleep(1)
            cancelled = await consumer.outside.polling.lend(10, 1)
            assert len(await consumer.poll(5, timeout=1)) == 5
            await trio.sleep(6)
            consumer.outside.polling.give_back(cancelled)
        assert w.broker.offsets["Orders", 0] == 0
