"""How far a group of lite pull consumers is: by itself, by commit, by acknowledgements, and when queues go."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import (
    ConfigError,
    QueueNotAssignedError,
    RequestTimeoutError,
)
from rocketpy.message import MessageExt, MessageQueue
from tests.system.consuming import committed, drain, queues_of, wait_until, world

# --- how far the group is -----------------------------------------------------------------------------------


async def test_PL8_what_was_handed_out_before_the_last_poll_is_committed_by_itself(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(30)
            assert len(await consumer.poll(10)) == 10
            await trio.sleep(60)
            assert await committed(consumer) == [0]
            assert len(await consumer.poll(10)) == 10
            await trio.sleep(5.1)
            assert await committed(consumer) == [10]
            assert len(await consumer.poll(10)) == 10
        # It closes: the last ten may not have been worked on.
        async with w.lite() as second:
            second.subscribe("Orders")
            await second.wait_assigned(10)
            assert second.position(queues_of(1)[0]) == 20
            assert [message.body for message in await drain(second, 10)] == [b"%d" % number for number in range(20, 30)]


async def test_PL8_manual_commits(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        zero, one = queues_of(2)
        consumer = w.lite(auto_commit=False)
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(40)
            await drain(consumer, 20)
            await drain(consumer, 10)
            await trio.sleep(60)
            assert await committed(consumer) == [None, None]
            await consumer.commit()
            assert sum(await committed(consumer)) == 30  # type: ignore[arg-type]
            await drain(consumer, 10)
            consumer.commit_soon()
            await trio.sleep(0.1)
            assert await committed(consumer) == [20, 20]
            await consumer.commit({zero: 7})
            assert await committed(consumer) == [7, 20]
            consumer.commit_soon({one: 8})
            await trio.sleep(0.1)
            assert await committed(consumer) == [7, 8]
            stranger = MessageQueue("Orders", "broker-a", 9)
            with pytest.raises(QueueNotAssignedError, match="does not, or no longer, belong") as info:
                await consumer.commit({zero: 1, stranger: 3})
            assert info.value.queue == stranger
            for wrong in ([zero], {zero: -1}, {zero: 1.5}, {"Orders": 3}):
                with pytest.raises(ConfigError):
                    await consumer.commit(wrong)  # type: ignore[arg-type]
            assert await committed(consumer) == [7, 8]


async def test_PL8_acknowledgements_hold_the_offset_at_the_lowest_gap(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        consumer = w.lite(auto_commit_interval=1)
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(20)
            got = await drain(consumer, 6)
            for number in (0, 1, 3, 4):
                consumer.ack(got[number])
            got += await drain(consumer, 10)
            await trio.sleep(2)
            assert await committed(consumer) == [2]
            consumer.ack(got[2])
            await trio.sleep(2)
            assert await committed(consumer) == [5]
            await consumer.commit()
            assert await committed(consumer) == [5]
            for message in got:
                consumer.ack(message)
            await consumer.commit()
            assert await committed(consumer) == [16]
            with pytest.raises(ConfigError, match="ack needs a message"):
                consumer.ack(b"16")  # type: ignore[arg-type]
        async with w.lite() as second:
            second.subscribe("Orders")
            assert len(await drain(second, 4)) == 4


@pytest.mark.slow
async def test_what_is_not_acknowledged_makes_pulling_wait(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        consumer = w.lite(pull_threshold_for_queue=50)
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(300)
            got = await drain(consumer, 30)
            for message in got[1:]:
                consumer.ack(message)
            taken: list[MessageExt] = []
            while batch := await consumer.poll(timeout=5):
                taken += batch
            assert 50 < len(taken) < 150
            assert "handed out and not acknowledged" in str(consumer.status().queues[queues_of(1)[0]].paused)
            for message in [got[0], *taken]:
                consumer.ack(message)
            taken += await drain(consumer, 50)
            assert [message.queue_offset for message in taken] == list(range(30, 30 + len(taken)))


@pytest.mark.slow
async def test_a_consumer_that_never_commits_goes_on_all_the_same(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        consumer = w.lite(auto_commit=False, pull_threshold_for_queue=20, consume_max_span=20)
        consumer.assign(queues_of(1))
        async with consumer:
            await w.send(500)
            assert len(await drain(consumer, 500)) == 500
            assert await committed(consumer) == [None]


async def test_of_a_queue_that_was_given_up_nothing_is_handed_out_or_committed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=2) as w:
        first, second = w.lite(auto_commit=False), w.lite()
        for each in (first, second):
            each.subscribe("Orders")
        async with first:
            await w.send(60)
            await trio.sleep(1)
            before = await first.poll(10) + await first.poll(10)
            async with second:
                await wait_until(lambda: len(first.assignment) == len(second.assignment) == 1)
                (lost,), (kept,) = second.assignment, first.assignment
                with pytest.raises(QueueNotAssignedError):
                    await first.commit({lost: 30})
                with pytest.raises(QueueNotAssignedError):
                    await first.seek(lost, 1)
                with pytest.raises(QueueNotAssignedError):
                    first.position(lost)
                with pytest.raises(QueueNotAssignedError):
                    first.pause([kept, lost])
                await first.commit()
                after = await drain(first, 30 - sum(message.queue == kept for message in before))
                assert {message.queue for message in after} == {kept}
                assert await first.poll(timeout=1) == []
                # Nothing of it was committed: the other one gets it all.
                assert await second.committed(lost) is None
                assert len(await drain(second, 30)) == 30
                first.ack(next(message for message in before if message.queue == lost))
                assert " is ignored: it was not handed out" in caplog.text
        assert "moves to another member with 10 messages handed out and not committed" in caplog.text


async def test_commits_say_when_a_broker_does_not_answer(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(5)
            await drain(consumer, 5)
            with pytest.raises(RequestTimeoutError, match=r"not every broker confirmed the offsets of .* within 0 s"):
                await consumer.commit(timeout=0)
            await consumer.commit(timeout=1)
            assert await committed(consumer) == [5]
