"""Who is connected, and what consumers say about themselves."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy import BrokersFailedError, ConfigError, GroupNotFoundError, Message, MessageModel
from rocketpy.admin import DirectOutcome
from rocketpy.wire.enums import ConsumeFromWhere
from tests.admin.scene import scene
from tests.system.consuming import Recorder

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def test_the_members_of_a_group_and_what_they_do(autojump_clock: MockClock) -> None:
    async with scene(2, queues=2) as s:
        await s.world.send(8)
        recorder = Recorder()
        consumer = s.world.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", recorder, tags="a || *")
        consumer.subscribe("Orders", recorder)
        async with consumer:
            await recorder.wait_count(8)
            await trio.sleep(10)
            found = await s.admin.consumers.connections("billing")
            [member] = found.clients
            assert (member.group, member.language, member.version) == ("billing", "PYTHON", "5.3.3")
            assert member.brokers == ("broker-a", "broker-b")
            assert (found.is_push, found.message_model) == (True, MessageModel.CLUSTERING)
            assert [(each.topic, each.expression) for each in found.subscriptions] == [
                ("%RETRY%billing", "*"),
                ("Orders", "*"),
            ]
            state = await s.admin.consumers.state("billing", member.client_id)
            assert (state.group, state.client_id, state.stacks) == ("billing", member.client_id, None)
            assert len([each for each in state.queues if each.queue.topic == "Orders"]) == 4
            [topic] = [each for each in state.topics if each.topic == "Orders"]
            assert topic.failed == 0
            assert state.started_at is not None
            assert "rocketpy.consumer" in str(
                (await s.admin.consumers.state("billing", member.client_id, stacks=True)).stacks
            )
            offsets = await s.admin.consumers.offsets("billing", "Orders")
            assert [each.offset for each in offsets] == [2, 2, 2, 2]
            assert await s.admin.consumers.offsets("billing", "Orders", client_id=member.client_id) == offsets
            assert await s.admin.consumers.of_topic("Orders") == ("billing",)
            assert await s.admin.consumers.topics("billing") == ("%RETRY%billing", "Orders")
        gone = await s.admin.consumers.connections("billing")
        assert (gone.clients, gone.subscriptions, gone.message_model) == ((), (), None)
        assert await s.admin.consumers.offsets("billing", "Orders") == ()


async def test_a_message_is_consumed_directly(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        sent = await s.world.producer.send(Message("Orders", b"one"))
        recorder = Recorder(lambda message: 1 / 0 if len(recorder.messages) == 3 else None)
        consumer = s.world.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", recorder)
        async with consumer:
            await recorder.wait_count(1)
            message = await s.admin.messages.view(sent.offset_message_id)
            client_id = consumer.client.client_id
            done = await s.admin.consumers.consume("billing", client_id, message)
            assert (done.outcome, done.remark, done.orderly) == (DirectOutcome.SUCCESS, "", False)
            failed = await s.admin.consumers.consume("billing", client_id, message)
            assert failed.outcome is DirectOutcome.EXCEPTION
            assert "ZeroDivisionError" in failed.remark
            with pytest.raises(ConfigError, match="read from a broker"):
                await s.admin.consumers.consume("billing", client_id, "one")  # type: ignore[arg-type]


async def test_groups_and_members_that_are_not_there(autojump_clock: MockClock) -> None:
    async with scene() as s:
        for call in (s.admin.consumers.connections, s.admin.consumers.topics, s.admin.producers.connections):
            with pytest.raises(GroupNotFoundError, match="nobody"):
                await call("nobody")
            with pytest.raises(ConfigError):
                await call("a b")
        with pytest.raises(GroupNotFoundError):
            await s.admin.consumers.offsets("nobody", "Orders")
        await s.admin.groups.create("billing")
        with pytest.raises(GroupNotFoundError, match="has no member 'x' that is connected; connected members: none"):
            await s.admin.consumers.state("billing", "x")


async def test_producers(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        await s.world.send(2)
        await trio.sleep(31)
        [found] = await s.admin.producers.connections("shop")
        assert (found.group, found.language, found.brokers) == ("shop", "PYTHON", ("broker-a", "broker-b"))
        [listed] = await s.admin.producers.list()
        assert (listed.client_id, listed.brokers, listed.address) == (found.client_id, found.brokers, found.address)
        assert listed.last_heartbeat_at is not None
        s.down(0)
        with pytest.raises(BrokersFailedError, match="broker-a") as caught:
            await s.admin.producers.list()
        assert [each.brokers for each in caught.value.result] == [("broker-b",)]
