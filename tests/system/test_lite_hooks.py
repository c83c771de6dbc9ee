"""Lite pull consumers are told which queues come and go, and may seek and commit as they are."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import bodies, committed, drain, queues_of, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
Queues = tuple[MessageQueue, ...]


@pytest.mark.parametrize("assigned", [False, True])
async def test_hooks_hear_of_every_queue(autojump_clock: MockClock, assigned: bool) -> None:
    told: list[tuple[str, Queues]] = []

    def on_assigned(queues: Queues) -> None:
        told.append(("assigned", queues))

    async def on_revoked(queues: Queues) -> None:
        await trio.sleep(0.5)
        told.append(("revoked", queues))

    all_four = queues_of(4)
    async with world() as w:
        consumer = w.lite(on_assigned=on_assigned, on_revoked=on_revoked)
        if assigned:
            consumer.assign(all_four)
        else:
            consumer.subscribe("Orders")
        async with consumer:
            assert told == [("assigned", tuple(all_four))]
            if assigned:
                consumer.assign(all_four[:1])
            else:
                consumer.unsubscribe("Orders")
            gone = all_four[1:] if assigned else all_four
            await wait_until(lambda: told[1:] == [("revoked", tuple(gone))])
        assert told[2:] == ([("revoked", tuple(all_four[:1]))] if assigned else [])


async def test_a_hook_may_seek_before_anything_is_pulled_also_at_the_start(autojump_clock: MockClock) -> None:
    async def begin_at_two(queues: Queues) -> None:
        for queue in queues:
            await consumer.seek(queue, 2)
            assert consumer.position(queue) == 2
            assert await consumer.committed(queue) is None

    async with world(queues=2) as w:
        await w.send(10)
        consumer = w.lite(on_assigned=begin_at_two, auto_commit=False)
        consumer.subscribe("Orders")
        async with consumer:
            got = await drain(consumer, 6)
            assert sorted(message.queue_offset for message in got) == [2, 2, 3, 3, 4, 4]
            assert await consumer.poll(timeout=1) == []


@pytest.mark.slow
async def test_complaint_15_on_revoked_commits_all_that_was_handed_out_before_the_queue_goes(
    autojump_clock: MockClock,
) -> None:
    """Nothing more is handed out of these queues meanwhile. A new owner that was quicker gets some of it again."""
    seen: list[MessageExt] = []
    revoked: list[Queues] = []

    async def commit(queues: Queues) -> None:
        before = [message for message in seen if message.queue in queues]
        await trio.sleep(1)
        await consumer.commit()
        assert [message for message in seen if message.queue in queues] == before
        offsets = {message.queue: message.queue_offset + 1 for message in before}
        assert {queue: await consumer.committed(queue) for queue in queues} == offsets
        revoked.append(queues)

    async def work() -> None:
        with suppress(ClientClosedError):
            while True:
                seen.extend(await consumer.poll(1))
                await trio.sleep(0.01)

    async with world() as w, trio.open_nursery() as nursery:
        consumer = w.lite(on_revoked=commit, auto_commit=False, consume_from_where=FIRST)
        consumer.subscribe("Orders")
        other = w.lite(auto_commit=False)
        other.subscribe("Orders")
        async with consumer:
            nursery.start_soon(work)
            sent = await w.send(2000)
            await wait_until(lambda: len(seen) > 300)
            async with other:
                await wait_until(lambda: len(revoked) == 1)
                await wait_until(lambda: len(seen) > 900)
        assert [len(queues) for queues in revoked] == [2, 4]  # the second time it closes
        async with w.lite() as last:
            last.subscribe("Orders")
            rest = await drain(last, len(sent) - len({message.body for message in seen}))
            assert not {message.body for message in rest} & {message.body for message in seen}


async def test_a_queue_that_comes_back_at_once_is_handed_out_again(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer, other = (w.lite(auto_commit=False) for _ in range(2))
        for each in (consumer, other):
            each.subscribe("Orders")
        async with consumer:
            async with other:
                await wait_until(lambda: len(consumer.assignment) == 2)
            await wait_until(lambda: len(consumer.assignment) == 4)
            sent = await w.send(8)
            assert bodies(await drain(consumer, 8)) == dict.fromkeys(sent, 1)


async def test_on_revoked_may_acknowledge_while_it_closes(autojump_clock: MockClock) -> None:
    held: list[MessageExt] = []

    async def finish(queues: Queues) -> None:
        for message in held:
            consumer.ack(message)

    async with world(queues=1) as w:
        consumer = w.lite(on_revoked=finish, consume_from_where=FIRST)
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(8)
            got = await drain(consumer, 8)
            consumer.ack(got[0])
            held += got[1:6]
        async with w.lite() as second:
            second.subscribe("Orders")
            await second.wait_assigned(10)
            assert await committed(second) == [6]


@pytest.mark.parametrize("trouble", ["raises", "hangs"])
async def test_hooks_in_trouble_are_told_of_and_change_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    async def hook(queues: Queues) -> None:
        if trouble == "raises":
            raise KeyError("no such thing")
        await trio.sleep_forever()

    async with world() as w:
        consumer = w.lite(on_assigned=hook, on_revoked=hook, consume_from_where=FIRST)
        consumer.subscribe("Orders")
        async with consumer:
            sent = await w.send(8)
            assert bodies(await drain(consumer, 8)) == dict.fromkeys(sent, 1)
            await consumer.commit()
        async with w.lite() as second:
            second.subscribe("Orders")
            assert await second.poll(timeout=5) == []
    said = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert [("on_assigned" in each, "on_revoked" in each) for each in said] in (
        [(True, False), (False, True)],
        [(True, False)],  # at the end, one that hangs is left for the brokers' sake
    )


async def test_outside_of_hooks_it_is_closed_as_before(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        with pytest.raises(ClientClosedError, match="use it inside `async with`"):
            await consumer.seek(queues_of(1)[0], 0)
        async with consumer:
            pass
        with pytest.raises(ClientClosedError, match="make a new one"):
            await consumer.commit()
        for wrong in (3, int):
            with pytest.raises(ConfigError, match="must be a function"):
                LitePullConsumer("billing", on_assigned=wrong)
