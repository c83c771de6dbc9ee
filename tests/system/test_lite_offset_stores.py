"""Lite pull consumers that keep their offsets elsewhere: in a file when broadcasting, and where the user wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.errors import ConfigError, OffsetStoreError
from rocketpy.message import Message, MessageQueue
from rocketpy.results import ConsumeFromWhere, MessageModel
from tests.system.consuming import World, bodies, committed, drain, queues_of, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
Maker = Callable[..., LitePullConsumer]


class Book:
    """A store of the user's."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.error: Exception | None = None
        self.writes = 0
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False

    def read(self, queue: MessageQueue) -> int | None:
        assert self.is_open
        return self.offsets.get(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        assert self.is_open
        if self.error is not None:
            raise self.error
        self.writes += 1
        self.offsets.update(offsets)


# --- a store of the user's ---------------------------------------------------------------------------------


@pytest.mark.parametrize("auto_commit", [False, True])
async def test_offsets_are_kept_by_a_store_of_the_users(autojump_clock: MockClock, auto_commit: bool) -> None:
    book = Book()
    async with world(queues=2) as w:
        settings = {"offset_store": book, "auto_commit": auto_commit, "consume_from_where": FIRST}
        consumer = w.lite(**settings)
        consumer.subscribe("Orders")
        async with consumer:
            sent = await w.send(20)
            got = await drain(consumer, 12)
            await consumer.commit()
            assert sum(book.offsets.values()) == 12
            assert await committed(consumer) == [book.offsets[queue] for queue in consumer.assignment]
        assert not book.is_open
        assert [broker.offsets.query("billing", "Orders", 0) for broker in w.cluster.brokers] == [-1]
        second = w.lite(**settings)
        second.subscribe("Orders")
        async with second:
            got += await drain(second, 8)
            assert bodies(got) == dict.fromkeys(sent, 1)
            assert await second.poll(timeout=1) == []


async def test_a_commit_tells_what_the_store_raises_and_the_next_one_makes_good(autojump_clock: MockClock) -> None:
    book = Book()
    async with world(queues=1) as w:
        consumer = w.lite(offset_store=book, auto_commit=False, consume_from_where=FIRST)
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(5)
            await drain(consumer, 5)
            book.error = OSError("the disk is full")
            with pytest.raises(OffsetStoreError, match="writing 1 offset: OSError: the disk is full"):
                await consumer.commit()
            book.error = None
            await wait_until(lambda: book.offsets == {queues_of(1)[0]: 5})


async def test_without_automatic_commits_the_store_is_not_written_by_itself(autojump_clock: MockClock) -> None:
    book = Book()
    (queue,) = queues_of(1)
    async with world(queues=1) as w:
        await w.send(10)
        async with w.lite(offset_store=book) as opener:
            opener.assign([queue])
            await opener.wait_assigned(10)
        book.offsets[queue] = 3
        writes = book.writes
        consumer = w.lite(offset_store=book, auto_commit=False)
        consumer.assign([queue])
        async with consumer:
            assert [message.queue_offset for message in await drain(consumer, 7)] == list(range(3, 10))
            await trio.sleep(60)
        assert (book.writes, book.offsets) == (writes, {queue: 3})


def test_a_store_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="must have the methods read and write"):
        LitePullConsumer("billing", offset_store=object())


# --- broadcasting ------------------------------------------------------------------------------------------


@pytest.fixture
def member(tmp_path: Path) -> Maker:
    """Makes members of a group that broadcasts, each with a name of its own."""

    def make(w: World, name: str, **settings: object) -> LitePullConsumer:
        settings = {
            "message_model": MessageModel.BROADCASTING,
            "instance_name": name,
            "local_offset_store_dir": tmp_path,
            "consume_from_where": FIRST,
            **settings,
        }
        consumer = w.lite("caches", **settings)
        consumer.subscribe("Orders")
        return consumer

    return make


async def test_BC1_every_lite_pull_consumer_gets_all_and_goes_on_after_a_restart(
    autojump_clock: MockClock, member: Maker, tmp_path: Path
) -> None:
    async with world() as w:
        async with member(w, "one") as one, member(w, "two") as two:
            assert one.assignment == two.assignment
            assert len(one.assignment) == 4
            sent = await w.send(20)
            for each in (one, two):
                assert bodies(await drain(each, 20)) == dict.fromkeys(sent, 1)
            await one.commit()
            assert await committed(one) == [5, 5, 5, 5]
            assert await committed(two) == [None] * 4
        missed = await w.send(20, start=20)
        async with member(w, "one") as again:
            assert bodies(await drain(again, 20)) == dict.fromkeys(missed, 1)
            assert await again.poll(timeout=1) == []
        assert (tmp_path / "127.0.0.1@one" / "caches" / "offsets.json").stat().st_size > 100


async def test_BC1_queues_of_ones_own_choice_when_broadcasting(autojump_clock: MockClock, member: Maker) -> None:
    (queue,) = queues_of(1)
    async with world() as w:
        for turn in range(2):
            consumer = w.lite(**{**attributes(member(w, "one")), "auto_commit": True})
            consumer.assign([queue])
            async with consumer:
                await w.producer.send(Message("Orders", b"%d" % turn), queue=queue)
                assert [message.body for message in await drain(consumer, 1)] == [b"%d" % turn]
                assert await consumer.poll(timeout=6) == []
                await consumer.commit()


def attributes(consumer: LitePullConsumer) -> dict[str, object]:
    config = consumer.config
    names = ("message_model", "instance_name", "local_offset_store_dir", "consume_from_where")
    return {name: getattr(config, name) for name in names}


async def test_two_of_one_name_are_told_so_at_the_start(autojump_clock: MockClock, member: Maker) -> None:
    async with world() as w:
        async with member(w, "one"):
            second = member(w, "one")
            with pytest.raises(OffsetStoreError, match="its own instance_name"):
                await second.__aenter__()
            assert second.status().state == "not started"
        async with second:
            assert len(second.assignment) == 4
