"""Functions around listeners, and copies that are consumed once."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.around import Consumed
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater
from tests.consumer.brokers import world as pulling
from tests.consumer.helpers import stored
from tests.system.consuming import Recorder, World, wait_until, world

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


def test_the_memory_of_copies_has_a_bound() -> None:
    consumed = Consumed("unique_id", 3)
    messages = [stored(offset) for offset in range(5)]
    consumed.add(messages[:3])
    consumed.add(messages[:1])  # the newest again
    consumed.add(messages[3:])
    assert [message in consumed for message in messages] == [True, False, False, True, True]


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
