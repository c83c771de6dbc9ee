"""Offset stores of the user's own: whatever goes wrong in them, no message is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.offsets.offset_storage import KeptOffsetStore
from rocketpy.consumer.user_calls import UserCalls
from rocketpy.errors import OffsetStoreError
from rocketpy.message import MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.consumer.helpers import Unspeakable
from tests.system.consuming import Recorder, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
ONE, TWO = MessageQueue("Orders", "broker-a", 0), MessageQueue("Orders", "broker-a", 1)


class Shelf:
    """A store that remembers what was asked of it. `trouble` is called before each answer."""

    def __init__(self, trouble: Callable[[], Any] = lambda: None) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.writes: list[dict[MessageQueue, int]] = []
        self.calls: list[str] = []
        self.trouble = trouble

    def open(self) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def read(self, queue: MessageQueue) -> int | None:
        self.trouble()
        return self.offsets.get(queue)

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.trouble()
        self.writes.append(dict(offsets))
        self.offsets.update(offsets)


class AsyncShelf:
    """The same for those who await."""

    def __init__(self) -> None:
        self.shelf = Shelf()

    async def read(self, queue: MessageQueue) -> int | None:
        await trio.sleep(0.1)
        return self.shelf.read(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        await trio.sleep(0.1)
        self.shelf.write(offsets)


def kept(storage: Any) -> KeptOffsetStore:
    return KeptOffsetStore(storage, "billing", UserCalls(), timeout=3.0)


async def test_only_what_has_changed_is_written(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    store = kept(shelf)
    store.update(ONE, 5)
    store.update(TWO, 6)
    await store.persist([ONE])
    await store.persist([ONE, TWO])
    await store.persist([ONE, TWO])
    store.update(ONE, 4, increase_only=True)
    assert await store.commit_all([ONE, TWO], deadline=trio.current_time() + 1) == []
    assert shelf.writes == [{ONE: 5}, {TWO: 6}]
    assert (store.memory(ONE), store.memory(TWO)) == (5, 6)
    store.remove(ONE)
    assert store.memory(ONE) is None
    assert await store.read(ONE) == 5
    assert store.memory(ONE) == 5


@pytest.mark.parametrize("answer", ["7", -1, 1.5, True, 2**63, object(), Unspeakable()])
async def test_what_is_no_offset_is_refused(autojump_clock: MockClock, answer: Any) -> None:
    shelf = Shelf()
    shelf.offsets[ONE] = answer
    with pytest.raises(OffsetStoreError, match="read must return an int of 0 or more"):
        await kept(shelf).read(ONE)


async def test_an_error_without_a_text_is_an_error_of_the_store(autojump_clock: MockClock) -> None:
    def fail() -> None:
        raise Unspeakable

    with pytest.raises(OffsetStoreError, match="Unspeakable: its str raised RuntimeError"):
        await kept(Shelf(fail)).read(ONE)


async def test_what_was_not_written_is_written_the_next_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf(lambda: 1 // 0)
    store = kept(shelf)
    store.update(ONE, 5)
    for _ in range(3):
        await store.persist([ONE])
    assert await store.commit_all([ONE], deadline=trio.current_time() + 1) == [ONE]
    assert len([record for record in caplog.records if "ZeroDivisionError" in record.message]) == 1
    shelf.trouble = lambda: None
    await store.persist([ONE])
    assert shelf.writes == [{ONE: 5}]


async def test_a_store_that_hangs_has_an_end(autojump_clock: MockClock) -> None:
    class Hangs(AsyncShelf):
        async def read(self, queue: MessageQueue) -> int | None:
            await trio.sleep_forever()

        async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
            await trio.sleep_forever()

    store = kept(Hangs())
    began = trio.current_time()
    with pytest.raises(OffsetStoreError, match="has not answered within 3 s: asking for the offset"):
        await store.read(ONE)
    assert trio.current_time() - began == pytest.approx(3)
    store.update(ONE, 1)
    assert await store.commit_all([ONE], deadline=trio.current_time() + 1) == [ONE]


async def test_a_plain_function_that_gives_something_to_await_is_told_so(autojump_clock: MockClock) -> None:
    class Forgets(AsyncShelf):
        def read(self, queue: MessageQueue) -> Any:
            return super().read(queue)

    with pytest.raises(OffsetStoreError, match="make it an `async def` function itself"):
        await kept(Forgets()).read(ONE)


async def test_what_open_raises_ends_the_start(autojump_clock: MockClock) -> None:
    class Closed(Shelf):
        def open(self) -> None:
            raise ConnectionError("the database is away")

    async with world() as w:
        with pytest.raises(OffsetStoreError, match="opening: ConnectionError: the database is away"):
            async with w.consumer(offset_store=Closed()):
                raise AssertionError("nobody gets here")


@pytest.mark.parametrize("kind", [Shelf, AsyncShelf])
async def test_a_consumer_goes_on_where_its_own_store_says(autojump_clock: MockClock, kind: Any) -> None:
    store = kind()
    async with world() as w:
        for start in (0, 20):
            got = Recorder()
            consumer = w.consumer(offset_store=store, consume_from_where=FIRST)
            consumer.subscribe("Orders", got)
            sent = await w.send(20, start=start)
            async with consumer:
                await got.wait_count(20)
                await trio.sleep(6)
            assert got.bodies == dict.fromkeys(sent, 1)
        shelf = store if isinstance(store, Shelf) else store.shelf
        assert {queue.queue_id: at for queue, at in shelf.offsets.items() if queue.topic == "Orders"} == dict.fromkeys(
            range(4), 10
        )
        if isinstance(store, Shelf):
            assert store.calls == ["open", "close", "open", "close"]


async def test_a_store_in_trouble_holds_up_its_queues_and_loses_nothing(autojump_clock: MockClock) -> None:
    shelf = Shelf(lambda: 1 // 0)
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(offset_store=shelf, consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            assert consumer.assignment == ()
            assert "ZeroDivisionError" in str(consumer.status().errors["Orders"])
            sent = await w.send(20)
            shelf.trouble = lambda: None
            await got.wait_count(20)
            shelf.trouble = lambda: 1 // 0
            sent += await w.send(20, start=20)
            await got.wait_count(40)
            await trio.sleep(20)
            shelf.trouble = lambda: None
            await wait_until(lambda: sum(shelf.offsets.values()) == 40, within=10)
        assert got.bodies == dict.fromkeys(sent, 1)
