"""What users of other clients have complained of most, tried on whole consumers: it must not happen here."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import RequestTimeoutError
from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import Recorder, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WAYS = pytest.mark.parametrize("orderly", [False, True], ids=["side by side", "in order"])


# --- 18: it starts well and never receives -----------------------------------------------------------------


@WAYS
async def test_complaint_18_a_start_ends_with_queues_that_are_pulled_and_says_which(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, orderly: bool
) -> None:
    async with world() as w:
        sent, got = await w.send(8), Recorder()
        consumer = w.consumer(consume_from_where=FIRST, orderly=orderly)
        consumer.subscribe("Orders", got)
        with caplog.at_level(logging.INFO, "rocketpy.consumer"):
            async with consumer:
                began = trio.current_time()
                assert [queue.queue_id for queue in consumer.assignment] == [0, 1, 2, 3]
                assert consumer.status().balanced
                assert "Orders: ours are 4 of 4 queues, as 1 of 1 member;" in caplog.text
                await got.wait_count(len(sent), within=1)
                queues = [consumer.status().queues[queue] for queue in consumer.assignment]
                assert all(each.last_pull_age <= trio.current_time() - began + 1 for each in queues)
        assert got.bodies == dict.fromkeys(sent, 1)


async def test_complaint_18_who_gets_nothing_hears_why(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        members = [w.consumer(), w.consumer()]
        for member in members:
            member.subscribe("Orders", Recorder())
        async with members[0], members[1]:
            await wait_until(lambda: sum(len(member.assignment) for member in members) == 1)
            (idle,) = [member for member in members if not member.assignment]
            with pytest.raises(RequestTimeoutError, match="other members have all queues"):
                await idle.wait_assigned(5)
            assert idle.status().balanced
            (busy,) = [member for member in members if member is not idle]
            assert await busy.wait_assigned(0) == busy.assignment
        nowhere = w.consumer("lost")
        nowhere.subscribe("Missing", Recorder())
        async with nowhere:
            with pytest.raises(RequestTimeoutError, match="the topic Missing does not exist"):
                await nowhere.wait_assigned(5)
            assert "Missing" in nowhere.status().errors
            assert not nowhere.status().balanced


# --- 19: it dies of waiting --------------------------------------------------------------------------------


class Deep(Recorder):
    """An async listener that is slower than pulling, and looks how deep it is called and how many tasks there are."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[int, int]] = set()

    async def __call__(self, message: MessageExt) -> None:  # type: ignore[override]
        super().__call__(message)
        await trio.sleep(0.01)
        if len(self.messages) % 100 == 0:
            self.seen.add((depth(), trio.lowlevel.current_statistics().tasks_living))


def depth() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


@pytest.mark.slow
@WAYS
async def test_complaint_19_thousands_of_waits_make_nothing_deeper_or_larger(
    autojump_clock: MockClock, orderly: bool
) -> None:
    """Each pull waits until the message before is done: more often than Python lets functions call each other."""
    count = sys.getrecursionlimit() + 500
    async with world(queues=1) as w:
        await w.producer.send_many(message(number) for number in range(count))
        got = Deep()
        consumer = w.consumer(
            consume_from_where=FIRST,
            orderly=orderly,
            pull_threshold_for_queue=1,
            pull_batch_size=1,
            consume_thread_max=1,
        )
        consumer.subscribe("Orders", got)
        async with consumer:
            await got.wait_count(100)
            warm = trio.lowlevel.current_statistics().tasks_living
            await got.wait_count(count, within=3600)
            assert consumer.statistics().pulls >= count
            assert max(held.held_messages for held in consumer.status().queues.values()) <= 2
        assert [int(each.body) for each in got.messages] == list(range(count))
        assert len({deep for deep, _ in got.seen}) == 1
        assert max(tasks for _, tasks in got.seen) <= warm + 5


def message(number: int) -> Message:
    return Message("Orders", b"%d" % number)


# --- 24: shutting down loses or repeats ---------------------------------------------------------------------


class Working:
    """An async listener that takes its time; it knows what it has finished, and what was cut off."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.finished: Counter[bytes] = Counter()
        self.cut_off: Counter[bytes] = Counter()
        self.attempts: set[int] = set()

    async def __call__(self, message: MessageExt) -> None:
        self.attempts.add(message.reconsume_times)
        try:
            await trio.sleep(self.seconds)
        except trio.Cancelled:
            self.cut_off[message.body] += 1
            raise
        self.finished[message.body] += 1


async def lives(
    w: Any, listener: Working, seconds: Callable[[], float], *, until: int, most: int, **settings: Any
) -> int:
    """Start consumers one after the other and close each while it works; how many there were."""
    for life in range(1, most + 1):
        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=3, **settings)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(seconds())
        if len(listener.finished) == until:
            return life
    raise AssertionError(f"{len(listener.finished)} of {until} are done")


@WAYS
async def test_complaint_24_members_that_close_at_work_finish_it_and_nothing_comes_twice(
    autojump_clock: MockClock, orderly: bool
) -> None:
    async with world(queues=2) as w:
        sent, listener = await w.send(60), Working(0.7)
        count = await lives(w, listener, lambda: 2.0, until=60, most=40, orderly=orderly)
        assert count > 5
        assert listener.finished == dict.fromkeys(sent, 1)
        assert listener.cut_off == {}


@pytest.mark.slow
@WAYS
async def test_complaint_24_what_is_cut_off_comes_again_once_and_counts_as_no_attempt(
    autojump_clock: MockClock, orderly: bool
) -> None:
    async with world(queues=2) as w:
        sent, listener = await w.send(40), Working(0.7)
        count = await lives(w, listener, lambda: 2.0, until=40, most=60, orderly=orderly, await_termination=0.05)
        assert count > 5
        assert sum(listener.cut_off.values()) >= count - 1
        # Side by side a later message may be done when an earlier one is cut off: then it comes again, once.
        assert set(listener.finished) == set(sent)
        assert max(listener.finished.values()) <= (1 if orderly else 2)
        assert listener.attempts == {0}
        assert w.cluster.dead_letters("billing") == []
