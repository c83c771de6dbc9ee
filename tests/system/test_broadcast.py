"""Broadcasting: every consumer gets every message, and each keeps its own offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.listeners import Raised
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import OffsetStoreError
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere, ConsumeResult, MessageModel, RetryLater
from tests.system.consuming import Recorder, World, queues_of, reset_group, wait_until, world

Maker = Callable[..., PushConsumer]


@pytest.fixture
def member(tmp_path: Path) -> Maker:
    """Makes members of a group that broadcasts, each with a name of its own."""

    def make(w: World, name: str, listener: object, *, group: str = "billing", **settings: object) -> PushConsumer:
        tags = settings.pop("tags", None)
        settings = {
            "message_model": MessageModel.BROADCASTING,
            "instance_name": name,
            "local_offset_store_dir": tmp_path,
            **settings,
        }
        consumer = w.consumer(group, **settings)
        consumer.subscribe("Orders", listener, tags=tags)  # type: ignore[arg-type]
        return consumer

    return make


async def test_BC1_every_consumer_gets_all(autojump_clock: MockClock, member: Maker) -> None:
    async with world() as w:
        one, two, other = Recorder(), Recorder(), Recorder()
        async with member(w, "one", one) as first, member(w, "two", two) as second:
            async with member(w, "three", other, group="audit"):
                assert first.assignment == second.assignment
                assert len(first.assignment) == 4
                sent = await w.send(40)
                for each in (one, two, other):
                    await each.wait_count(40)
        for each in (one, two, other):
            assert each.bodies == dict.fromkeys(sent, 1)


async def test_BC1_OF4_a_reset_moves_every_member_that_waits(autojump_clock: MockClock, member: Maker) -> None:
    async with world() as w:
        one, two = Recorder(), Recorder()
        async with member(w, "one", one), member(w, "two", two):
            sent = Counter(await w.send(8))
            for each in (one, two):
                await each.wait_count(8)
            await trio.sleep(6)
            await reset_group(w)
            await trio.sleep(10)
            assert one.bodies == two.bodies == sent + sent
        async with member(w, "one", one), member(w, "two", two):
            await trio.sleep(10)
        assert one.bodies == two.bodies == sent + sent


async def test_OF4_a_reset_moves_a_group_that_keeps_its_offsets_itself(autojump_clock: MockClock) -> None:
    kept: dict[MessageQueue, int] = {}

    class Shelf:
        def read(self, queue: MessageQueue) -> int | None:
            return kept.get(queue)

        def write(self, offsets: Mapping[MessageQueue, int]) -> None:
            kept.update(offsets)

    async with world() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, offset_store=Shelf())
        consumer.subscribe("Orders", got)
        async with consumer:
            sent = Counter(await w.send(8))
            await got.wait_count(8)
            await trio.sleep(6)
            assert {kept[queue] for queue in queues_of(4)} == {2}
            await reset_group(w)
            await wait_until(lambda: {kept[queue] for queue in queues_of(4)} == {0})
            await got.wait_count(16)
            assert got.bodies == sent + sent


async def test_BC1_by_tags(autojump_clock: MockClock, member: Maker) -> None:
    async with world() as w:
        one, two = Recorder(), Recorder()
        async with member(w, "one", one, tags="paid"), member(w, "two", two, tags="paid"):
            await w.send(10, tags="created")
            paid = await w.send(10, start=10, tags="paid")
            await one.wait_count(10)
            await two.wait_count(10)
            await trio.sleep(5)
        assert one.bodies == two.bodies == dict.fromkeys(paid, 1)


async def test_BC1_messages_of_a_queue_arrive_in_order(autojump_clock: MockClock, member: Maker) -> None:
    async with world(queues=1) as w:
        one = Recorder()
        async with member(w, "one", one, consume_thread_max=1):
            sent = await w.send(50)
            await one.wait_count(50)
        assert [message.body for message in one.messages] == sent


async def test_I15_who_joins_later_gets_what_comes_from_then_on_and_who_leaves_takes_nothing_along(
    autojump_clock: MockClock, member: Maker
) -> None:
    async with world() as w:
        one, two = Recorder(), Recorder()
        last = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET}
        async with member(w, "one", one, **last):
            before = await w.send(20)
            await one.wait_count(20)
            async with member(w, "two", two, **last):
                both = await w.send(20, start=20)
                await two.wait_count(20)
                await one.wait_count(40)
            after = await w.send(20, start=40)
            await one.wait_count(60)
        assert one.bodies == dict.fromkeys(before + both + after, 1)
        assert two.bodies == dict.fromkeys(both, 1)


async def test_BC1_not_again_after_a_restart(autojump_clock: MockClock, member: Maker, tmp_path: Path) -> None:
    async with world() as w:
        first = Recorder()
        async with member(w, "one", first):
            await w.send(20)
            await first.wait_count(20)
        missed = await w.send(20, start=20)
        second = Recorder()
        async with member(w, "one", second):
            await second.wait_count(20)
            await trio.sleep(5)
        assert second.bodies == dict.fromkeys(missed, 1)
        assert (tmp_path / "127.0.0.1@one" / "billing" / "offsets.json").stat().st_size > 100


@pytest.mark.parametrize("answer", [ConsumeResult.RETRY, RetryLater(-1), RetryLater(5), 1 / 3])
async def test_a_message_that_failed_is_dropped_and_told_of(
    autojump_clock: MockClock, member: Maker, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    async with world() as w:
        one, two = Recorder(lambda message: answer), Recorder()
        async with member(w, "one", one) as failing, member(w, "two", two):
            await w.send(4)
            await two.wait_count(4)
            await trio.sleep(120)
            assert len(one.messages) == 4
            statistics = failing.statistics()
            assert (statistics.failed, statistics.dropped, statistics.sent_back, statistics.consumed) == (4, 4, 0, 0)
            assert all(each.commit_offset == 1 for each in failing.status().queues.values())
            assert failing.status().topics == ("Orders",)
        assert "does not come again: broadcasting has no retries" in caplog.text


async def test_a_listener_that_was_cut_off_gets_its_message_again(autojump_clock: MockClock, member: Maker) -> None:
    """As asyncio's runner says of one that is cancelled with its loop's other tasks."""
    outcomes = iter([Raised(RuntimeError("cancelled"), cut_off=True), None])
    async with world(queues=1) as w:
        one = Recorder(lambda message: next(outcomes))
        async with member(w, "one", one) as failing:
            await w.send(1)
            await one.wait_count(1)
            await trio.sleep(2)
            assert [each.commit_offset for each in failing.status().queues.values()] == [0]
            await one.wait_count(2)
            await trio.sleep(1)
            assert [each.commit_offset for each in failing.status().queues.values()] == [1]
            statistics = failing.statistics()
            assert (statistics.failed, statistics.dropped, statistics.retried_here) == (1, 0, 1)


async def test_a_listener_that_raised_is_not_said_to_get_its_message_again(
    autojump_clock: MockClock, member: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(message: MessageExt) -> None:
        raise ConnectionError("the cache is away")

    async with world() as w:
        async with member(w, "one", fail) as failing:
            await w.send(1)
            await trio.sleep(5)
            assert failing.statistics().dropped == 1
        assert "the cache is away" in caplog.text
        assert "does not come again: broadcasting has no retries" in caplog.text
        assert "will be retried" not in caplog.text


@pytest.mark.parametrize("answer", [ConsumeResult.RETRY, RetryLater(-1)])
async def test_BC1_in_order_a_message_comes_again_as_often_as_it_may_and_is_dropped_then(
    autojump_clock: MockClock, member: Maker, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    async with world(queues=1) as w:
        one, two = Recorder(lambda message: answer if message.body == b"1" else None), Recorder()
        settings = {"orderly": True, "max_reconsume_times": 2}
        async with member(w, "one", one, **settings) as failing, member(w, "two", two, **settings):
            await w.send(4)
            await two.wait_count(4)
            await trio.sleep(60)
            tries = 3 if answer is ConsumeResult.RETRY else 1
            assert [message.body for message in one.messages] == [b"0", *[b"1"] * tries, b"2", b"3"]
            assert [message.body for message in two.messages] == [b"0", b"1", b"2", b"3"]
            statistics = failing.statistics()
            assert (statistics.dropped, statistics.sent_back) == (1, 0)
            assert [each.commit_offset for each in failing.status().queues.values()] == [4]
        assert w.cluster.dead_letters("billing") == []
        assert "does not come again: broadcasting has no retries" in caplog.text


async def test_a_listener_that_hangs_does_not_hold_up_the_offset(autojump_clock: MockClock, member: Maker) -> None:
    async def hang(message: MessageExt) -> None:
        await trio.sleep_forever()

    async with world(queues=1) as w:
        async with member(w, "one", hang, consume_timeout=60, await_termination=0) as consumer:
            await w.send(1)
            await wait_until(lambda: consumer.statistics().dropped == 1, within=100)
            assert consumer.status().queues[consumer.assignment[0]].commit_offset == 1


async def test_two_of_one_name_are_told_so_at_the_start(autojump_clock: MockClock, member: Maker) -> None:
    async with world() as w:
        async with member(w, "one", Recorder()):
            second = member(w, "one", Recorder())
            with pytest.raises(OffsetStoreError, match="its own instance_name"):
                async with second:
                    raise AssertionError("nobody gets here")
            assert second.status().state == "not started"
        async with second:
            assert len(second.assignment) == 4


async def test_a_folder_that_cannot_be_written_is_told_at_the_start(
    autojump_clock: MockClock, member: Maker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    async with world() as w:
        with pytest.raises(OffsetStoreError, match="set local_offset_store_dir"):
            async with member(w, "one", Recorder(), local_offset_store_dir=tmp_path / "file"):
                raise AssertionError("nobody gets here")


async def test_a_queue_that_is_added_is_consumed_as_well(autojump_clock: MockClock, member: Maker) -> None:
    async with world() as w:
        one = Recorder()
        async with member(w, "one", one, poll_name_server_interval=5.0) as consumer:
            await w.producer.create_topic("Orders", queues=6)
            await wait_until(lambda: len(consumer.assignment) == 6)
            await w.producer.send(Message("Orders", b"new"), queue=MessageQueue("Orders", "broker-a", 5))
            await one.wait_count(1)
