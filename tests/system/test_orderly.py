"""Consuming in order: a whole cluster in virtual time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater, Suspend
from rocketpy.wire.names import dlq_topic
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def orderly(w: World, listener: Any, *, topic: str = "Orders", group: str = "billing", **settings: Any) -> Any:
    consumer = w.consumer(group, orderly=True, consume_from_where=FIRST, **settings)
    consumer.subscribe(topic, listener)
    return consumer


def offsets(messages: list[MessageExt], queue_id: int) -> list[int]:
    return [message.queue_offset for message in messages if message.queue_id == queue_id]


class Slow(Recorder):
    """An async listener that takes its time, and notices when a queue has two of its kind."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.inside: set[MessageQueue] = set()

    async def __call__(self, message: MessageExt) -> None:  # type: ignore[override]
        assert message.queue not in self.inside, "two listeners in one queue"
        self.inside.add(message.queue)
        try:
            super().__call__(message)
            await trio.sleep(self.seconds)
        finally:
            self.inside.discard(message.queue)


# --- order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", [1, 4])
async def test_OR1_each_queue_is_consumed_in_order_and_queues_side_by_side(
    autojump_clock: MockClock, queues: int
) -> None:
    async with world(queues=queues) as w:
        got = Slow(0.1)
        async with orderly(w, got):
            began = trio.current_time()
            await w.send(40)
            await got.wait_count(40)
            for queue_id in range(queues):
                assert offsets(got.messages, queue_id) == list(range(40 // queues))
            assert trio.current_time() - began == pytest.approx(40 / queues * 0.1, abs=0.7)


async def test_OR1_tags_and_two_consumers(autojump_clock: MockClock) -> None:
    async with world() as w, AsyncExitStack() as stack:
        got = [Recorder(), Recorder()]
        for each in got:
            consumer = w.consumer(orderly=True, consume_from_where=FIRST)
            consumer.subscribe("Orders", each, tags="paid")
            await stack.enter_async_context(consumer)
        await trio.sleep(5)
        for number in range(80):
            await w.producer.send(Message("Orders", b"%d" % number, tags="paid" if number % 8 < 4 else "new"))
        await wait_until(lambda: sum(len(each.messages) for each in got) == 40)
        shares = [{message.queue_id for message in each.messages} for each in got]
        assert not shares[0] & shares[1]
        assert [len(share) for share in shares] == [2, 2]
        for each, share in zip(got, shares, strict=True):
            for queue_id in share:
                line = offsets(each.messages, queue_id)
                assert line == sorted(line)


async def test_OR1_batches_are_in_order_and_a_part_may_be_done(autojump_clock: MockClock) -> None:
    batches: list[list[int]] = []

    def listener(messages: list[MessageExt]) -> object:
        batches.append([message.queue_offset for message in messages])
        return 2 if len(batches) == 1 else None

    async with world(queues=1) as w:
        await w.send(10)
        async with orderly(w, listener, consume_message_batch_max_size=4) as consumer:
            await wait_until(lambda: consumer.statistics().consumed == 10)
    assert batches == [[0, 1, 2, 3], [2, 3], [4, 5, 6, 7], [8, 9]]


# --- what fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (ConsumeResult.RETRY, 1.0),
        ("nonsense", 1.0),
        (ConsumeResult.COMMIT, 0.0),
        (ConsumeResult.ROLLBACK, 1.0),
        (RetryLater(2), 5.0),
        (RetryLater(14), 30.0),
        (Suspend(7.5), 7.5),
    ],
)
async def test_OR4_the_same_message_again_after_a_pause_and_later_ones_wait(
    autojump_clock: MockClock, answer: object, pause: float
) -> None:
    times: list[int] = []
    got = Recorder(lambda message: times.append(message.reconsume_times) or (answer if len(times) == 1 else None))
    async with world(queues=1) as w:
        await w.send(3)
        async with orderly(w, got):
            await got.wait_count(4 if pause else 3)
    if pause:
        assert offsets(got.messages, 0) == [0, 0, 1, 2]
        assert times == [0, 1, 0, 0]
        assert got.times[1] - got.times[0] == pytest.approx(pause, abs=0.01)
        assert got.times[3] - got.times[1] < 0.01
    else:
        assert offsets(got.messages, 0) == [0, 1, 2]


async def test_OR4_an_exception_holds_up_its_queue_alone(autojump_clock: MockClock) -> None:
    def listener(message: MessageExt) -> None:
        got(message)
        if message.queue_id == 1 and message.reconsume_times < 3:
            raise ValueError("not yet")

    got = Recorder()
    async with world(queues=2) as w:
        await w.send(10)
        async with orderly(w, listener, suspend_current_queue_time=2.0) as consumer:
            await trio.sleep(1)
            assert offsets(got.messages, 0) == [0, 1, 2, 3, 4]
            assert offsets(got.messages, 1) == [0]
            assert consumer.status().queues[MessageQueue("Orders", "broker-a", 1)].commit_offset == 0
            await wait_until(lambda: consumer.statistics().consumed == 10)
    assert offsets(got.messages, 1) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]


@pytest.mark.parametrize(("most", "attempts"), [(0, 1), (2, 3)])
async def test_OR4_with_a_limit_it_becomes_a_dead_letter_and_the_queue_moves_on(
    autojump_clock: MockClock, most: int, attempts: int
) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: ConsumeResult.RETRY if message.body == b"1" else None)
        await w.send(4)
        async with orderly(w, got, max_reconsume_times=most) as consumer:
            await wait_until(lambda: consumer.statistics().consumed == 3)
            assert offsets(got.messages, 0) == [0, *[1] * attempts, 2, 3]
            await wait_until(lambda: consumer.status().queues[consumer.assignment[0]].commit_offset == 4)
            assert consumer.statistics().sent_back == 1
        dead = Recorder()
        async with orderly(w, dead, topic=dlq_topic("billing"), group="undertaker"):
            await dead.wait_count(1)
        assert dead.messages[0].body == b"1"
        assert dead.messages[0].system_properties["RETRY_TOPIC"] == "Orders"
        await trio.sleep(60)
        assert len(dead.messages) == 1


async def test_RT2_in_order_there_is_no_limit_to_retries(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: ConsumeResult.RETRY if message.reconsume_times < 40 else None)
        await w.send(1)
        async with orderly(w, got) as consumer:
            await got.wait_count(41)
            await wait_until(lambda: consumer.statistics().consumed == 1)
            assert consumer.statistics().sent_back == 0


async def test_OR4_what_is_hopeless_may_be_a_dead_letter_at_once(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: RetryLater(-1) if message.body == b"0" else None)
        await w.send(2)
        async with orderly(w, got) as consumer:
            await got.wait_count(2)
            await wait_until(lambda: consumer.statistics().sent_back == 1)
        dead = Recorder()
        async with orderly(w, dead, topic=dlq_topic("billing"), group="undertaker"):
            await dead.wait_count(1)


async def test_RT1_retries_without_a_listener_wait_for_one_and_never_become_dead_letters(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(topics=("Orders", "Bills"), queues=1) as w:
        first = w.consumer(consume_from_where=FIRST)
        first.subscribe("Bills", lambda message: ConsumeResult.RETRY)
        async with first:
            await w.send(3, topic="Bills")
            await wait_until(lambda: first.statistics().sent_back == 3)
        got = Recorder()
        async with orderly(w, lambda message: None) as consumer:
            await trio.sleep(120)
            assert w.cluster.dead_letters("billing") == []
            assert "no listener for topic Bills here: its retries are kept in memory" in caplog.text
            consumer.subscribe("Bills", got)
            await got.wait_count(3)
        assert [message.reconsume_times for message in got.messages] == [1, 1, 1]


# --- committing by hand ------------------------------------------------------------------------------------


async def test_listeners_may_commit_and_roll_back(autojump_clock: MockClock) -> None:
    answers = {3: [ConsumeResult.COMMIT], 6: [ConsumeResult.ROLLBACK, None], 9: [ConsumeResult.COMMIT]}

    def listener(message: MessageExt) -> object:
        got(message)
        left = answers.get(message.queue_offset)
        return left.pop(0) if left else None

    got = Recorder()
    async with world(queues=1) as w:
        await w.send(12)
        async with orderly(w, listener, auto_commit=False) as consumer:
            await got.wait_count(12 + 3)
            queue = consumer.assignment[0]
            await wait_until(lambda: consumer.status().queues[queue].commit_offset == 10)
        assert offsets(got.messages, 0) == [*range(7), *range(4, 12)]
        assert got.times[7] - got.times[6] == pytest.approx(1.0, abs=0.01)
        again = Recorder(lambda message: ConsumeResult.COMMIT)
        async with orderly(w, again, auto_commit=False):
            await again.wait_count(2)
        assert offsets(again.messages, 0) == [10, 11]


async def test_nothing_is_committed_unless_a_listener_says_so(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        await w.send(30)
        async with orderly(w, got, auto_commit=False, pull_threshold_for_queue=10, pull_batch_size=5) as consumer:
            await trio.sleep(10)
            assert len(got.messages) == 15
            assert consumer.status().queues[consumer.assignment[0]].commit_offset == 0
            assert "nothing more is pulled until a listener returns ConsumeResult.COMMIT" in caplog.text


def test_settings_that_make_no_sense_are_refused() -> None:
    from rocketpy.config import PushConsumerConfig

    with pytest.raises(ConfigError, match="set orderly=True too"):
        PushConsumerConfig(group="g", namesrv="a:1", auto_commit=False)
    with pytest.raises(ConfigError, match="orderly must be True or False"):
        PushConsumerConfig(group="g", namesrv="a:1", orderly="yes")
    for wrong in (0, 31, float("nan"), float("inf"), "1", None, True):
        with pytest.raises(ConfigError, match=r"0\.01 to 30 seconds"):
            Suspend(wrong)  # type: ignore[arg-type]


# --- members come and go -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_OR2_order_is_kept_while_members_come_and_go(autojump_clock: MockClock) -> None:
    async def member(begin: float, end: float) -> None:
        await trio.sleep(begin)
        async with orderly(w, got):
            await trio.sleep(end - begin)

    async with world(queues=8) as w:
        got = Slow(0.05)
        async with trio.open_nursery() as nursery:
            for begin, end in ((0, 60), (7, 30), (9, 80), (20, 40)):
                nursery.start_soon(member, begin, end)
            for start in range(0, 1600, 16):
                await w.send(16, start=start)
                await trio.sleep(0.4)
            await wait_until(lambda: len(got.bodies) == 1600)
        for queue_id in range(8):
            assert offsets(got.messages, queue_id) == list(range(200))


@pytest.mark.slow
async def test_a_queue_is_given_up_only_when_its_listener_is_out_of_it(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        first, second = Slow(70.0), Slow(0.1)
        await w.send(8)
        async with orderly(w, first) as one:
            await first.wait_count(2)
            began = trio.current_time()
            async with orderly(w, second) as other:
                await trio.sleep(25)
                (staying,) = one.assignment
                moving = MessageQueue("Orders", "broker-a", 1 - staying.queue_id)
                assert other.assignment == ()
                status = one.status()
                assert status.queues[moving].paused == "it is given up as soon as its listener returns"
                assert status.queues[moving].listener_age == pytest.approx(25, abs=1)
                assert status.locks[moving].held
                waiting = other.status()
                assert waiting.locks[moving].refused_for == pytest.approx(25, abs=1)
                assert waiting.locks[moving].free_in == pytest.approx(35, abs=1)
                assert "locked by another member of billing" in str(waiting.errors["Orders"])
                await wait_until(lambda: second.messages)
                # Locked all the time, committed, unlocked: nothing comes twice, and the next one takes it at once.
                assert trio.current_time() - began == pytest.approx(70, abs=1.5)
                await second.wait_count(3)
                assert offsets(second.messages, moving.queue_id) == [1, 2, 3]
                assert other.status().locks[moving].held


@pytest.mark.slow
async def test_a_listener_that_does_not_return_is_told_and_keeps_its_queue(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=1) as w:
        got = Slow(500.0)
        await w.send(2)
        async with orderly(w, got, consume_timeout=60.0, await_termination=5.0) as consumer:
            await trio.sleep(100)
            assert "nothing else of" in caplog.text
            queue = consumer.assignment[0]
            assert consumer.status().queues[queue].listener_age == pytest.approx(100, abs=1)
            assert consumer.status().locks[queue].held
            assert len(got.messages) == 1
            await trio.sleep(401)
            assert len(got.messages) == 2
            assert consumer.statistics().timed_out == 0
