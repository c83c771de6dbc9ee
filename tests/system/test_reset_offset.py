"""A group continues where an administrator has reset it, whatever its members are doing at that moment.

The broker reports the reset in answers to pulls. Clients have given up some of the pulls that it holds, and discard the
answers; the reset must not be lost because of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere, MessageModel
from tests.system.consuming import Recorder, World, queues_of, reset_group, wait_until, world
from tests.system.test_driven import scene

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MODES: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "orderly": {"orderly": True},
    "lite": {"auto_commit": True},
    "lite, manual commits": {"auto_commit": False},
}
modes = pytest.mark.parametrize("mode", MODES)


class Member:
    """A consumer of Orders in one of the modes, with the messages that it got."""

    def __init__(self, w: World, mode: str, *, tags: str = "t", **settings: Any) -> None:
        self.mode = mode
        self.got = Recorder()
        settings = {"consume_from_where": FIRST, **MODES[mode], **settings}
        self.is_lite = mode.startswith("lite")
        self.consumer: Any = w.lite(**settings) if self.is_lite else w.consumer(**settings)
        self.subscribe(tags)

    def subscribe(self, tags: str) -> None:
        self.consumer.subscribe("Orders", *(() if self.is_lite else (self.got,)), tags=tags)

    async def consume(self, seconds: float) -> None:
        """Consume for some time, and commit if the program has to."""
        end = trio.current_time() + seconds
        if self.is_lite:
            while trio.current_time() < end:
                for message in await self.consumer.poll(timeout=1.0):
                    self.got(message)
            await self.consumer.commit()
        await trio.sleep_until(end)


async def consume(seconds: float, *members: Member) -> None:
    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(member.consume, seconds)


def committed(w: World) -> list[int]:
    return [w.cluster.brokers[0].offsets.query("billing", "Orders", number) for number in range(4)]


async def used_up(w: World, member: Member) -> list[bytes]:
    """Send forty messages, which a member consumes and commits."""
    sent = await w.send(40, tags="t")
    await member.consume(8)
    assert member.got.bodies == Counter(sent)
    assert committed(w) == [10, 10, 10, 10]
    member.got.messages.clear()
    return sent


@modes
async def test_OF4_a_group_is_reset_while_it_consumes(autojump_clock: MockClock, mode: str) -> None:
    async with world() as w:
        member = Member(w, mode)
        async with member.consumer:
            sent = await used_up(w, member)
            await reset_group(w)
            await trio.sleep(0.5)
            assert committed(w) == [0, 0, 0, 0]
            await member.consume(60)
        assert member.got.bodies == Counter(sent)
        assert committed(w) == [10, 10, 10, 10]


@pytest.mark.slow
@modes
@pytest.mark.parametrize("seconds", [0, 5])
async def test_OF4_a_reset_soon_after_queues_have_moved(autojump_clock: MockClock, mode: str, seconds: float) -> None:
    """The broker still holds the pulls of the member that had the queues before."""
    async with world() as w:
        first, second = Member(w, mode), Member(w, mode)
        async with first.consumer:
            sent = await used_up(w, first)
            async with second.consumer:
                await wait_until(lambda: len(second.consumer.assignment) == 2)
                await consume(seconds, first, second)
                await reset_group(w)
                await consume(40, first, second)
        assert first.got.bodies + second.got.bodies == Counter(sent)
        assert committed(w) == [10, 10, 10, 10]


@pytest.mark.slow
@modes
@pytest.mark.parametrize("then", ["resume", "restart"])
async def test_OF4_a_reset_soon_after_a_pause(autojump_clock: MockClock, mode: str, then: str) -> None:
    async with world() as w:
        member = Member(w, mode)
        async with member.consumer:
            sent = await used_up(w, member)
            member.consumer.pause(queues_of(4))
            await trio.sleep(1)
            await reset_group(w)
            await trio.sleep(1)
            if then == "resume":
                member.consumer.resume(queues_of(4))
                await member.consume(40)
            assert member.consumer.statistics().offset_resets >= 4
        if then == "restart":
            assert committed(w) == [0, 0, 0, 0]
            member = Member(w, mode)
            async with member.consumer:
                await member.consume(40)
        assert member.got.bodies == Counter(sent)


@modes
async def test_OF4_a_reset_beside_another_subscription(autojump_clock: MockClock, mode: str) -> None:
    async with world() as w:
        member = Member(w, mode)
        async with member.consumer:
            sent = await used_up(w, member)
            member.subscribe("t || u")
            await reset_group(w)
            await member.consume(40)
        assert member.got.bodies == Counter(sent)
        assert committed(w) == [10, 10, 10, 10]


@modes
async def test_OF4_a_reset_holds_for_the_next_member_before_it_is_committed(
    autojump_clock: MockClock, mode: str
) -> None:
    async with world() as w:
        member = Member(w, mode)
        async with member.consumer:
            sent = await used_up(w, member)
            await reset_group(w)
            await trio.sleep(0.02)
        assert committed(w) == [0, 0, 0, 0]
        following = Member(w, mode)
        async with following.consumer:
            await following.consume(40)
        assert member.got.bodies + following.got.bodies == Counter(sent)


# --- taken up in order ------------------------------------------------------------------------------------


class Course:
    """Records in order what happens to one queue: its hooks, its listener, its commits at the broker."""

    def __init__(self, w: World, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
        self.steps: list[str] = []
        self.queue = queue
        self.seconds = seconds
        offsets = w.cluster.brokers[0].offsets
        commit = offsets.commit

        def noted(group: str, topic: str, queue_id: int, offset: int) -> None:
            if (topic, queue_id) == (queue.topic, queue.queue_id):
                self.note(f"committed {offset}")
            commit(group, topic, queue_id, offset)

        monkeypatch.setattr(offsets, "commit", noted)

    def note(self, step: str) -> None:
        if self.steps[-1:] != [step]:
            self.steps.append(step)

    @property
    def hooks(self) -> dict[str, Callable[[tuple[MessageQueue, ...]], None]]:
        def hook(what: str) -> Callable[[tuple[MessageQueue, ...]], None]:
            return lambda queues: self.note(what) if self.queue in queues else None

        return {"on_assigned": hook("assigned"), "on_revoked": hook("revoked")}

    async def listen(self, message: MessageExt) -> None:
        if message.queue == self.queue:
            self.note(f"begins {message.queue_offset}")
            await trio.sleep(self.seconds)
            self.note(f"ends {message.queue_offset}")


KINDS: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "orderly": {"orderly": True},
    "broadcast": {"message_model": MessageModel.BROADCASTING},
    "orderly broadcast": {"orderly": True, "message_model": MessageModel.BROADCASTING},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_OF4_a_queue_that_is_reset_is_given_up_and_taken_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """Its listener finishes first, and nothing that was consumed meanwhile is committed."""
    async with world(queues=1) as w:
        [queue] = queues_of(1)
        course = Course(w, queue, monkeypatch, seconds=4)
        consumer = w.consumer(
            consume_from_where=FIRST,
            consume_thread_max=1,
            local_offset_store_dir=str(tmp_path),
            **KINDS[kind],
            **course.hooks,
        )
        consumer.subscribe("Orders", course.listen)
        async with consumer:
            await w.send(3)
            await wait_until(lambda: course.steps[-1:] == ["begins 1"])
            await trio.sleep(2)
            await reset_group(w)
            await trio.sleep(20)
            assert [step for step in course.steps if "committed" not in step] == [
                *("assigned", "begins 0", "ends 0", "begins 1", "ends 1", "revoked", "assigned"),
                *("begins 0", "ends 0", "begins 1", "ends 1", "begins 2", "ends 2"),
            ]
            again = course.steps.index("ends 1")
            commits = [step for step in course.steps[again : course.steps.index("ends 0", again)] if "commit" in step]
            assert commits in ([], ["committed 0"])


async def test_OF4_in_order_even_a_slow_listener_is_out_before_on_revoked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(queues=1) as w:
        [queue] = queues_of(1)
        course = Course(w, queue, monkeypatch, seconds=25)
        consumer = w.consumer(consume_from_where=FIRST, orderly=True, **course.hooks)
        consumer.subscribe("Orders", course.listen)
        async with consumer:
            await w.send(1)
            await wait_until(lambda: course.steps[-1:] == ["begins 0"])
            await reset_group(w, timestamp=-1)
            await trio.sleep(60)
            steps = [step for step in course.steps if "committed" not in step]
            assert steps == ["assigned", "begins 0", "ends 0", "revoked", "assigned"]
            assert consumer.assignment == (queue,)


async def test_OF4_a_member_that_starts_at_the_new_position_takes_its_queues_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker reports the reset to it too, but there is nothing to give up."""
    async with world(queues=1) as w:
        await w.send(3)
        w.cluster.brokers[0].groups.find("billing")
        await reset_group(w)
        [queue] = queues_of(1)
        course = Course(w, queue, monkeypatch)
        consumer = w.consumer(**course.hooks)
        consumer.subscribe("Orders", course.listen)
        async with consumer:
            await trio.sleep(1)
            assert [step for step in course.steps if "ends" not in step and "commit" not in step] == [
                "assigned",
                *(f"begins {offset}" for offset in range(3)),
            ]
            assert consumer.statistics().offset_resets == 1


@pytest.mark.parametrize("pause", [0.0, 0.5, 1.2])
async def test_OF4_the_last_of_several_resets_counts(autojump_clock: MockClock, pause: float) -> None:
    async with scene() as s:
        await trio.sleep(6)
        s.recorder.messages.clear()
        for offset in (1, 2, 4):
            await s.reset({s.queue(n): offset for n in range(4)})
            await trio.sleep(pause)
        await trio.sleep(20)
        for number in range(4):
            offsets = [message.queue_offset for message in s.recorder.messages if message.queue_id == number]
            assert offsets[-2:] in ([4], [4, 4])
        assert {s.broker.offsets.query("billing", "Orders", n) for n in range(4)} == {5}


async def test_OF4_the_last_of_many_resets_counts_however_long_they_take(autojump_clock: MockClock) -> None:
    async def settle(queues: Sequence[MessageQueue]) -> None:
        await trio.sleep(16)

    async with scene(on_revoked=settle, rebalance_hook_timeout=20) as s:
        for pause, offset in ((5, 1), (15, 2), (18, 3), (60, 0)):
            await s.reset({s.queue(n): offset for n in range(4)})
            await trio.sleep(pause)
        assert len(s.consumer.assignment) == 4
        assert [message.queue_offset for message in s.recorder.messages].count(0) == 4 + 4
