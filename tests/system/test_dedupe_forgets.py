"""What somebody asks to have consumed again is consumed again, however much of it is remembered."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import MockClock

from rocketpy import replay_dead_letters
from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.enums import CMResult
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from tests.system.consuming import Recorder, wait_until, world
from tests.system.test_driven import Scene, scene

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MODES = [{"orderly": False}, {"orderly": True}, {"orderly": True, "auto_commit": False}]
in_every_mode = pytest.mark.parametrize("mode", MODES, ids=["side by side", "in order", "by hand"])


def done_by(mode: dict[str, bool]) -> Recorder:
    """A listener that has consumed what it got, and commits it where that is its business."""
    outcome = None if mode.get("auto_commit", True) else ConsumeResult.COMMIT
    return Recorder(lambda message: outcome)


def offsets(s: Scene) -> set[int]:
    return {s.broker.offsets.query("billing", "Orders", n) for n in range(4)}


# --- one message directly ----------------------------------------------------------------------------------


@in_every_mode
async def test_PC7_a_message_that_is_consumed_directly_is_no_copy(
    autojump_clock: MockClock, mode: dict[str, bool]
) -> None:
    hooked: list[bytes] = []
    got = done_by(mode)
    settings = {"dedupe": "unique_id", "before_consume": lambda message: hooked.append(message.body), **mode}
    async with scene(messages=4, listener=got, **settings) as s:
        assert len(got.messages) == 4
        told = await s.directly(got.messages[0])
        committed = CMResult.CR_COMMIT if mode.get("auto_commit") is False else CMResult.CR_SUCCESS
        assert told.consume_result is committed
        assert got.bodies[got.messages[0].body] == 2
        assert hooked == [message.body for message in got.messages]
        assert s.consumer.statistics().duplicates == 0


async def test_PC7_what_is_consumed_directly_is_not_remembered(autojump_clock: MockClock) -> None:
    async with scene(messages=4, dedupe="unique_id") as s:
        s.recorder.answer = lambda message: ConsumeResult.RETRY if message.reconsume_times == 0 else None
        await s.world.send(1, start=100)
        await s.recorder.wait_count(5)
        s.recorder.answer = lambda message: None
        await s.directly(s.recorder.messages[4])  # while the same message waits for its next try
        await trio.sleep(60)
        assert s.recorder.bodies[b"100"] == 3
        assert s.consumer.statistics().duplicates == 0


# --- other offsets -----------------------------------------------------------------------------------------


@in_every_mode
async def test_OF4_what_a_reset_goes_back_to_is_no_copy(autojump_clock: MockClock, mode: dict[str, bool]) -> None:
    got = done_by(mode)
    async with scene(listener=got, dedupe="unique_id", **mode) as s:
        assert len(got.messages) == 20
        await s.reset({s.queue(n): 2 for n in (0, 1)})
        await got.wait_count(26)
        await trio.sleep(30)
        again = Counter((message.queue_id, message.queue_offset) for message in got.messages[20:])
        assert again == {(queue, offset): 1 for queue in (0, 1) for offset in (2, 3, 4)}
        assert offsets(s) == {5}
        assert s.consumer.statistics().duplicates == 0


@in_every_mode
async def test_OF4_PC7_what_a_broker_goes_back_to_by_itself_is_no_copy(
    autojump_clock: MockClock, mode: dict[str, bool]
) -> None:
    got = done_by(mode)
    async with scene(listener=got, dedupe="unique_id", **mode) as s:
        await trio.sleep(6)  # until every queue has an offset
        assert len(got.messages) == 20
        header = ResetOffsetRequestHeader(group="billing", topic="Orders", timestamp=0, is_force=True)
        answer = await s.admin.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
        assert answer.code == 0, answer.remark
        await got.wait_count(40, within=120)
        await trio.sleep(30)
        assert set(got.bodies.values()) == {2}
        assert offsets(s) == {5}
        assert s.consumer.statistics().duplicates == 0


async def test_OF4_a_copy_in_a_queue_that_stays_is_known_after_the_reset_of_another(autojump_clock: MockClock) -> None:
    async with scene(messages=0, dedupe="key") as s:
        queues = {s.queue(0): b"first", s.queue(1): b"second"}
        for queue, body in queues.items():
            await s.world.producer.send(Message("Orders", body, keys=[body.decode()]), queue=queue)
        await s.recorder.wait_count(2)
        await s.reset({s.queue(0): 0})
        await s.recorder.wait_count(3)
        for queue, body in queues.items():
            await s.world.producer.send(Message("Orders", b"a copy", keys=[body.decode()]), queue=queue)
        await trio.sleep(30)
        assert s.recorder.bodies == {b"first": 2, b"second": 1}
        assert s.consumer.statistics().duplicates == 2


async def test_OF4_what_was_retried_is_no_copy_when_its_queue_goes_back(autojump_clock: MockClock) -> None:
    got = Recorder(
        lambda message: ConsumeResult.RETRY if message.reconsume_times == 0 and len(got.messages) < 2 else None
    )
    async with scene(messages=1, listener=got, dedupe="unique_id") as s:
        await got.wait_count(2)
        await trio.sleep(6)
        await s.reset({s.queue(n): 0 for n in range(4)})
        await got.wait_count(3)


async def test_OF4_a_call_that_outlasts_the_reset_does_not_make_its_message_a_copy(autojump_clock: MockClock) -> None:
    seen: list[float] = []

    async def slow_at_first(message: MessageExt) -> None:
        seen.append(trio.current_time())
        if len(seen) == 1:
            await trio.sleep(60)

    settings = {"dedupe": "unique_id", "consume_thread_max": 1, "await_termination": 0.0}
    async with scene(messages=1, listener=slow_at_first, **settings) as s:
        await wait_until(lambda: seen)
        await s.reset({s.queue(n): 0 for n in range(4)})
        await wait_until(lambda: len(seen) == 2, within=100)  # it has to wait for the only worker
        assert seen[1] - seen[0] == pytest.approx(60, abs=1)


async def test_a_queue_that_was_moved_back_while_another_member_had_it_is_consumed_again(
    autojump_clock: MockClock,
) -> None:
    async with scene(messages=20, dedupe="unique_id") as s:
        await trio.sleep(6)
        s.consumer.unsubscribe("Orders")
        await wait_until(lambda: not s.consumer.assignment)
        await trio.sleep(6)
        for number in range(4):
            s.broker.offsets.commit("billing", "Orders", number, 3)
        s.consumer.subscribe("Orders", s.recorder)
        await s.recorder.wait_count(28)
        await trio.sleep(30)
        assert sorted(message.queue_offset for message in s.recorder.messages[20:]) == [3] * 4 + [4] * 4


# --- dead letters ------------------------------------------------------------------------------------------


async def test_dead_letters_that_are_replayed_go_to_those_who_have_not_consumed_them(
    autojump_clock: MockClock,
) -> None:
    """They keep their unique ids: the group that gave them up consumes them now, another one has done so before."""
    async with world(queues=1) as w:
        failing, other = Recorder(lambda message: RetryLater(-1)), Recorder()
        consumers = [w.consumer(group, consume_from_where=FIRST, dedupe="unique_id") for group in ("billing", "audit")]
        for consumer, listener in zip(consumers, (failing, other), strict=True):
            consumer.subscribe("Orders", listener)
        async with consumers[0], consumers[1]:
            await w.send(3)
            await wait_until(lambda: w.cluster.brokers[0].store.reads.max_offset("%DLQ%billing", 0) == 3)
            failing.answer = lambda message: None
            where = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
            assert (await replay_dead_letters("billing", **where)).replayed == 3
            await failing.wait_count(6)
            await trio.sleep(10)
            assert set(failing.bodies.values()) == {2}
            assert set(other.bodies.values()) == {1}
            assert [consumer.statistics().duplicates for consumer in consumers] == [0, 3]
