"""What brokers have a lite pull consumer do: go on elsewhere, say where it stands and how it is inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketpy.wire.bodies.running import ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from rocketpy.wire.headers.offset import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from rocketpy_broker_sim.broker.broker import Broker
from tests.broker_sim.broker.kit import Client, client_of
from tests.system.consuming import World, bodies, drain, queues_of, reset_group, world


@attrs.define
class Scene:
    """A cluster, an administrator at its broker, and a consumer of Orders that was handed 20 messages, five a queue."""

    world: World
    broker: Broker
    admin: Client
    consumer: LitePullConsumer
    messages: list[MessageExt]

    @property
    def link(self) -> Connection:
        """The broker's connection to the consumer."""
        [member] = self.broker.clients.consumers.clients(self.consumer.config.group)
        assert isinstance(member.channel, Connection)
        return member.channel

    async def reset(self, offsets: dict[MessageQueue, int], topic: str = "Orders") -> None:
        header = ResetOffsetRequestHeader(group=self.consumer.config.group, topic=topic, timestamp=0, is_force=True)
        body = ResetOffsetBody(offset_table=offsets).encode()
        self.link.send_oneway(RemotingCommand.oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header.to_ext(), body))
        await trio.sleep(0.1)

    async def info(self, *, stacks: bool = False) -> ConsumerRunningInfo:
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=self.consumer.config.group,
            client_id=self.consumer.client.client_id,
            jstack_enable=stacks,
        )
        answer = await self.admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header.to_ext())
        assert answer.code == 0, answer.remark
        return ConsumerRunningInfo.decode(answer.body)

    async def standing(self, topic: str = "Orders") -> dict[MessageQueue, int]:
        header = GetConsumerStatusRequestHeader(topic=topic, group=self.consumer.config.group).to_ext()
        answer = await self.admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
        [table] = GetConsumerStatusBody.decode(answer.body).consumer_table.values()
        return table

    def committed(self) -> list[int]:
        """What the broker has, by queue."""
        return [self.broker.offsets.query(self.consumer.config.group, "Orders", number) for number in range(4)]


@asynccontextmanager
async def scene(*, server_side: bool = False, **settings: Any) -> AsyncIterator[Scene]:
    """A cluster whose broker sends resets to clients, or, with `server_side`, reports them in answers to pulls."""
    async with world(use_server_side_reset_offset=server_side) as w:
        await w.send(20)
        consumer = w.lite(**settings)
        consumer.subscribe("Orders")
        async with consumer:
            messages = await drain(consumer, 20)
            [opened] = w.cluster.brokers
            async with client_of(w.cluster.network, opened.address) as admin:
                yield Scene(w, opened, admin, consumer, messages)


def offsets(messages: Iterable[MessageExt], number: int) -> list[int]:
    return [message.queue_offset for message in messages if message.queue_id == number]


# --- other offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("auto_commit", [True, False])
async def test_OF4_it_goes_on_where_it_is_told_and_commits_that(autojump_clock: MockClock, auto_commit: bool) -> None:
    async with scene(auto_commit=auto_commit) as s:
        if not auto_commit:
            await s.consumer.commit()
        await s.reset(dict.fromkeys(queues_of(2), 2))
        await trio.sleep(2)
        assert s.committed()[:2] == [2, 2]
        again = await drain(s.consumer, 6)
        assert [offsets(again, number) for number in range(4)] == [[2, 3, 4], [2, 3, 4], [], []]
        assert await s.consumer.poll(timeout=1) == []
        await s.consumer.commit()
        assert s.committed() == [5, 5, 5, 5]


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("server_side", [True, False])
async def test_OF4_an_administrator_moves_the_whole_group_by_a_time(
    autojump_clock: MockClock, server_side: bool, auto_commit: bool
) -> None:
    """The old commits are not repeated, and messages handed out before have no more effect."""
    async with scene(server_side=server_side, auto_commit=auto_commit) as s:
        await s.consumer.commit()
        await reset_group(s.world)
        await trio.sleep(21)
        assert s.committed() == [0, 0, 0, 0]
        s.consumer.ack(s.messages[0])
        again = await drain(s.consumer, 20)
        assert bodies(again) == bodies(s.messages)
        for message in again[:3]:
            s.consumer.ack(message)
        await s.consumer.commit()
        assert sum(s.committed()) <= 3
        assert s.consumer.statistics().offset_resets == (4 if server_side else 0)


@pytest.mark.parametrize("server_side", [True, False])
async def test_OF4_the_next_member_begins_where_its_group_was_moved(
    autojump_clock: MockClock, server_side: bool
) -> None:
    """The member that was reset ends before it commits again."""
    async with world(use_server_side_reset_offset=server_side) as w:
        sent = Counter(await w.send(20))
        for settings in ({"auto_commit": False}, {}):
            consumer = w.lite(**settings)
            consumer.subscribe("Orders")
            async with consumer:
                assert bodies(await drain(consumer, 20)) == sent
                await consumer.commit()
                await reset_group(w)
                await trio.sleep(2)
                assert len(await drain(consumer, 10)) == 10


async def test_OF4_what_was_handed_out_before_moves_nothing_any_more(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(auto_commit=False) as s:
        s.consumer.ack(s.messages[0])
        await s.reset(dict.fromkeys(queues_of(4), 1))
        await trio.sleep(2)
        for message in s.messages[1:]:
            s.consumer.ack(message)
        assert " is ignored: it was not handed out" in caplog.text
        await s.consumer.commit()
        assert s.committed() == [1, 1, 1, 1]
        for message in await drain(s.consumer, 16):
            s.consumer.ack(message)
        await s.consumer.commit()
        assert s.committed() == [5, 5, 5, 5]
        assert s.consumer.statistics().acknowledged == 17


async def test_OF4_what_a_broker_may_not_have_is_left_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene() as s:
        name = s.broker.config.broker_name
        nobodys = {MessageQueue("Orders", name, 9): 0}
        for topic, wanted in (
            ("Other", {queues_of(1)[0]: 0}),
            ("Orders", {queues_of(1)[0]: -1, MessageQueue("Other", name, 0): 0}),
            ("Orders", nobodys),
        ):
            caplog.clear()
            await s.reset(wanted, topic=topic)
            await trio.sleep(2)
            assert f"ignoring {len(wanted)} of {len(wanted)} offset" in caplog.text
        assert await s.consumer.poll(timeout=1) == []


async def test_OF4_assigned_queues_are_moved_too_and_paused_ones_rest(autojump_clock: MockClock) -> None:
    async with scene() as s:
        consumer = s.world.lite(group="assigned")
        consumer.assign(queues_of(2))
        async with consumer:
            await drain(consumer, 10)
            consumer.pause(queues_of(1))
            moved = attrs.evolve(s, consumer=consumer)
            await moved.reset(dict.fromkeys(queues_of(2), 4))
            assert {message.queue_id for message in await drain(consumer, 1)} == {1}
            assert await consumer.poll(timeout=5) == []
            consumer.resume(queues_of(1))
            assert offsets(await drain(consumer, 1), 0) == [4]


# --- a look inside ---------------------------------------------------------------------------------------


async def test_PC7_where_it_stands(autojump_clock: MockClock) -> None:
    async with scene(auto_commit=False) as s:
        assert await s.standing() == {}  # nothing is committed, or will be
        await s.consumer.commit(dict.fromkeys(queues_of(2), 3))
        assert await s.standing() == dict.fromkeys(queues_of(2), 3)
        assert await s.standing("Other") == {}


async def test_PC7_how_it_is_inside(autojump_clock: MockClock) -> None:
    async with scene(pull_batch_size=16) as s:
        s.consumer.pause(queues_of(1))
        await s.world.send(4, start=20)
        await s.consumer.poll(timeout=1)
        info = await s.info(stacks=True)
        assert info.properties["consumerGroup"] == s.consumer.config.group
        assert info.properties["pullBatchSize"] == "16"
        assert info.properties["PROP_NAMESERVER_ADDR"] == s.world.cluster.name_server_addresses + ";"
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
        assert [each.topic for each in info.subscription_set] == ["Orders"]
        assert sorted(info.mq_table) == queues_of(4)
        assert [info.mq_table[queue].commit_offset for queue in queues_of(4)] == [5, 5, 5, 5]
        assert info.status_table["Orders"].consume_ok_tps > 0
        assert info.jstack is not None
        assert "QueuePuller.run" in info.jstack


async def test_PC7_it_has_no_listener_that_could_be_given_a_message(autojump_clock: MockClock) -> None:
    async with scene() as s:
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=s.consumer.config.group,
            client_id=s.consumer.client.client_id,
            msg_id=s.messages[0].offset_message_id,
        )
        answer = await s.admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header.to_ext())
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert "which has no listener: choose a push consumer" in answer.remark


# --- statistics ------------------------------------------------------------------------------------------


async def test_what_it_has_done_is_counted_by_topic(autojump_clock: MockClock) -> None:
    async with scene() as s:
        counts = s.consumer.statistics()
        assert (counts.pulled, counts.handed_out, counts.acknowledged, counts.offset_resets) == (20, 20, 0, 0)
        assert counts.rebalances >= 1
        assert counts.pulls >= 4
        assert list(counts.topics) == ["Orders"]
        rates = counts.topics["Orders"]
        assert rates.consumed_per_second > 0
        assert rates.pulled_per_second == rates.consumed_per_second
        assert (rates.failed_per_second, rates.consume_seconds, rates.failed_in_hour) == (0, 0, 0)
        await s.world.send(1, start=20)
        parts = await s.consumer.outside.polling.lend(1, 5)
        assert s.consumer.statistics().handed_out == 21
        s.consumer.outside.polling.give_back(parts)
        assert s.consumer.statistics().handed_out == 20
        s.consumer.ack((await drain(s.consumer, 1))[0])
        s.consumer.ack(s.messages[0])  # handed out by the poll before, which counts as dealt with
        assert s.consumer.statistics().acknowledged == 1
