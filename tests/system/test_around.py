"""Functions around listeners, and copies that are consumed once."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater
from tests.consumer.brokers import world as pulling
from tests.system.consuming import Recorder, World, queues_of, wait_until, world
from tests.system.test_orderly_locks import Locks

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def subscribed(w: World, listener: Any, **settings: Any) -> PushConsumer:
    consumer = w.consumer(consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders", listener)
    return consumer


async def test_a_copy_with_the_same_unique_id_is_consumed_once(autojump_clock: MockClock) -> None:
    async with pulling() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, dedupe="unique_id")
        consumer.subscribe("Orders", got)
        async with consumer:
            w.broker.store(2, properties={"UNIQ_KEY": "A"})
            w.broker.store(1, properties={"UNIQ_KEY": "B"})
            await trio.sleep(1)
            w.broker.store(3, properties={"UNIQ_KEY": "A"})
            await trio.sleep(6)
            assert [message.message_id for message in got.messages] in (["A", "B"], ["A", "A", "B"])
            assert w.broker.offsets["Orders", 0] == 6
            counts = consumer.statistics()
            assert (counts.consumed, counts.duplicates) == (6, 6 - len(got.messages))
        # Two that came together may both be under way before one is done.


async def test_messages_with_the_same_keys_are_consumed_once(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        async with subscribed(w, got, dedupe="key", consume_thread_max=1) as consumer:
            for keys in (["1"], ["1"], ["2"], [], [], ["1"], ["1", "2"]):
                await w.producer.send(Message("Orders", b"x", keys=keys))
            await wait_until(lambda: consumer.statistics().consumed == 7)
            assert [message.keys for message in got.messages] == [("1",), ("2",), (), (), ("1", "2")]
            assert consumer.statistics().duplicates == 2


async def test_what_failed_is_no_copy_when_it_comes_again(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: ConsumeResult.RETRY if message.reconsume_times < 2 else None)
        async with subscribed(w, got, dedupe="unique_id") as consumer:
            await w.send(1)
            await got.wait_count(3)
            await wait_until(lambda: consumer.statistics().consumed == 1)
            assert consumer.statistics().duplicates == 0


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (None, []),
        (1, [b"1", b"2"]),
        (0, [b"0", b"1", b"2"]),
        (3, []),
        (ConsumeResult.RETRY, [b"0", b"1", b"2"]),
        (RetryLater(1, done=1), [b"1", b"2"]),
        (RetryLater(1), [b"0", b"1", b"2"]),
        (RetryLater(1, done=3), []),
    ],
)
async def test_of_a_batch_the_copies_are_left_out(
    autojump_clock: MockClock, answer: object, again: list[bytes]
) -> None:
    batches: list[list[bytes]] = []

    async def listener(messages: list[MessageExt]) -> object:
        batches.append([message.body for message in messages])
        return answer if messages[0].reconsume_times == 0 else None

    async with world(queues=1) as w:
        for body, key in ((b"0", "a"), (b"0 again", "a"), (b"1", "b"), (b"0 once more", "a"), (b"2", "c")):
            await w.producer.send(Message("Orders", body, keys=[key]))
        settings = {"dedupe": "key", "consume_message_batch_max_size": 5}
        async with subscribed(w, listener, **settings) as consumer:
            await trio.sleep(60)
            assert batches[0] == [b"0", b"1", b"2"]
            later = [body for batch in batches[1:] for body in batch]
            assert [body for body in sorted(later) if b" " not in body] == again
            assert consumer.statistics().duplicates == 2  # each once, whatever came again
            assert all(each.commit_offset == 5 for q, each in consumer.status().queues.items() if q.topic == "Orders")


@pytest.mark.parametrize("kind", ["plain", "async", "plain hooks, async listener"])
async def test_hooks_are_called_around_the_listener(autojump_clock: MockClock, kind: str) -> None:
    seen: list[tuple[Any, ...]] = []

    def before(message: MessageExt) -> None:
        seen.append(("before", message.body))

    def after(message: MessageExt, outcome: object) -> None:
        seen.append(("after", message.body, outcome))

    async def before_async(message: MessageExt) -> None:
        await trio.sleep(1)
        before(message)

    async def after_async(message: MessageExt, outcome: object) -> None:
        await trio.sleep(1)
        after(message, outcome)

    def listener(message: MessageExt) -> object:
        seen.append(("listener", message.body))
        return ConsumeResult.SUCCESS

    async def listener_async(message: MessageExt) -> object:
        return listener(message)

    hooks: dict[str, Any] = {"before_consume": before, "after_consume": after}
    if kind == "async":
        hooks = {"before_consume": before_async, "after_consume": after_async}
    async with world(queues=1) as w:
        async with subscribed(w, listener if kind == "plain" else listener_async, **hooks) as consumer:
            await w.send(1)
            await wait_until(lambda: consumer.statistics().consumed == 1)
    assert seen == [("before", b"0"), ("listener", b"0"), ("after", b"0", ConsumeResult.SUCCESS)]


@pytest.mark.parametrize("hook", ["before_consume", "after_consume"])
async def test_what_a_hook_raises_counts_as_the_listener_s(autojump_clock: MockClock, hook: str) -> None:
    tries = []

    def fails_once(*arguments: Any) -> None:
        tries.append(arguments[0].reconsume_times)
        if len(tries) == 1:
            raise ConnectionError("the database is away")

    async with world(queues=1) as w:
        got = Recorder()
        async with subscribed(w, got, **{hook: fails_once}) as consumer:
            await w.send(1)
            await wait_until(lambda: consumer.statistics().consumed == 1)
            assert tries == [0, 1]
            assert len(got.messages) == (1 if hook == "before_consume" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [False, True], ids=["the hook works", "the hook fails too"])
@pytest.mark.parametrize("error", [KeyError("no such customer"), SystemExit(3)], ids=["exception", "exit"])
@pytest.mark.parametrize("kind", ["plain", "async", "plain hooks, async listener"])
async def test_a_listener_that_raises_is_followed_by_its_hook_with_the_exception(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, kind: str, error: BaseException, trouble: bool
) -> None:
    seen: list[tuple[bytes, object]] = []

    def listener(message: MessageExt) -> None:
        if message.reconsume_times == 0:
            raise error

    async def listener_async(message: MessageExt) -> None:
        listener(message)

    def after(message: MessageExt, outcome: object) -> None:
        seen.append((message.body, outcome))
        if outcome is not None and trouble:
            raise ConnectionError("the database is away")

    async def after_async(message: MessageExt, outcome: object) -> None:
        await trio.sleep(1)
        after(message, outcome)

    async with world(queues=1) as w:
        hook = after_async if kind == "async" else after
        async with subscribed(w, listener if kind == "plain" else listener_async, after_consume=hook) as consumer:
            await w.send(1)
            await wait_until(lambda: consumer.statistics().consumed == 1)
            assert consumer.statistics().failed == 1
    assert seen == [(b"0", error), (b"0", None)]
    told = [record.exc_info[0] for record in caplog.records if record.exc_info and record.name.startswith("rocketpy.")]
    assert told == ([ConnectionError, type(error)] if trouble else [type(error)])


async def test_a_listener_that_takes_too_long_is_followed_by_its_hook_at_last(
    autojump_clock: MockClock,
) -> None:
    seen: list[tuple[float, object]] = []

    async def listener(message: MessageExt) -> str:
        if message.reconsume_times == 0:
            await trio.sleep(100)
        return "late"

    async with world(queues=1) as w:
        began = trio.current_time()
        settings = {"consume_timeout": 5.0, "max_reconsume_times": 1}
        hook = lambda message, outcome: seen.append((trio.current_time() - began, outcome))  # noqa: E731
        async with subscribed(w, listener, after_consume=hook, **settings) as consumer:
            await w.send(1)
            await trio.sleep(150)
            assert consumer.statistics().timed_out == 1
            assert [outcome for _, outcome in seen] == ["late", "late"]
            assert max(at for at, _ in seen) == pytest.approx(100, abs=1)


async def test_an_async_listener_that_is_cancelled_is_followed_by_no_hook(autojump_clock: MockClock) -> None:
    seen: list[object] = []

    async def listener(message: MessageExt) -> None:
        await trio.sleep_forever()

    async with world(queues=1) as w:
        hook = lambda message, outcome: seen.append(outcome)  # noqa: E731
        async with subscribed(w, listener, after_consume=hook, await_termination=1.0):
            await w.send(1)
            await trio.sleep(1)
    assert seen == []


async def test_an_async_hook_wants_async_listeners(autojump_clock: MockClock) -> None:
    async def hook(*arguments: object) -> None: ...

    async with world() as w:
        for name in ("before_consume", "after_consume"):
            with pytest.raises(ConfigError, match=f"{name} is async"):
                subscribed(w, lambda message: None, **{name: hook})


@pytest.mark.parametrize(
    "settings", [{"dedupe": "body"}, {"dedupe": 7}, {"dedupe_size": 0}, {"before_consume": 7}, {"after_consume": "x"}]
)
def test_settings_around_listeners_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PushConsumerConfig(group="g", **settings)


# --- copies, where order counts ----------------------------------------------------------------------------


async def send_keys(w: World, *keys: str) -> None:
    """Messages of one queue, one after the other."""
    for key in keys:
        await w.producer.send(Message("Orders", key.encode(), keys=[key]))


@pytest.mark.parametrize("batch", [1, 3])
async def test_copies_are_left_out_in_order(autojump_clock: MockClock, batch: int) -> None:
    failed: list[str] = []

    def listener(what: Any) -> object:
        for message in what if batch > 1 else [what]:
            seen.append((message.queue_offset, *message.keys))
            if message.keys == ("2",) and not failed:
                failed.append("once")
                raise ConnectionError("the database is away")
        return None

    seen: list[tuple[Any, ...]] = []
    async with world(queues=1) as w:
        settings = {"dedupe": "key", "consume_message_batch_max_size": batch, "suspend_current_queue_time": 1.0}
        await send_keys(w, "1", "1", "2", "2", "1", "3")
        async with subscribed(w, listener, orderly=True, **settings) as consumer:
            await wait_until(lambda: consumer.statistics().consumed == 6)
            assert consumer.statistics().duplicates == 3
            await trio.sleep(6)
            assert next(each.commit_offset for each in consumer.status().queues.values()) == 6
    if batch == 1:
        assert seen == [(0, "1"), (2, "2"), (2, "2"), (5, "3")]
    else:
        assert seen == [(0, "1"), (2, "2"), (0, "1"), (2, "2"), (5, "3")]


@pytest.mark.parametrize("batch", [1, 3])
async def test_what_was_rolled_back_is_no_copy_when_it_comes_again(autojump_clock: MockClock, batch: int) -> None:
    seen: list[int] = []

    def listener(what: Any) -> object:
        messages = what if batch > 1 else [what]
        seen.extend(message.queue_offset for message in messages)
        if messages[-1].queue_offset < 5:
            return None
        return ConsumeResult.ROLLBACK if seen.count(5) == 1 else ConsumeResult.COMMIT

    async with world(queues=1) as w:
        await w.send(6)
        settings = {"dedupe": "unique_id", "auto_commit": False, "consume_message_batch_max_size": batch}
        async with subscribed(w, listener, orderly=True, **settings) as consumer:
            await wait_until(lambda: consumer.status().queues[queues_of(1)[0]].commit_offset == 6)
            assert seen == [*range(6), *range(6)]
            assert consumer.statistics().duplicates == 0


async def test_a_rollback_undoes_the_first_of_several_copies_with_the_others(autojump_clock: MockClock) -> None:
    seen: list[int] = []

    def listener(message: MessageExt) -> object:
        seen.append(message.queue_offset)
        if message.keys == ("end",):
            return ConsumeResult.ROLLBACK if seen.count(4) == 1 else ConsumeResult.COMMIT
        return ConsumeResult.COMMIT if message.queue_offset == 0 else None

    async with world(queues=1) as w:
        await send_keys(w, "before", "1", "1", "before", "end")
        async with subscribed(w, listener, orderly=True, auto_commit=False, dedupe="key") as consumer:
            await wait_until(lambda: consumer.status().queues[queues_of(1)[0]].commit_offset == 5)
            # What was committed stays consumed: its copy is left out again.
            assert seen == [0, 1, 4, 1, 4]
            assert consumer.statistics().duplicates == 4


async def test_what_a_listener_commits_is_consumed_and_its_copies_are_committed(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: ConsumeResult.COMMIT)
        await send_keys(w, "1", "1", "1")
        async with subscribed(w, got, orderly=True, auto_commit=False, dedupe="key") as consumer:
            await wait_until(lambda: consumer.status().queues[queues_of(1)[0]].commit_offset == 3)
            assert [message.queue_offset for message in got.messages] == [0]
            assert consumer.statistics().duplicates == 2


async def test_a_copy_does_not_commit_what_waits_to_be_committed(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        await send_keys(w, "1", "2", "1", "1")
        async with subscribed(w, got, orderly=True, auto_commit=False, dedupe="key") as consumer:
            await wait_until(lambda: consumer.statistics().duplicates == 2)
            await trio.sleep(6)
            assert consumer.status().queues[queues_of(1)[0]].commit_offset == 0
            got.answer = lambda message: ConsumeResult.COMMIT
            await send_keys(w, "3")
            await wait_until(lambda: consumer.status().queues[queues_of(1)[0]].commit_offset == 5)
            assert [message.queue_offset for message in got.messages] == [0, 1, 4]


@pytest.mark.parametrize("by_hand", [False, True])
async def test_copies_after_a_lock_is_lost(autojump_clock: MockClock, by_hand: bool) -> None:
    """What nobody has committed is consumed again where listeners commit, and a copy where they do not."""
    seen: list[int] = []

    async def listener(message: MessageExt) -> object:
        seen.append(message.queue_offset)
        if message.queue_offset == 1:
            if seen.count(1) == 1:
                await trio.sleep(30)  # its lock is lost meanwhile
            return ConsumeResult.COMMIT if by_hand else None
        return None

    async with pulling() as w:
        locks = Locks(w.broker)
        w.broker.store(2)
        settings = {"orderly": True, "auto_commit": not by_hand, "persist_consumer_offset_interval": 1000.0}
        async with subscribed(w, listener, dedupe="unique_id", **settings) as consumer:
            await wait_until(lambda: seen == [0, 1])
            locks.foreign = {queues_of(1)[0]}
            await wait_until(lambda: not consumer.assignment)
            await trio.sleep(31)
            locks.foreign = set()
            await wait_until(lambda: consumer.assignment, within=100)
            await wait_until(lambda: consumer.status().queues[queues_of(1)[0]].commit_offset == 2)
        assert seen == ([0, 1, 0, 1] if by_hand else [0, 1])


async def test_a_queue_that_goes_uncommitted_and_comes_back_is_consumed_again(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        await w.send(3)
        settings = {"orderly": True, "auto_commit": False, "dedupe": "unique_id"}
        async with subscribed(w, got, **settings) as consumer:
            await got.wait_count(3)
            consumer.unsubscribe("Orders")
            await wait_until(lambda: not consumer.assignment)
            got.answer = lambda message: ConsumeResult.COMMIT
            consumer.subscribe("Orders", got)
            await got.wait_count(6)
            await wait_until(lambda: consumer.status().queues[queues_of(1)[0]].commit_offset == 3)
        assert [message.queue_offset for message in got.messages] == [0, 1, 2, 0, 1, 2]
