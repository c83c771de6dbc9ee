"""Dead letters are sent to their own topics again: in part, later, and from where the last replay ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import rocketpy
from rocketpy import (
    BrokerUnreachableError,
    ConfigError,
    MessageExt,
    NoPermissionError,
    RequestTimeoutError,
    RetryLater,
    TopicNotFoundError,
)
from rocketpy.admin import dead_letters, resending
from rocketpy.client.api import offset as offset_api
from rocketpy.message import Message
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.enums import ConsumeFromWhere
from rocketpy.wire.sysflag import Permission
from tests.system.consuming import Recorder, World, reset_group, wait_until, world

DEAD = "%DLQ%billing"


@attrs.define
class Scene:
    """A cluster with dead letters, and a consumer that takes them now."""

    world: World
    recorder: Recorder

    async def replay(self, **arguments: object) -> rocketpy.DeadLetterReplay:
        where = {"namesrv": self.world.cluster.name_server_addresses, "network": self.world.cluster.network}
        return await rocketpy.replay_dead_letters("billing", **where | arguments)  # type: ignore[arg-type]

    def committed(self, queue_id: int = 0) -> int:
        return self.world.cluster.brokers[0].offsets.query("billing", DEAD, queue_id)

    @property
    def dead(self) -> int:
        return self.world.cluster.brokers[0].store.reads.max_offset(DEAD, 0)


@asynccontextmanager
async def scene(count: int = 5, brokers: int = 1) -> AsyncIterator[Scene]:
    """So many messages to Orders, and one to Refunds, have died."""
    healthy = False

    def answer(message: MessageExt) -> object:
        return None if healthy else RetryLater(-1)

    recorder = Recorder(answer)
    async with world(brokers, topics=("Orders", "Refunds")) as w:
        consumer = w.consumer(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        for topic in ("Orders", "Refunds"):
            consumer.subscribe(topic, recorder)
        async with consumer:
            await consumer.wait_assigned(30)
            for number in range(count):
                body, properties = b"%d" % number, {"user": "value"}
                await w.producer.send(
                    Message("Orders", body, tags="a", keys="k", sharding_key="s", properties=properties)
                )
            await w.producer.send(Message("Refunds", b"refund"))
            stores = [broker.store for broker in w.cluster.brokers]
            await wait_until(lambda: sum(store.reads.max_offset(DEAD, 0) for store in stores) == count + 1)
            recorder.messages.clear()
            healthy = True
            yield Scene(w, recorder)


async def test_OF4_dead_letters_that_were_reset_are_replayed_again(autojump_clock: MockClock) -> None:
    async with scene() as s:
        assert (await s.replay()).replayed == 6
        await reset_group(s.world, topic=DEAD)
        assert (await s.replay()).replayed == 6
        assert s.committed() == 6
        assert (await s.replay()).replayed == 0


async def test_every_dead_letter_goes_to_its_own_topic_once(autojump_clock: MockClock) -> None:
    async with scene() as s:
        done = await s.replay()
        assert done == rocketpy.DeadLetterReplay(replayed=6, skipped=0, remaining=0, topics={"Orders": 5, "Refunds": 1})
        await s.recorder.wait_count(6)
        assert sorted(message.body for message in s.recorder.messages) == [b"0", b"1", b"2", b"3", b"4", b"refund"]
        assert s.committed() == 6
        again = await s.replay()
        assert (again.replayed, again.remaining) == (0, 0)


async def test_what_a_message_says_stays_and_what_became_of_it_goes(autojump_clock: MockClock) -> None:
    async with scene(1) as s:
        broker = s.world.cluster.brokers[0]
        [dead] = [m for m in await _dead_letters(s) if m.topic == "Orders"]
        await s.replay()
        await s.recorder.wait_count(2)
        [message] = [m for m in s.recorder.messages if m.topic == "Orders"]
        assert (message.tags, message.keys, message.sharding_key) == ("a", ("k",), "s")
        assert message.properties["user"] == "value"
        assert message.message_id == dead.message_id
        assert message.reconsume_times == 0
        assert message.system_properties["RETRY_TOPIC"] == "Orders"
        assert message.system_properties["ORIGIN_MESSAGE_ID"] == dead.system_properties["ORIGIN_MESSAGE_ID"]
        gone = {"DELAY", "WAIT", "REAL_TOPIC", "REAL_QID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES"}
        assert not gone & set(message.wire_properties)
        assert broker.store.reads.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 0


async def _dead_letters(s: Scene) -> list[MessageExt]:
    seen: list[MessageExt] = []
    await s.replay(dry_run=True, wanted=lambda message: seen.append(message))
    return seen


async def test_a_limit_and_a_filter(autojump_clock: MockClock) -> None:
    async with scene() as s:
        first = await s.replay(limit=2)
        assert (first.replayed, first.skipped, first.remaining) == (2, 0, 4)
        assert s.committed() == 2
        rest = await s.replay(wanted=lambda message: message.topic == "Refunds")
        assert (rest.replayed, rest.skipped, rest.remaining, rest.topics) == (1, 3, 0, {"Refunds": 1})
        await s.recorder.wait_count(3)
        assert sorted(message.body for message in s.recorder.messages) == [b"0", b"1", b"refund"]


async def test_a_dry_run_sends_and_commits_nothing(autojump_clock: MockClock) -> None:
    async with scene() as s:
        seen: list[str] = []
        done = await s.replay(dry_run=True, wanted=lambda message: seen.append(message.topic) or True)
        assert (done.replayed, done.remaining) == (6, 0)
        assert sorted(seen) == ["Orders"] * 5 + ["Refunds"]
        assert (await s.replay(dry_run=True, limit=4)).remaining == 2
        await trio.sleep(30)
        assert s.recorder.messages == []
        assert (await s.replay()).replayed == 6


async def test_many_batches_of_several_brokers(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "BATCH", 2)
    async with scene(21, brokers=2) as s:
        assert (await s.replay()).replayed == 22
        await s.recorder.wait_count(22)
        assert len({message.body for message in s.recorder.messages}) == 22


async def test_what_dies_during_a_replay_waits_for_the_next(autojump_clock: MockClock) -> None:
    async with scene(3) as s:
        s.recorder.answer = lambda message: RetryLater(-1)
        assert (await s.replay()).replayed == 4
        await wait_until(lambda: s.dead == 8)
        assert (await s.replay()).replayed == 4


def failing_at(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """From here on a message of that body cannot be sent."""
    inner = resending.send

    async def send(core: Any, outgoing: Any, **more: Any) -> Any:
        if outgoing.body == body:
            raise RequestTimeoutError("no answer", timeout=1)
        return await inner(core, outgoing, **more)

    monkeypatch.setattr(resending, "send", send)


@pytest.mark.parametrize("batch", [1, 32])
async def test_a_replay_that_fails_goes_on_where_it_ended(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(dead_letters, "BATCH", batch)
    async with scene(5) as s:
        bodies = [message.body for message in await _dead_letters(s)]
        with monkeypatch.context() as patched:
            failing_at(patched, bodies[3])
            with pytest.raises(RequestTimeoutError):
                await s.replay()
        assert s.committed() == 3
        assert (await s.replay()).replayed == 3
        await s.recorder.wait_count(6)
        await trio.sleep(10)
        assert sorted(message.body for message in s.recorder.messages) == sorted(bodies)


async def test_a_replay_that_is_cancelled_goes_on_where_it_ended(autojump_clock: MockClock) -> None:
    async with scene(5) as s:
        with trio.CancelScope() as scope:

            def wanted(message: MessageExt) -> bool:
                if message.queue_offset == 5:
                    scope.cancel()
                return True

            await s.replay(wanted=wanted)
        assert scope.cancelled_caught
        assert s.committed() == 0
        assert (await s.replay()).replayed == 6


def stuck_at(monkeypatch: pytest.MonkeyPatch, body: bytes) -> trio.Event:
    """From here on a message of that body is never answered. The event is set once it is being sent."""
    inner, sending = resending.send, trio.Event()

    async def send(core: Any, outgoing: Any, **more: Any) -> Any:
        if outgoing.body == body:
            sending.set()
            await trio.sleep_forever()
        return await inner(core, outgoing, **more)

    monkeypatch.setattr(resending, "send", send)
    return sending


@pytest.mark.parametrize("how", ["in the function", "by the admin"])
async def test_a_cancelled_replay_says_what_it_has_sent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    async with scene(5) as s:
        bodies = [message.body for message in await _dead_letters(s)]
        with monkeypatch.context() as patched, trio.move_on_after(5) as scope:
            stuck_at(patched, bodies[3])
            if how == "in the function":
                await s.replay()
            else:
                async with s.world.producer.admin() as admin:
                    await admin.messages.replay_dead_letters("billing")
        assert scope.cancelled_caught
        assert s.committed() == 3
        assert "ended early: 3 messages sent, 0 skipped, 3 left for the next replay" in caplog.text
        assert (await s.replay()).replayed == 3


@pytest.mark.parametrize("interrupt", [True, False], ids=["Ctrl-C", "cancelled"])
async def test_what_ends_a_replay_comes_out_even_if_nothing_can_be_committed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, interrupt: bool
) -> None:
    async def refuse(*args: object, **more: object) -> None:
        raise BrokerUnreachableError("the broker is down", topic=DEAD)

    async with scene(5) as s:
        bodies = [message.body for message in await _dead_letters(s)]
        ended: list[BaseException] = []
        with monkeypatch.context() as patched, trio.CancelScope() as scope:
            sending = stuck_at(patched, bodies[2])
            patched.setattr(offset_api, "update_consumer_offset", refuse)

            async def end() -> None:
                await sending.wait()
                if interrupt:
                    raise KeyboardInterrupt
                scope.cancel()

            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(end)
                    await s.replay()
            except* KeyboardInterrupt as group:
                ended += group.exceptions
        assert scope.cancelled_caught is not interrupt
        assert len(ended) == interrupt
        assert "the broker is down" in caplog.text
        assert "2 messages sent, 0 skipped, 4 left for the next replay; the last 2 sent could not" in caplog.text
        assert (await s.replay()).replayed == 6


async def test_a_commit_that_fails_is_an_error_that_says_what_was_sent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: object, **more: object) -> None:
        raise RequestTimeoutError("no answer", timeout=1)

    async with scene(2) as s:
        with monkeypatch.context() as patched:
            patched.setattr(offset_api, "update_consumer_offset", refuse)
            with pytest.raises(RequestTimeoutError) as caught:
                await s.replay()
        [note] = caught.value.__notes__
        assert "3 messages sent, 0 skipped, 0 left" in note
        assert "the last 3 sent could not be committed" in note


async def test_two_replays_at_once_in_one_process(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(5) as s:
        bodies = [message.body for message in await _dead_letters(s)]
        with monkeypatch.context() as patched:
            sending = stuck_at(patched, bodies[2])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(s.replay)
                await sending.wait()
                with pytest.raises(ConfigError, match="is running in this process: wait until it has ended"):
                    await s.replay()
                assert (await s.replay(dry_run=True)).replayed == 6
                nursery.cancel_scope.cancel()
        assert (await s.replay()).replayed == 4


async def test_a_group_without_dead_letters_or_without_permission(autojump_clock: MockClock) -> None:
    async with scene(1) as s:
        where = {"namesrv": s.world.cluster.name_server_addresses, "network": s.world.cluster.network}
        with pytest.raises(TopicNotFoundError, match=r"no broker knows the group biling: .* check the spelling of"):
            await rocketpy.replay_dead_letters("biling", **where)
        other = s.world.consumer("another")
        other.subscribe("Orders", lambda message: None)
        async with other:
            await other.wait_assigned(30)
        none = await rocketpy.replay_dead_letters("another", **where)
        assert none == rocketpy.DeadLetterReplay(replayed=0, skipped=0, remaining=0, topics={})
        s.world.cluster.brokers[0].topics.put(
            TopicConfig(topic_name=DEAD, read_queue_nums=1, write_queue_nums=1, perm=Permission.WRITE)
        )
        with pytest.raises(NoPermissionError):
            await s.replay()


async def test_one_that_does_not_say_where_it_comes_from_is_skipped(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(2) as s:
        inner = dead_letters._origin
        monkeypatch.setattr(dead_letters, "_origin", lambda message: inner(message) if message.tags else None)
        done = await s.replay()
        assert (done.replayed, done.skipped, done.remaining) == (2, 1, 0)
    assert "does not say which topic it comes from" in caplog.text


@pytest.mark.parametrize(
    ("properties", "topic"),
    [
        ({"RETRY_TOPIC": "T"}, "T"),
        ({"DLQ_ORIGIN_TOPIC": "T"}, "T"),
        ({"RETRY_TOPIC": "%RETRY%g", "DLQ_ORIGIN_TOPIC": "T"}, "T"),
        ({"RETRY_TOPIC": "%DLQ%g"}, None),
        ({"RETRY_TOPIC": ""}, None),
        ({}, None),
    ],
)
def test_the_topic_that_a_dead_letter_comes_from(properties: dict[str, str], topic: str | None) -> None:
    message = MessageExt("%DLQ%g", b"x", properties=properties)
    assert dead_letters._origin(message) == topic


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": -1}, {"limit": 1.5}, {"limit": True}, {"limit": "3"}, {"wanted": 7}, {"client": "x"}],
    ids=str,
)
async def test_arguments_that_cannot_be_used_are_refused(autojump_clock: MockClock, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        await rocketpy.replay_dead_letters("g", **{"namesrv": "127.0.0.1:1"} | wrong)  # type: ignore[arg-type]


async def test_names_and_async_filters_are_refused(autojump_clock: MockClock) -> None:
    async def later(message: MessageExt) -> bool:
        return True

    for group in ("", "a b", 7, None, "%DLQ%g", "%RETRY%g"):
        with pytest.raises(ConfigError):
            await rocketpy.replay_dead_letters(group, namesrv="127.0.0.1:1")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="plain function"):
        await rocketpy.replay_dead_letters("g", wanted=later, namesrv="127.0.0.1:1")
