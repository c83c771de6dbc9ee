"""The list that a batch listener or a hook gets is its own: it may empty it, and nothing is lost, nor does it stall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, MessageModel
from tests.consumer.brokers import World, world
from tests.system.test_orderly_locks import Locks

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Emptier:
    """Listeners, plain and async, that take every message out of the list that they get."""

    def __init__(self, outcome: object = None) -> None:
        self.outcome = outcome
        self.got: list[list[int]] = []

    def plain(self, messages: list[MessageExt], *_: object) -> Any:
        offsets = []
        while messages:
            offsets.append(messages.pop(0).queue_offset)
        self.got.append(offsets)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def waiting(self, messages: list[MessageExt]) -> Any:
        await trio.sleep(0.1)
        return self.plain(messages)


def consumer_of(w: World, listener: Any, **settings: Any) -> Any:
    settings = {"consume_message_batch_max_size": 4, "consume_from_where": FIRST, **settings}
    consumer = w.consumer(**settings)
    consumer.subscribe("Orders", listener)
    return consumer


@pytest.mark.parametrize("kind", ["plain", "waiting"])
@pytest.mark.parametrize("settings", [{}, {"dedupe": "unique_id"}, {"orderly": True}], ids=["", "dedupe", "orderly"])
async def test_a_listener_that_empties_its_list_has_consumed_it(
    autojump_clock: MockClock, kind: str, settings: dict[str, Any]
) -> None:
    async with world() as w:
        Locks(w.broker)
        w.broker.store(5)
        emptier = Emptier()
        async with consumer_of(w, getattr(emptier, kind), **settings):
            await trio.sleep(6)
            assert sorted(emptier.got) == [[0, 1, 2, 3], [4]]
            assert w.broker.offsets["Orders", 0] == 5


@pytest.mark.parametrize("outcome", [ValueError("each time"), ConsumeResult.RETRY, 0, "junk"], ids=repr)
async def test_what_a_listener_fails_after_it_has_emptied_its_list_is_sent_back(
    autojump_clock: MockClock, outcome: object
) -> None:
    async with world() as w:
        w.broker.store(4)
        emptier = Emptier(outcome)
        async with consumer_of(w, emptier.plain):
            await trio.sleep(6)
            assert emptier.got == [[0, 1, 2, 3]]
            assert [each.offset for each in w.broker.sent_back] == [10_000, 10_001, 10_002, 10_003]
            assert w.broker.offsets["Orders", 0] == 4


async def test_a_listener_that_takes_too_long_with_its_list_emptied_does_not_end_the_consumer(
    autojump_clock: MockClock,
) -> None:
    async def listener(messages: list[MessageExt]) -> None:
        messages.clear()
        await trio.sleep(100)

    async with world() as w:
        w.broker.store(4)
        async with consumer_of(w, listener, consume_timeout=60.0) as consumer:
            await trio.sleep(70)
            assert len(w.broker.sent_back) == 4
            assert consumer.statistics().timed_out == 4


async def test_in_order_the_same_messages_come_again_after_their_list_was_emptied(autojump_clock: MockClock) -> None:
    async with world() as w:
        Locks(w.broker)
        w.broker.store(2)
        emptier = Emptier(ValueError("each time"))
        async with consumer_of(w, emptier.plain, orderly=True, suspend_current_queue_time=1.0):
            await trio.sleep(2.5)
            emptier.outcome = None
            await trio.sleep(6)
            assert emptier.got == [[0, 1]] * 4
            assert w.broker.offsets["Orders", 0] == 2


async def test_hooks_get_lists_of_their_own(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(4)
        before, listener, after = Emptier(), Emptier(), Emptier()
        async with consumer_of(w, listener.plain, before_consume=before.plain, after_consume=after.plain):
            await trio.sleep(6)
            assert before.got == listener.got == after.got == [[0, 1, 2, 3]]
            assert w.broker.offsets["Orders", 0] == 4


async def test_a_broadcast_counts_what_was_dropped_though_the_list_is_empty(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with world() as w:
        w.broker.store(4)
        emptier = Emptier(ConsumeResult.RETRY)
        settings = {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": tmp_path}
        async with consumer_of(w, emptier.plain, **settings) as consumer:
            await trio.sleep(6)
            assert (emptier.got, consumer.statistics().dropped) == ([[0, 1, 2, 3]], 4)
