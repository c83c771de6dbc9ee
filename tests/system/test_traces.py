"""Traces of producers and consumers, as they stand on the topic of traces; in virtual time."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import ConfigError, IllegalOperationError, RocketMQError
from rocketpy.message import Message, MessageExt
from rocketpy.producer import Producer, TransactionProducer
from rocketpy.results import ConsumeResult, LocalTransactionState
from rocketpy.seams import wall_ms
from rocketpy.trace import TraceRecord
from rocketpy.trace.dispatcher import MOST_BYTES, MOST_RECORDS, TraceDispatcher
from rocketpy.trace.records import ContextCode, MessageType
from tests.system.consuming import Recorder, World, wait_until, world
from tests.system.tracing import TRACE_TOPIC, trace_messages, traces

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


def traced(w: World, group: str = "traced", **settings: Any) -> Producer:
    where = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
    return Producer(group, enable_msg_trace=True, **{**where, **settings})


def dispatcher_of(client: MQClientInstance, topic: str = TRACE_TOPIC) -> TraceDispatcher:
    found = client.tracing[topic]
    assert isinstance(found, TraceDispatcher)
    return found


def of_kind(records: list[TraceRecord], kind: str) -> list[TraceRecord]:
    return [record for record in records if record.kind == kind]


# --- sends ---------------------------------------------------------------------------------------------------


async def test_a_send_leaves_a_record_of_where_and_how_it_went(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w:
        (broker,) = w.cluster.brokers
        began = wall_ms()
        async with traced(w) as producer:
            sent = await producer.send(Message("Orders", b"four", tags="t", keys=["a", "b"]))
            delayed = await producer.send(Message("Orders", b"x", delay_level=1))
            batch = await producer.send_batch([Message("Orders", b"1", keys=["k"]), Message("Orders", b"2")])
            await producer.send_oneway(Message("Orders", b"nobody answers"))
        first, second, third = await traces(w)
        assert began <= (first.timestamp or 0) <= wall_ms()
        assert first == TraceRecord(
            kind="Pub",
            timestamp=first.timestamp,
            region="DefaultRegion",
            group="traced",
            topic="Orders",
            message_id=sent.message_id,
            tags="t",
            keys="a b",
            store_host=broker.address,
            body_length=4,
            cost=first.cost,
            message_type=MessageType.NORMAL,
            offset_message_id=sent.offset_message_id,
            success=True,
        )
        assert (second.message_id, second.message_type) == (delayed.message_id, MessageType.DELAY)
        assert (third.message_id, third.tags, third.keys) == (batch.message_id, None, None)
        (message,) = await trace_messages(w)
        ids = [sent.message_id, delayed.message_id, batch.message_id, *batch.message_id.split(",")]
        assert set(message.keys) == {"a", "b", *ids}
        assert message.system_properties.get("UNIQ_KEY") not in ids


async def test_messages_that_travel_together_by_themselves_are_traced_too(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w:
        async with traced(w, linger=0.01) as producer:
            results = []

            async def send(number: int) -> None:
                results.append(await producer.send(Message("Orders", b"x", keys=[f"k{number}"], tags="t")))

            await send(0)
            async with trio.open_nursery() as nursery:
                for number in range(1, 21):
                    nursery.start_soon(send, number)
        records = await traces(w)
        assert sorted(each for record in records for each in record.message_id.split(",")) == sorted(
            each.message_id for each in results
        )
        alone = next(record for record in records if record.message_id == results[0].message_id)
        assert (alone.keys, alone.tags, alone.body_length) == ("k0", "t", 1)


async def test_very_many_messages_of_a_frame_are_told_of_in_several_records(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w:
        async with traced(w) as producer:
            result = await producer.send_many([Message("Orders", b"x") for _ in range(3000)], batch_size=1000)
        records = await traces(w)
        ids = [each for record in records for each in record.message_id.split(",")]
        assert len(ids) == len(set(ids)) == result.messages == 3000
        messages = await trace_messages(w)
        assert all(len(message.body) <= MOST_BYTES for message in messages)
        assert {key for message in messages for key in message.keys} >= set(ids)


async def test_a_broker_that_wants_no_traces_gets_none(autojump_clock: MockClock) -> None:
    got = Recorder()
    async with world(trace_topic_enable=True, trace_on=False) as w:
        consumer = w.consumer(enable_msg_trace=True)
        consumer.subscribe("Orders", got)
        async with traced(w) as producer, consumer:
            assert not (await producer.send(Message("Orders", b"x"))).trace_on
            await got.wait_count(1)
        assert await traces(w) == []


async def test_another_topic_may_take_them_and_what_it_is_sent_is_not_traced(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Traces")) as w:
        async with traced(w, trace_topic="Traces") as producer:
            await producer.send(Message("Traces", b"by hand"))
            sent = await producer.send(Message("Orders", b"x"))
            await trio.sleep(6)
            assert [record.message_id for record in await traces(w, "Traces")] == [sent.message_id]
    with pytest.raises(ConfigError, match="trace_topic"):
        Producer("g", namesrv="a:1", trace_topic="not allowed")


async def test_records_go_after_five_seconds_or_when_they_fill_a_message(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w, traced(w, trace_msg_batch_num=10) as producer:
        for _ in range(9):
            await producer.send(Message("Orders", b"x"))
        await trio.sleep(4)
        assert await traces(w) == []
        await trio.sleep(2)
        assert len(await traces(w)) == 9
        for _ in range(25):
            await producer.send(Message("Orders", b"x"))
        await trio.sleep(0.5)
        assert [len(message.body) > 0 for message in await trace_messages(w)] == [True] * 3
        assert len(await traces(w)) == 29


# --- what must not get in the way ----------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_topic_that_is_not_there_costs_no_send(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(auto_create_topic_enable=False, topics=()) as w:
        await w.cluster.create_topic("Orders")
        with caplog.at_level(logging.WARNING, "rocketpy.trace"):
            began = trio.current_time()
            async with traced(w, send_timeout=1) as producer:
                for _ in range(MOST_RECORDS + 300):
                    await producer.send(Message("Orders", b"x"))
                took = trio.current_time() - began
                dispatcher = dispatcher_of(producer.client)
                await trio.sleep(20)
                assert dispatcher.lost + dispatcher.discarded == MOST_RECORDS + 300
                await producer.send(Message("Orders", b"x"))
                began = trio.current_time()
            assert trio.current_time() - began < 7
        assert took < 1
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= sum("could not be sent to RMQ_SYS_TRACE_TOPIC" in line for line in lines) <= 2


async def test_threat_L8_records_beyond_the_bound_are_counted_and_seldom_told_of(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(trace_topic_enable=True) as w, traced(w) as producer:
        dispatcher = dispatcher_of(producer.client)
        with caplog.at_level(logging.WARNING, "rocketpy.trace"):
            for number in range(MOST_RECORDS + 10):  # without a checkpoint
                dispatcher.append("Orders", f"x{number}\x02", "k")
        assert dispatcher.discarded == 10
        assert len([record for record in caplog.records if "dropped" in record.getMessage()]) == 1
        await dispatcher.flush()
        body = b"".join(sorted((message.body for message in await trace_messages(w)), key=len))
        assert body.count(b"\x02") == MOST_RECORDS


async def test_a_full_message_of_records_is_sent_in_the_turn_that_fills_it(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w, traced(w, trace_msg_batch_num=3) as producer:
        dispatcher = dispatcher_of(producer.client)
        for number in range(2):
            dispatcher.append("Orders", f"x{number}\x02", "k")
        dispatcher.append_full("Orders", "x2\x02", "k")
        assert not dispatcher.records
        await dispatcher.flush()
        assert [message.body for message in await trace_messages(w)] == [b"x0\x02x1\x02x2\x02"]

        sent = 0
        for number in range(60):  # more than may be under way: the others wait, in order
            add = dispatcher.append if len(dispatcher.records) < dispatcher.before_full else dispatcher.append_full
            add("Orders", f"y{number:02}\x02", "k")
            sent += not dispatcher.records
        assert (sent, len(dispatcher.records)) == (16, 60 - 3 * 16)
        await dispatcher.flush()
        bodies = [message.body for message in await trace_messages(w)]
        assert sorted(b"".join(bodies[1:]).split(b"\x02")[:-1]) == [b"y%02d" % number for number in range(60)]
        assert dispatcher.discarded == dispatcher.lost == 0


async def test_large_records_and_many_keys_make_messages_that_brokers_take(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w, traced(w) as producer:
        dispatcher = dispatcher_of(producer.client)
        for number in range(40):
            text = f"{number}:" + "é" * 10_000 + "\x02"
            keys = [f"id{number}", *(f"{each}" + "k" * 500 for each in range(50))]
            dispatcher.append("Orders", text, " ".join(keys))
        await dispatcher.flush()
        assert dispatcher.lost == 0
        messages = await trace_messages(w)
        assert sum(message.body.count(b"\x02") for message in messages) == 40
        assert all(len(message.body) <= MOST_BYTES for message in messages)
        assert {key for message in messages for key in message.keys} >= {f"id{number}" for number in range(40)}


async def test_roles_of_one_client_share_a_dispatcher_until_the_last_closes(autojump_clock: MockClock) -> None:
    got = Recorder()
    async with world(trace_topic_enable=True, topics=("Orders", "Traces")) as w:
        async with MQClientInstance(namesrv=w.cluster.name_server_addresses, network=w.cluster.network) as client:
            shared = {"client": client, "enable_msg_trace": True}
            consumer = w.consumer(network=None, namesrv=w.cluster.name_server_addresses, **shared)
            consumer.subscribe("Orders", got)
            async with consumer:
                dispatcher = dispatcher_of(client)
                async with Producer("one", **shared) as one, Producer("two", trace_topic="Traces", **shared) as two:
                    assert dispatcher_of(client) is dispatcher is not dispatcher_of(client, "Traces")
                    await one.send(Message("Orders", b"x"))
                    await two.send(Message("Orders", b"x"))
                    await got.wait_count(2)
                assert set(client.tracing) == {TRACE_TOPIC}
                assert [record.group for record in await traces(w, "Traces")] == ["two"]
            assert client.tracing == {}
        assert sorted(record.kind for record in await traces(w)) == ["Pub", *["SubAfter"] * 2, *["SubBefore"] * 2]


async def test_a_shared_client_that_closes_first_sends_what_has_gathered(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w:
        client, end = MQClientInstance(namesrv=w.cluster.name_server_addresses, network=w.cluster.network), trio.Event()

        async def hold(*, task_status: trio.TaskStatus[None]) -> None:
            async with client:
                task_status.started()
                await end.wait()

        async with trio.open_nursery() as nursery:
            await nursery.start(hold)
            async with Producer("one", client=client, enable_msg_trace=True) as producer:
                await producer.send(Message("Orders", b"x"))
                end.set()
                await wait_until(lambda: not client.is_open)
                assert len(await traces(w)) == 1


# --- consumption ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orderly", [False, True])
async def test_each_call_of_a_listener_leaves_a_record_before_and_one_after(
    autojump_clock: MockClock, orderly: bool
) -> None:
    calls: list[bytes] = []

    async def listen(message: MessageExt) -> ConsumeResult | None:
        calls.append(message.body)
        await trio.sleep(0.25)
        if message.body == b"raises" and calls.count(b"raises") == 1:
            raise ValueError("no")
        if message.body == b"again" and calls.count(b"again") == 1:
            return ConsumeResult.RETRY
        return None

    async with world(trace_topic_enable=True) as w:
        consumer = w.consumer(enable_msg_trace=True, orderly=orderly)
        consumer.subscribe("Orders", listen)
        async with consumer:
            ids = {}
            for body in (b"fine", b"raises", b"again"):
                ids[body] = (await w.producer.send(Message("Orders", body, keys=["k"]))).message_id
            await wait_until(lambda: len(calls) == 5)
            await trio.sleep(1)
        records = await traces(w)
    before = {record.request_id: record for record in of_kind(records, "SubBefore")}
    found = {body: [] for body in ids}
    for after in of_kind(records, "SubAfter"):
        first = before.pop(after.request_id)
        assert (first.message_id, first.group, first.keys, first.region) == (
            after.message_id,
            "billing",
            "k",
            "DefaultRegion",
        )
        assert (after.group, after.keys) == ("billing", "k")
        assert 250 <= (after.cost or 0) <= 252
        assert (after.timestamp or 0) - (first.timestamp or 0) == after.cost
        body = next(body for body, each in ids.items() if each == after.message_id)
        found[body].append((first.retry_times, after.success, after.context_code))
    assert before == {}
    assert found == {
        b"fine": [(0, True, ContextCode.SUCCESS)],
        b"raises": [(0, False, ContextCode.EXCEPTION), (1, True, ContextCode.SUCCESS)],
        b"again": [(0, False, ContextCode.FAILED), (1, True, ContextCode.SUCCESS)],
    }


async def test_a_list_of_messages_is_one_call_with_a_record_for_each(autojump_clock: MockClock) -> None:
    got: list[int] = []

    def listen(messages: list[MessageExt]) -> int:
        got.append(len(messages))
        return len(messages)

    async with world(trace_topic_enable=True, queues=1) as w:
        sent = await w.producer.send_batch([Message("Orders", b"%d" % number) for number in range(4)])
        consumer = w.consumer(
            enable_msg_trace=True, consume_message_batch_max_size=4, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
        )
        consumer.subscribe("Orders", listen)
        async with consumer:
            await wait_until(lambda: sum(got) == 4)
        records = await traces(w)
    for kind in ("SubBefore", "SubAfter"):
        assert [record.message_id for record in of_kind(records, kind)] == sent.message_id.split(",")
        assert len({record.request_id for record in of_kind(records, kind)}) == len(got)
    assert all(record.success for record in of_kind(records, "SubAfter"))


async def test_a_listener_that_takes_too_long_is_recorded_so(autojump_clock: MockClock) -> None:
    async def listen(message: MessageExt) -> None:
        await trio.sleep(3)

    async with world(trace_topic_enable=True) as w:
        consumer = w.consumer(enable_msg_trace=True, consume_timeout=2, orderly=True)
        consumer.subscribe("Orders", listen)
        async with consumer:
            await w.producer.send(Message("Orders", b"x"))
            await trio.sleep(5)
        (after,) = of_kind(await traces(w), "SubAfter")
    assert (after.context_code, after.success, after.cost) == (ContextCode.TIME_OUT, True, 3000)


async def test_duplicates_that_no_listener_sees_are_not_traced(autojump_clock: MockClock) -> None:
    got = Recorder()
    async with world(trace_topic_enable=True) as w:
        consumer = w.consumer(enable_msg_trace=True, dedupe="unique_id")
        consumer.subscribe("Orders", got)
        async with consumer:
            twice = Message("Orders", b"x", properties={})
            twice.wire_properties["UNIQ_KEY"] = "C0" * 16
            await w.producer.send(twice)
            await got.wait_count(1)
            await w.producer.send(twice)
            await trio.sleep(2)
            assert consumer.statistics().duplicates == 1
        assert len(of_kind(await traces(w), "SubBefore")) == 1


async def test_what_is_polled_counts_as_consumed_at_once(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w:
        async with w.lite(enable_msg_trace=True, consume_from_where="CONSUME_FROM_FIRST_OFFSET") as consumer:
            consumer.subscribe("Orders")
            await w.send(3)
            got = []
            while len(got) < 3:
                got += await consumer.poll()
        records = await traces(w)
    for kind in ("SubBefore", "SubAfter"):
        assert sorted(each.message_id for each in of_kind(records, kind)) == sorted(each.message_id for each in got)
    assert {(each.success, each.context_code) for each in of_kind(records, "SubAfter")} == {(True, ContextCode.SUCCESS)}


# --- transactions, and taking back ---------------------------------------------------------------------------


async def test_the_end_of_a_transaction_is_recorded_also_when_the_broker_had_to_ask(autojump_clock: MockClock) -> None:
    states = iter([COMMIT, ROLLBACK, UNKNOWN])
    checked: list[str | None] = []

    async def execute(message: Message, arg: Any) -> LocalTransactionState:
        return next(states)

    async def check(message: MessageExt) -> LocalTransactionState:
        checked.append(message.transaction_id)
        return COMMIT

    async with world(trace_topic_enable=True) as w:
        (broker,) = w.cluster.brokers
        where = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with TransactionProducer(
            "pay", checker=check, executor=execute, enable_msg_trace=True, **where
        ) as producer:
            results = [
                await producer.send_in_transaction(Message("Orders", b"x", keys=["k"], tags="t")) for _ in range(3)
            ]
            await wait_until(lambda: len(checked) == 1)
            await trio.sleep(1)
        records = await traces(w)
    assert [each.message_type for each in of_kind(records, "Pub")] == [MessageType.TRANSACTION_HALF] * 3
    ends = of_kind(records, "EndTransaction")
    ids = [each.message_id for each in results]
    assert [(each.message_id, each.transaction_state, each.from_check) for each in ends] == [
        (ids[0], COMMIT, False),
        (ids[1], ROLLBACK, False),
        (ids[2], UNKNOWN, False),
        (ids[2], COMMIT, True),
    ]
    for each in ends:
        assert (each.group, each.topic, each.keys, each.tags, each.transaction_id, each.store_host) == (
            "pay",
            "Orders",
            "k",
            "t",
            each.message_id,
            broker.address,
        )


async def test_taking_a_message_back_is_recorded_also_when_it_is_refused(autojump_clock: MockClock) -> None:
    async with world(trace_topic_enable=True) as w:
        async with traced(w) as producer:
            sent = await producer.send(Message("Orders", b"x", delay=10))
            assert sent.recall_handle is not None
            await producer.recall("Orders", sent.recall_handle)
            with pytest.raises((ConfigError, RocketMQError)):
                await producer.recall("Orders", "nonsense")
            await trio.sleep(12)
            with pytest.raises(IllegalOperationError):
                await producer.recall("Orders", sent.recall_handle)
        (taken, *_) = of_kind(await traces(w), "Recall")
    assert (taken.message_id, taken.topic, taken.group, taken.success) == (sent.message_id, "Orders", "traced", True)
