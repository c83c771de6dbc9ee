"""How far groups have come, and having them continue elsewhere, online and offline."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
import trio
from trio.testing import MockClock

from rocketpy import (
    BrokersFailedError,
    ConfigError,
    GroupNotFoundError,
    OffsetOutOfRangeError,
    SubscriptionGroupNotExistError,
    TopicNotFoundError,
)
from rocketpy.message import MessageQueue
from rocketpy.seams import wall_ms
from rocketpy.wire.enums import ConsumeFromWhere
from tests.admin.scene import Scene, scene
from tests.system.consuming import Recorder, bodies, drain, wait_until

ONE = MessageQueue("Orders", "broker-a", 0)
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def consumed(s: Scene, count: int) -> None:
    """Have the group consume everything, and leave."""
    recorder = Recorder(lambda message: None)
    consumer = s.world.consumer(consume_from_where=FIRST)
    consumer.subscribe("Orders", recorder)
    async with consumer:
        await wait_until(lambda: len(recorder.messages) == count)


async def test_the_lag_of_a_group_in_one_call(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(6)
        await consumed(s, 6)
        found = await s.admin.offsets.lag("billing")
        assert (found.lag, found.topics) == (0, ("%RETRY%billing", "Orders"))
        assert [each.committed for each in found.of_topic("Orders").queues] == [3, 3]
        await s.world.send(4)
        found = await s.admin.offsets.lag("billing", topic="Orders")
        assert (found.lag, found.in_flight, found.topics) == (4, 0, ("Orders",))
        [queue, _] = found.queues
        assert (queue.end, queue.committed, queue.lag) == (5, 3, 2)
        last = queue.last_consumed_at
        assert last is not None
        assert last.timestamp() * 1000 <= wall_ms()
        assert found.rate > 0
        assert repr(found).startswith("GroupLag(group='billing', lag=4, rate=0.")


async def test_the_lag_of_all_groups(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(4)
        await s.admin.groups.create("audit")
        await s.admin.offsets.commit("audit", ONE, 1)
        await consumed(s, 4)
        assert [(each.group, each.lag) for each in await s.admin.offsets.lags()] == [("audit", 1), ("billing", 0)]
        s.down(1)
        with pytest.raises(BrokersFailedError, match="broker-b") as caught:
            await s.admin.offsets.lags()
        assert [each.group for each in caught.value.result] == ["audit", "billing"]
        with pytest.raises(BrokersFailedError) as caught:
            await s.admin.offsets.lag("audit")
        assert [each.queue for each in caught.value.result.queues] == [ONE]


@pytest.mark.parametrize("server_side", [True, False], ids=["kept by the broker", "sent to members"])
async def test_a_group_that_does_not_run_is_reset(autojump_clock: MockClock, *, server_side: bool) -> None:
    async with scene(2, queues=1, use_server_side_reset_offset=server_side) as s:
        await s.world.send(4)
        await trio.sleep(10)
        then = wall_ms()
        await s.world.send(4, start=4)
        await consumed(s, 8)
        for to, lag in (("begin", 8), ("end", 0), (then, 4), (datetime.fromtimestamp(then / 1000, UTC), 4)):
            found = await s.admin.offsets.reset("billing", "Orders", to)  # type: ignore[arg-type]
            assert [each.queue.broker_name for each in found] == ["broker-a", "broker-b"]
            assert sum(4 - each.offset for each in found) == lag
            assert (await s.admin.offsets.lag("billing", topic="Orders")).lag == lag
        await s.admin.offsets.reset("billing", "Orders", then)
        await consumed(s, 4)


@pytest.mark.parametrize("server_side", [True, False], ids=["kept by the broker", "sent to members"])
async def test_a_time_before_1970_is_before_all_messages(autojump_clock: MockClock, *, server_side: bool) -> None:
    async with scene(queues=1, use_server_side_reset_offset=server_side) as s:
        await s.world.send(3)
        await consumed(s, 3)
        for old in (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)):
            [found] = await s.admin.offsets.reset("billing", "Orders", old)
            assert found.offset == 0
            assert await s.admin.offsets.at(ONE, old) == 0
            assert len(await s.admin.messages.by_time("Orders", old)) == 3
            await s.admin.offsets.reset("billing", "Orders", "end")


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("server_side", [True, False], ids=["kept by the broker", "sent to members"])
async def test_a_group_that_runs_is_reset(autojump_clock: MockClock, *, server_side: bool, orderly: bool) -> None:
    async with scene(queues=2, use_server_side_reset_offset=server_side) as s:
        sent = await s.world.send(6)
        recorder = Recorder(lambda message: None)
        consumer = s.world.consumer(consume_from_where=FIRST, orderly=orderly)
        consumer.subscribe("Orders", recorder)
        async with consumer:
            await wait_until(lambda: len(recorder.messages) == 6)
            await consumer.commit(5)
            await s.admin.offsets.reset("billing", "Orders", "begin")
            await wait_until(lambda: len(recorder.messages) == 12)
        assert sorted(each.body for each in recorder.messages) == sorted(sent * 2)


@pytest.mark.parametrize("server_side", [True, False], ids=["kept by the broker", "sent to members"])
async def test_a_lite_pull_group_that_runs_is_reset(autojump_clock: MockClock, *, server_side: bool) -> None:
    async with scene(queues=2, use_server_side_reset_offset=server_side) as s:
        sent = await s.world.send(6)
        consumer = s.world.lite(consume_from_where=FIRST)
        consumer.subscribe("Orders")
        async with consumer:
            await drain(consumer, 6)
            await consumer.commit()
            await s.admin.offsets.reset("billing", "Orders", "begin")
            assert bodies(await drain(consumer, 6)) == Counter(sent)
            await consumer.commit()
        assert (await s.admin.offsets.lag("billing", topic="Orders")).lag == 0


async def test_an_offset_is_committed_only_within_the_queue(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(3)
        await s.admin.groups.create("audit")
        await s.admin.offsets.commit("audit", ONE, 3)
        assert (await s.admin.offsets.lag("audit")).lag == 0
        with pytest.raises(OffsetOutOfRangeError, match="goes from offset 0 to 3") as caught:
            await s.admin.offsets.commit("audit", ONE, 4)
        assert caught.value.max_offset == 3
        with pytest.raises(SubscriptionGroupNotExistError):
            await s.admin.offsets.commit("nobody", ONE, 1)
        for wrong in (-1, True, 1.0):
            with pytest.raises(ConfigError, match="an offset must be"):
                await s.admin.offsets.commit("audit", ONE, wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="a queue must be"):
            await s.admin.offsets.commit("audit", "Orders", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("server_side", [True, False], ids=["kept by the broker", "sent to members"])
async def test_an_offset_is_committed_although_the_group_was_reset(
    autojump_clock: MockClock, *, server_side: bool
) -> None:
    async with scene(queues=2, use_server_side_reset_offset=server_side) as s:
        await s.world.send(10)
        await s.admin.groups.create("billing")
        await s.admin.offsets.reset("billing", "Orders", "begin")
        await s.admin.offsets.commit("billing", ONE, 3)
        assert [each.committed for each in (await s.admin.offsets.lag("billing", topic="Orders")).queues] == [3, 0]
        await consumed(s, 7)


async def test_offsets_are_copied_to_another_group(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(6)
        await consumed(s, 6)
        await s.admin.groups.create("reports")
        await s.admin.offsets.clone("billing", "reports", "Orders")
        assert [each.committed for each in (await s.admin.offsets.lag("reports")).queues] == [3, 3]
        for groups in (("nobody", "reports"), ("billing", "nobody")):
            with pytest.raises(GroupNotFoundError, match="nobody"):
                await s.admin.offsets.clone(*groups, "Orders")


async def test_offsets_are_copied_only_where_there_are_any(autojump_clock: MockClock) -> None:
    async with scene(queues=2) as s:
        await s.world.send(10)
        for group in ("audit", "reports"):
            await s.admin.groups.create(group)
        await s.admin.offsets.reset("reports", "Orders", "end")
        await s.admin.offsets.commit("audit", ONE, 2)
        await s.admin.offsets.clone("audit", "reports", "Orders")
        found = await s.admin.offsets.lag("reports", topic="Orders")
        assert [each.committed for each in found.queues] == [2, 5]


async def test_the_offset_of_a_time(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(2)
        await trio.sleep(5)
        then = wall_ms()
        await s.world.send(2)
        assert await s.admin.offsets.at(ONE, 0) == 0
        assert await s.admin.offsets.at(ONE, then) == 2
        assert await s.admin.offsets.at(ONE, then + 60_000) == 4
        with pytest.raises(ConfigError, match="time zone"):
            await s.admin.offsets.at(ONE, datetime(2026, 1, 1))  # noqa: DTZ001


async def test_what_cannot_be_reset(autojump_clock: MockClock) -> None:
    async with scene() as s:
        with pytest.raises(GroupNotFoundError):
            await s.admin.offsets.reset("nobody", "Orders", "begin")
        await s.admin.groups.create("audit")
        with pytest.raises(TopicNotFoundError):
            await s.admin.offsets.reset("audit", "Nowhere", "begin")
        for wrong in ("middle", -1, 1.5, None, 1_700_000_000):
            with pytest.raises(ConfigError, match="to, unless it is"):
                await s.admin.offsets.reset("audit", "Orders", wrong)  # type: ignore[arg-type]
