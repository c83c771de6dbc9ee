"""What brokers have a running consumer do: other offsets while it consumes, a look inside, one message directly."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import TopicRates
from rocketpy.consumer.offsets.start_position import StartPosition
from rocketpy.consumer.push import PushConsumer
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeResult, RetryLater
from rocketpy.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import CMResult, ConsumeFromWhere
from rocketpy.wire.headers.group import ConsumeMessageDirectlyResultRequestHeader, GetConsumerRunningInfoRequestHeader
from rocketpy.wire.headers.offset import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from rocketpy_broker_sim.broker.broker import Broker
from tests.broker_sim.broker.kit import Client, client_of
from tests.consumer.helpers import role_of
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@attrs.define
class Scene:
    """A cluster, a broker of it, an administrator, and a consumer of Orders that has got what was sent."""

    world: World
    broker: Broker
    admin: Client
    consumer: PushConsumer
    recorder: Recorder

    @property
    def link(self) -> Connection:
        """The broker's connection to the consumer."""
        [member] = self.broker.clients.consumers.clients("billing")
        assert isinstance(member.channel, Connection)
        return member.channel

    def queue(self, number: int) -> MessageQueue:
        return MessageQueue("Orders", self.broker.config.broker_name, number)

    async def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        """What the consumer answers when the broker asks it."""
        return await self.link.request(RemotingCommand(code, fields, body), timeout=100)

    async def reset(self, offsets: dict[MessageQueue, int], topic: str = "Orders", group: str = "billing") -> None:
        header = ResetOffsetRequestHeader(group=group, topic=topic, timestamp=0, is_force=True)
        body = ResetOffsetBody(offset_table=offsets).encode()
        self.link.send_oneway(RemotingCommand.oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header.to_ext(), body))
        await trio.sleep(0.1)

    async def info(self, group: str = "billing", *, stacks: bool = False) -> ConsumerRunningInfo:
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=self.consumer.client.client_id, jstack_enable=stacks
        )
        answer = await self.admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header.to_ext())
        assert answer.code == 0, answer.remark
        return ConsumerRunningInfo.decode(answer.body)

    async def directly(self, message: MessageExt, *, group: str = "billing") -> ConsumeMessageDirectlyResult:
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group, client_id=self.consumer.client.client_id, msg_id=message.offset_message_id
        )
        answer = await self.admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header.to_ext())
        assert answer.code == 0, answer.remark
        return ConsumeMessageDirectlyResult.decode(answer.body)


@asynccontextmanager
async def scene(
    messages: int = 20, listener: Any = None, broker: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Scene]:
    """A consumer that has got so many messages."""
    recorder = Recorder()
    async with world(**(broker or {})) as w:
        await w.send(messages)
        consumer = w.consumer(consume_from_where=FIRST, **settings)
        consumer.subscribe("Orders", listener or recorder)
        async with consumer:
            if listener is None:
                await recorder.wait_count(messages)
            else:
                await consumer.wait_assigned(30)
                await trio.sleep(5)
            [opened] = w.cluster.brokers
            async with client_of(w.cluster.network, opened.address) as admin:
                yield Scene(w, opened, admin, consumer, recorder)


# --- other offsets ---------------------------------------------------------------------------------------


async def test_OF4_PC7_a_client_goes_back_where_the_broker_leaves_it_to_the_clients(autojump_clock: MockClock) -> None:
    async with scene(broker={"use_server_side_reset_offset": False}) as s:
        await trio.sleep(6)  # until every queue has an offset
        header = ResetOffsetRequestHeader(group="billing", topic="Orders", timestamp=0, is_force=True)
        answer = await s.admin.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
        assert answer.code == 0, answer.remark
        await s.recorder.wait_count(40)
        await trio.sleep(30)
        assert set(s.recorder.bodies.values()) == {2}
        assert {s.broker.offsets.query("billing", "Orders", n) for n in range(4)} == {5}


async def test_OF4_one_queue_goes_back_and_the_others_stay(autojump_clock: MockClock) -> None:
    async with scene() as s:
        before = Counter(s.recorder.bodies)
        of_queue = {m.body for m in s.recorder.messages if m.queue_id == 2 and m.queue_offset >= 3}
        await s.reset({s.queue(2): 3})
        await s.recorder.wait_count(22)
        await trio.sleep(30)
        assert s.recorder.bodies - before == Counter(of_queue)
        await s.world.send(4, start=20)
        await s.recorder.wait_count(26)


async def test_OF4_a_queue_goes_forward_over_what_is_held(autojump_clock: MockClock) -> None:
    gate = trio.Event()
    seen: list[MessageExt] = []

    async def slow(message: MessageExt) -> None:
        seen.append(message)
        await gate.wait()

    async with scene(listener=slow, consume_thread_max=1) as s:
        assert len(seen) == 1
        assert s.consumer.status().queues[s.queue(0)].held_messages
        queue = seen[0].queue
        await s.reset({s.queue(n): 5 for n in range(4)})
        await trio.sleep(2)
        assert s.broker.offsets.query("billing", "Orders", queue.queue_id) != 5, "a listener is still at work"
        role_of(s.consumer).rebalance_now()
        await trio.sleep(1)
        assert s.consumer.assignment == (), "shared out before the offsets are there"
        gate.set()
        await trio.sleep(30)
        assert len(seen) == 1
        assert {s.broker.offsets.query("billing", "Orders", n) for n in range(4)} == {5}
        await s.world.send(4, start=20)
        await trio.sleep(5)
        assert {message.body for message in seen[1:]} == {b"20", b"21", b"22", b"23"}


async def test_OF4_a_queue_that_is_just_being_taken_begins_at_the_new_offset(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = trio.Event()
    find = StartPosition.find

    async def slow(self: StartPosition, queue: MessageQueue) -> int:
        found = await find(self, queue)
        asked.set()
        await trio.sleep(2)
        return found

    recorder = Recorder()
    async with world() as w:
        await w.send(20)
        consumer = w.consumer(consume_from_where=FIRST, start_timeout=0.01)
        consumer.subscribe("Orders", recorder)
        monkeypatch.setattr(StartPosition, "find", slow)
        async with consumer:
            await asked.wait()
            driven = role_of(consumer).driven
            queues = [MessageQueue("Orders", w.cluster.brokers[0].config.broker_name, n) for n in range(4)]
            await driven.note_reset("Orders", dict.fromkeys(queues, 4), sender=w.cluster.brokers[0].address)
            await driven.carry_out_resets()
            await recorder.wait_count(4)
            await trio.sleep(30)
        assert {message.queue_offset for message in recorder.messages} == {4}
        assert len(recorder.messages) == 4


async def test_OF4_a_listener_that_hangs_does_not_hold_up_a_reset_for_ever(autojump_clock: MockClock) -> None:
    async def hang(message: MessageExt) -> None:
        await trio.sleep_forever()

    async with scene(messages=4, listener=hang, await_termination=1.0) as s:
        await s.reset({s.queue(n): 1 for n in range(4)})
        await trio.sleep(15)
        assert {s.broker.offsets.query("billing", "Orders", n) for n in range(4)} == {1}
        assert len(s.consumer.assignment) == 4


async def test_OF4_a_broker_that_is_away_leaves_the_offsets_as_they_were(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene() as s:
        await trio.sleep(6)
        await s.reset({s.queue(n): 2 for n in range(4)})
        await wait_until(lambda: not s.consumer.assignment)
        await s.world.cluster.stop_broker(0)  # while the consumer waits to commit the new offsets
        said = "4 of 4 could not be committed and keep their old offsets: reset the group again"
        await wait_until(lambda: said in caplog.text)
        [record] = [each for each in caplog.records if said in each.getMessage()]
        assert record.levelname == "WARNING"
        await s.world.cluster.start_broker(0)
        [broker] = s.world.cluster.brokers
        await wait_until(lambda: len(s.consumer.assignment) == 4, within=120)
        assert {broker.offsets.query("billing", "Orders", n) for n in range(4)} == {5}
        await s.world.send(4, start=20)
        await s.recorder.wait_count(24)
        await trio.sleep(30)
        assert set(s.recorder.bodies.values()) == {1}
        assert {broker.offsets.query("billing", "Orders", n) for n in range(4)} == {6}


async def test_threat_M16_a_reset_of_what_is_not_ours_is_left_alone(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await trio.sleep(6)
        await s.reset({s.queue(0): 0}, group="other")
        await s.reset({MessageQueue("Other", s.queue(0).broker_name, 0): 0}, topic="Other")
        await s.reset({MessageQueue("Other", s.queue(0).broker_name, 0): 0})
        await s.reset({s.queue(0): -5})
        await s.reset({MessageQueue("Orders", "nobody", 0): 3})
        await s.reset({})
        for body in (b"", b"[", b'{"offsetTable":7}'):
            header = ResetOffsetRequestHeader(group="billing", topic="Orders", timestamp=0, is_force=True).to_ext()
            s.link.send_oneway(RemotingCommand.oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body))
        await trio.sleep(30)
        assert len(s.recorder.messages) == 20
        assert {s.broker.offsets.query("billing", "Orders", n) for n in range(4)} == {5}
        assert len(s.consumer.assignment) == 4


async def test_OF4_OR3_a_consumer_in_order_goes_back_and_keeps_the_order(autojump_clock: MockClock) -> None:
    async with scene(orderly=True) as s:
        await trio.sleep(6)
        s.recorder.messages.clear()
        await s.reset({s.queue(n): 2 for n in range(4)})
        await s.recorder.wait_count(12)
        await trio.sleep(60)
        for number in range(4):
            assert [m.queue_offset for m in s.recorder.messages if m.queue_id == number] == [2, 3, 4]
        info = await s.info()
        assert info.properties["PROP_CONSUMEORDERLY"] == "true"
        assert all(info.mq_table[s.queue(n)].locked for n in range(4))
        told = await s.directly(s.recorder.messages[0])
        assert (told.consume_result, told.order) == (CMResult.CR_SUCCESS, True)
        await s.world.send(4, start=20)
        await s.recorder.wait_count(17)


# --- a look inside ---------------------------------------------------------------------------------------


async def test_PC7_where_a_consumer_stands(autojump_clock: MockClock) -> None:
    async with scene() as s:

        async def status(topic: str, group: str) -> dict[MessageQueue, int]:
            header = GetConsumerStatusRequestHeader(topic=topic, group=group).to_ext()
            answer = await s.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
            assert answer.code == 0
            return GetConsumerStatusBody.decode(answer.body).message_queue_table

        assert await status("Orders", "billing") == {s.queue(n): 5 for n in range(4)}
        assert await status("Other", "billing") == await status("Orders", "other") == {}
        header = GetConsumerStatusRequestHeader(topic="Orders", group="billing").to_ext()
        answer = await s.admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
        [(client_id, table)] = GetConsumerStatusBody.decode(answer.body).consumer_table.items()
        assert (client_id, table[s.queue(1)]) == (s.consumer.client.client_id, 5)


async def test_PC7_how_a_consumer_is_inside(autojump_clock: MockClock) -> None:
    async with scene(consume_timeout=1800.0, pull_batch_size=16) as s:
        info = await s.info()
        properties = info.properties
        assert properties["consumerGroup"] == "billing"
        assert (properties["consumeTimeout"], properties["pullBatchSize"]) == ("30", "16")
        assert properties["messageModel"] == "CLUSTERING"
        assert properties["PROP_NAMESERVER_ADDR"] == s.world.cluster.name_server_addresses + ";"
        assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert properties["PROP_CLIENT_VERSION"] == "V5_3_3"
        assert properties["PROP_CONSUMEORDERLY"] == "false"
        assert properties["PROP_THREADPOOL_CORE_SIZE"] == properties["consumeThreadMax"] == "20"
        s.consumer.set_consume_thread_max(7)
        await trio.sleep(0.1)
        assert (await s.info()).properties["PROP_THREADPOOL_CORE_SIZE"] == "7"
        assert int(properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
        assert {each.topic for each in info.subscription_set} == {"Orders", "%RETRY%billing"}
        queue = info.mq_table[s.queue(0)]
        assert (queue.commit_offset, queue.cached_msg_count, queue.droped) == (5, 0, False)
        assert 0 < queue.last_consume_timestamp <= queue.last_pull_timestamp + 60_000
        assert MessageQueue("%RETRY%billing", s.queue(0).broker_name, 0) in info.mq_table
        assert info.status_table["Orders"].consume_ok_tps > 0
        assert info.jstack is None


async def test_PC7_what_is_held_is_told(autojump_clock: MockClock) -> None:
    async def hang(message: MessageExt) -> None:
        await trio.sleep_forever()

    async with scene(listener=hang, await_termination=0.0, consume_thread_max=1) as s:
        queue = (await s.info()).mq_table[s.queue(1)]
        assert (queue.cached_msg_min_offset, queue.cached_msg_max_offset, queue.cached_msg_count) == (0, 4, 5)


async def test_PC7_stacks_are_told_when_they_are_asked_for(autojump_clock: MockClock) -> None:
    async def deep_inside(message: MessageExt) -> None:
        password = "tell nobody"
        await trio.sleep_forever()
        del password

    async with scene(messages=1, listener=deep_inside, await_termination=0.0) as s:
        stacks = (await s.info(stacks=True)).jstack
        assert stacks is not None
        assert "deep_inside(test_driven.py:" in stacks
        assert "rocketpy.consumer.pulling.pull.QueuePuller.run(pull.py:" in stacks
        assert f"({threading.get_ident()})" in stacks
        assert "tell nobody" not in stacks
        assert "/" not in stacks


async def test_threat_M16_no_secret_and_nothing_of_the_machine_is_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_VARIABLE", "environment-value")
    keys = {"access_key": "the-access-key", "secret_key": "the-secret-key", "security_token": "the-token"}
    async with scene(**keys) as s:
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group="billing", client_id=s.consumer.client.client_id, jstack_enable=True
        )
        answer = await s.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header.to_ext())
        assert answer.code == 0, answer.remark
        assert "QueuePuller.run(pull.py:" in (ConsumerRunningInfo.decode(answer.body).jstack or "")
        for text in (*keys.values(), "environment-value", "SOME_VARIABLE"):
            assert text.encode() not in answer.body


async def test_threat_M16_other_groups_are_told_nothing(autojump_clock: MockClock) -> None:
    async with scene() as s:
        for code, header in (
            (
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                GetConsumerRunningInfoRequestHeader(consumer_group="other", client_id="c").to_ext(),
            ),
            (
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                ConsumeMessageDirectlyResultRequestHeader(consumer_group="other", client_id="c").to_ext(),
            ),
        ):
            answer = await s.ask(code, header, b"x")
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark == "The Consumer Group <other> not exist in this consumer"


# --- one message directly --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "result", "remark"),
    [
        (None, CMResult.CR_SUCCESS, None),
        (ConsumeResult.SUCCESS, CMResult.CR_SUCCESS, None),
        (ConsumeResult.RETRY, CMResult.CR_LATER, None),
        (RetryLater(delay_level=3), CMResult.CR_LATER, None),
        (ValueError("a secret"), CMResult.CR_THROW_EXCEPTION, "ValueError: the log of the consumer has the details"),
        ("what", CMResult.CR_LATER, "the listener answered with a str, which counts as failed"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_PC7_one_message_is_consumed_directly(
    autojump_clock: MockClock, outcome: object, result: CMResult, remark: str | None, kind: str
) -> None:
    seen: list[MessageExt] = []
    direct = False

    def plain(message: MessageExt) -> object:
        seen.append(message)
        if not direct:
            return None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def waiting(message: MessageExt) -> object:
        await trio.sleep(0.5)
        return plain(message)

    async with scene(messages=4, listener=plain if kind == "plain" else waiting) as s:
        await trio.sleep(6)
        before = s.consumer.statistics()
        direct = True
        told = await s.directly(seen[0])
        assert (told.consume_result, told.remark, told.order, told.auto_commit) == (result, remark, False, True)
        assert told.spent_time_mills == (0 if kind == "plain" else 500)
        assert (len(seen), seen[-1].body, seen[-1].topic) == (5, seen[0].body, "Orders")
        assert seen[-1].broker_name == seen[0].broker_name
        await trio.sleep(60)
        after = s.consumer.statistics()
        assert len(seen) == 5, "it does not come again, whatever the listener said"
        assert (after.sent_back, after.retried_here) == (before.sent_back, before.retried_here)
        assert {s.broker.offsets.query("billing", "Orders", n) for n in range(4)} == {1}


async def test_PC7_directly_means_before_what_waits(autojump_clock: MockClock) -> None:
    seen: list[bytes] = []

    async def slow(message: MessageExt) -> None:
        seen.append(message.body)
        await trio.sleep(30)

    async with scene(messages=200, listener=slow, await_termination=0.0, consume_thread_max=2) as s:
        held = s.broker.store.reads.get("Orders", 3, 49, 1)
        assert held.count == 1
        waiting = len(seen)
        last = (await s.world.producer.send(Message("Orders", b"urgent"))).offset_message_id
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group="billing", client_id=s.consumer.client.client_id, msg_id=last
        ).to_ext()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(s.admin.ask, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
            await wait_until(lambda: b"urgent" in seen, within=40)
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 31
        assert len(seen) <= waiting + 4


async def test_PC7_a_batch_listener_gets_a_list_of_one(autojump_clock: MockClock) -> None:
    seen: list[list[MessageExt]] = []

    def listener(messages: list[MessageExt]) -> int:
        seen.append(messages)
        return len(messages)

    async with scene(messages=4, listener=listener, consume_message_batch_max_size=8) as s:
        told = await s.directly(seen[0][0])
        assert told.consume_result is CMResult.CR_SUCCESS
        assert [message.body for message in seen[-1]] == [seen[0][0].body]


async def test_threat_M16_a_message_of_a_topic_that_is_not_subscribed_is_not_consumed(
    autojump_clock: MockClock,
) -> None:
    async with scene() as s:
        await s.world.producer.create_topic("Other", queues=1)
        sent = await s.world.producer.send(Message("Other", b"x"))
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group="billing", client_id=s.consumer.client.client_id, msg_id=sent.offset_message_id
        ).to_ext()
        answer = await s.admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "the consumer group billing does not subscribe Other"
        for body in (b"", b"x", b"\x00" * 200):
            damaged = await s.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, body)
            assert damaged.code == ResponseCode.SYSTEM_ERROR
        record = s.broker.store.reads.get("Orders", 0, 0, 2).records
        two = await s.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, bytes(record))
        assert two.remark is not None
        assert "bytes follow the message: send exactly one message" in two.remark
        assert len(s.recorder.messages) == 20


# --- rates -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_PC7_statistics_tell_what_there_was_of_each_topic_lately(autojump_clock: MockClock) -> None:
    async def listener(message: MessageExt) -> ConsumeResult:
        await trio.sleep(0.25)
        return ConsumeResult.RETRY if message.body == b"7" else ConsumeResult.SUCCESS

    async with scene(messages=0, listener=listener) as s:
        assert s.consumer.statistics().topics == {"Orders": TopicRates(), "%RETRY%billing": TopicRates()}
        for number in range(60):
            await s.world.producer.send(Message("Orders", b"%d" % (number % 10)))
            await trio.sleep(1)
        rates = s.consumer.statistics().topics["Orders"]
        assert rates.pulled_per_second == pytest.approx(1, abs=0.15)
        assert rates.consumed_per_second == pytest.approx(0.9, abs=0.15)
        assert rates.failed_per_second == pytest.approx(0.1, abs=0.05)
        assert rates.consume_seconds == pytest.approx(0.25, abs=0.01)
        assert 0.25 <= rates.listener.p50 <= rates.listener.p99 <= 0.273
        assert s.consumer.statistics().listener.count >= rates.listener.count >= 59
        assert rates.pull_seconds > 0
        assert rates.failed_in_hour == 6
        status = (await s.info()).status_table["Orders"]
        assert status.consume_rt == pytest.approx(250, abs=10)
        assert status.consume_failed_msgs == 6
        await trio.sleep(600)
        quiet = s.consumer.statistics().topics["Orders"]
        assert (quiet.pulled_per_second, quiet.consumed_per_second) == (0, 0)
        assert quiet.failed_in_hour >= 6
