"""Pulling: what is asked, what becomes of answers, when it waits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.process_queue import FlowLimits
from rocketpy.consumer.pulling.pull_policy import PushPolicy
from rocketpy.errors import BrokerError, MessageDecodeError
from rocketpy.message import Message, MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.sysflag import COMPRESSED, INNER_BATCH, NEED_UNWRAP, PullSysFlag
from tests.consumer.brokers import PullBroker, queue, world
from tests.consumer.helpers import record

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Gate:
    """An async listener that holds what it gets until it is opened."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.done: list[int] = []
        self.opened = trio.Event()

    async def __call__(self, message: MessageExt) -> None:
        self.got.append(message.queue_offset)
        await self.opened.wait()
        self.done.append(message.queue_offset)


def answer(broker: PullBroker, code: int, next_offset: int, body: bytes = b"") -> Callable[..., RemotingCommand]:
    return lambda request, _: broker.answer_pull(request, code, next_offset, body)


def offsets_of(listener: list[MessageExt]) -> list[int]:
    return sorted(message.queue_offset for message in listener)


# --- what is asked ---------------------------------------------------------------------------------------


async def test_a_pull_says_what_brokers_have_to_know(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST, pull_batch_size=17)
        consumer.subscribe("Orders", lambda message: None, tags="a || b")
        async with consumer:
            await trio.testing.wait_all_tasks_blocked()
            pull = next(each for each in w.broker.pulls if each.topic == "Orders")
            assert (pull.consumer_group, pull.queue_id, pull.queue_offset, pull.max_msg_nums) == ("billing", 0, 0, 17)
            assert pull.sys_flag == PullSysFlag.SUSPEND
            assert (pull.suspend_timeout_millis, pull.max_msg_bytes) == (15_000, 262_144)
            assert (pull.subscription, pull.expression_type, pull.bname) == (None, "TAG", "broker-a")
            beat = w.broker.heartbeats[-1].consumer_data_set[0]
            assert pull.sub_version == {each.topic: each.sub_version for each in beat.subscription_data_set}["Orders"]


async def test_a_pull_carries_the_subscription_when_asked_to(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST, post_subscription_when_pull=True)
        consumer.subscribe("Orders", lambda message: None, tags="a || b")
        async with consumer:
            await trio.testing.wait_all_tasks_blocked()
            pull = next(each for each in w.broker.pulls if each.topic == "Orders")
            assert pull.sys_flag == PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION
            assert pull.subscription == "a || b"


async def test_a_pull_goes_to_the_broker_that_the_last_answer_suggested(autojump_clock: MockClock) -> None:
    async with world("broker-a", "broker-b") as w:
        master, slave = w.brokers
        addresses = BrokerData(broker_name="broker-a", broker_addrs={0: master.address, 1: slave.address})
        queues = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
        w.set_route("Orders", TopicRouteData(broker_datas=[addresses], queue_datas=[queues]))
        w.set_route("%RETRY%billing", TopicRouteData(broker_datas=[addresses], queue_datas=[queues]))
        master.store(5)
        master.script = [lambda request, _: master.answer_pull(request, 0, 3, b"".join(map(record, range(3))), 1)]
        slave.logs["Orders", 0].max_offset = 5
        slave.logs["Orders", 0].records = dict(master.logs["Orders", 0].records)
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(1)
            assert offsets_of(got) == [0, 1, 2, 3, 4]
            assert master.pulled() == [0, 5]
            assert slave.pulled() == [3]
            # A slave keeps no offsets of groups: nothing is committed with its pulls.
            assert next(each for each in slave.pulls if each.topic == "Orders").sys_flag == PullSysFlag.SUSPEND


async def test_messages_say_between_which_offsets_their_queue_lies(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(2, properties={"TAGS": "a", "MAX_OFFSET": "forged"})
        w.broker.logs["Orders", 0].max_offset = 70
        got: list[MessageExt] = []
        for tags in (None, "a"):
            consumer = w.consumer(consume_from_where=FIRST)
            consumer.subscribe("Orders", got.append, tags=tags)
            w.broker.offsets.clear()
            async with consumer:
                await trio.sleep(0.1)
        assert [each.system_properties["MIN_OFFSET"] for each in got] == ["0"] * 4
        assert [each.system_properties["MAX_OFFSET"] for each in got] == ["70"] * 4
        assert {each.system_properties["TAGS"] for each in got} == {"a"}


# --- flow control ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pull_threshold_for_queue": 1000}, "messages held, over 1000"),
        ({"pull_threshold_for_topic": 500}, "messages held, over 500"),
        ({"consume_concurrently_max_span": 700}, "over a span of"),
    ],
)
async def test_PC2_pulling_waits_while_too_much_is_held_and_goes_on_at_once(
    autojump_clock: MockClock, settings: dict[str, int], reason: str
) -> None:
    async with world() as w:
        w.broker.store(3000)
        gate = Gate()
        consumer = w.consumer(consume_from_where=FIRST, **settings)
        consumer.subscribe("Orders", gate)
        async with consumer:
            await trio.sleep(20)
            status = consumer.status().queues[queue()]
            limit = next(iter(settings.values()))
            assert reason in str(status.paused)
            assert limit < status.held_messages <= limit + 32
            pulls = len(w.broker.pulls)
            await trio.sleep(300)
            assert len([each for each in w.broker.pulls[pulls:] if each.topic == "Orders"]) == 0
            gate.opened.set()
            await trio.sleep(0.001)
            assert len(w.broker.pulled()) > pulls
            await trio.sleep(1)
            assert sorted(gate.done) == list(range(3000))
            assert consumer.status().queues[queue()].paused is None


async def test_PC2_pulling_does_not_wait_for_what_has_ended_and_no_thread_has_told(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(20)
        gate = Gate()
        gate.opened.set()
        consumer = w.consumer(
            consume_from_where=FIRST,
            pull_threshold_for_queue=1,
            pull_batch_size=1,
            persist_consumer_offset_interval=600,
        )
        consumer.subscribe("Orders", gate)
        async with consumer:
            consumer._running.consume._finished.told = True  # so that nobody tells the service anything
            await trio.sleep(1)
            assert gate.done == list(range(20))


async def test_PC2_pulling_waits_while_too_many_bytes_are_held(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(100, body=b"x" * 100_000)
        gate = Gate()
        consumer = w.consumer(consume_from_where=FIRST, pull_threshold_size_for_queue=1, pull_batch_size=4)
        consumer.subscribe("Orders", gate)
        async with consumer:
            await trio.sleep(20)
            status = consumer.status().queues[queue()]
            assert "MiB held, over 1" in str(status.paused)
            assert 1_048_576 < status.held_bytes < 1_048_576 + 4 * 101_000
            gate.opened.set()
            await trio.sleep(1)
            assert len(gate.done) == 100


@pytest.mark.slow
async def test_PC2_one_queue_that_is_full_does_not_stop_the_others(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        w.broker.store(2000, queue_id=0)
        w.broker.store(50, queue_id=1)
        done: list[int] = []

        async def listener(message: MessageExt) -> None:
            if message.queue_id == 0:
                await trio.sleep(100)
            done.append(message.queue_id)

        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(4000)
            assert done.count(1) == 50
            assert "held" in str(consumer.status().queues[queue(0)].paused)


def test_PC6_thresholds_of_a_topic_are_shared_out() -> None:
    def limits(queues: int, **settings: int) -> FlowLimits:
        config = PushConsumerConfig(group="billing", namesrv="127.0.0.1:9876", **settings)
        return PushPolicy(config, offsets=None).limits(queues)  # type: ignore[arg-type]

    bounds = {"pull_threshold_for_topic": 1000, "pull_threshold_size_for_topic": 10}
    assert [limits(each, **bounds)[:2] for each in (4, 2000)] == [(250, 2 * 1024 * 1024), (1, 1024 * 1024)]
    assert limits(4) == FlowLimits()


# --- what answers mean -------------------------------------------------------------------------------------


async def test_PC4_no_match_moves_the_offset(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.script = [answer(w.broker, ResponseCode.PULL_RETRY_IMMEDIATELY, 800)]
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None, tags="rare")
        async with consumer:
            await trio.sleep(6)
            assert w.broker.pulled() == [0, 800]
            assert consumer.status().queues[queue()].commit_offset == 800
            assert w.broker.offsets["Orders", 0] == 800


async def test_PC4_messages_that_only_share_the_hash_of_a_tag_move_the_offset(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(5, properties={"TAGS": "BB"})
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append, tags="Aa")
        async with consumer:
            await trio.sleep(6)
            assert got == []
            assert consumer.statistics().filtered == 5
            assert w.broker.offsets["Orders", 0] == 5
            w.broker.store(1, properties={"TAGS": "Aa"})
            w.broker.store(1)
            await trio.sleep(1)
            assert offsets_of(got) == [5]


async def test_PC4_nothing_moves_past_a_message_that_is_held(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(3)
        gate = Gate()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", gate)
        async with consumer:
            await trio.sleep(0.1)
            w.broker.logs["Orders", 0].max_offset = 90
            w.broker.answer_parked(ResponseCode.PULL_NOT_FOUND, 90)
            await trio.sleep(6)
            assert (w.broker.offsets["Orders", 0], consumer.status().queues[queue()].next_offset) == (0, 90)
            gate.opened.set()
            await trio.sleep(6)
            assert w.broker.offsets["Orders", 0] == 90


async def test_threat_M15_an_offset_never_goes_backwards_by_a_plain_answer(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(10)
        w.broker.script = [
            answer(w.broker, 0, 3, b"".join(map(record, range(5)))),
            answer(w.broker, ResponseCode.PULL_NOT_FOUND, -1),
            answer(w.broker, ResponseCode.PULL_NOT_FOUND, 2),
            answer(w.broker, ResponseCode.PULL_OFFSET_MOVED, -7),
        ]
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(10)
            assert w.broker.pulled() == [0, 5, 5, 5, 5, 10]
            assert offsets_of(got) == list(range(10))


@pytest.mark.parametrize(
    "code", [ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED]
)
async def test_threat_M15_answers_that_bring_nothing_do_not_make_a_busy_loop(
    autojump_clock: MockClock, code: ResponseCode
) -> None:
    async with world() as w:
        w.broker.script = [answer(w.broker, code, 0)] * 200
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(0.001)
            started = trio.current_time()
            assert len(w.broker.pulled()) == 4
            await trio.sleep(1)
            seconds = trio.current_time() - started
            assert 4 + seconds / 0.02 - 2 <= len(w.broker.pulled()) <= 4 + seconds / 0.02 + 1
            assert len(w.broker.script) >= 140, "each of them was answered as told"


# --- what goes wrong -----------------------------------------------------------------------------------------


async def test_errors_are_waited_out(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(3)
        w.broker.script = [ResponseCode.SYSTEM_ERROR, ResponseCode.FLOW_CONTROL, ResponseCode.SUBSCRIPTION_NOT_EXIST]
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            beats = len(w.broker.heartbeats)
            await trio.sleep(1)
            error = consumer.status().queues[queue()].error
            assert isinstance(error, BrokerError)
            assert error.code == ResponseCode.SYSTEM_ERROR
            await trio.sleep(9)
            times = w.broker.times()
            gaps = [round(b - a, 3) for a, b in pairwise(times)]
            assert gaps == [3, 0.02, 3, 0]
            # A broker that does not know our subscription gets a heartbeat.
            assert len(w.broker.heartbeats) > beats
            assert offsets_of(got) == [0, 1, 2]
            assert consumer.status().queues[queue()].error is None


async def test_a_broker_that_goes_away_during_a_pull_is_waited_for(autojump_clock: MockClock) -> None:
    async with world() as w:
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(1)
            for link in w.network.links():
                link.cut()
            await trio.sleep(1)
            assert consumer.status().queues[queue()].error is not None
            w.broker.parked.clear()
            w.broker.store(3)
            await trio.sleep(30)
            assert offsets_of(got) == [0, 1, 2]
            assert consumer.status().queues[queue()].error is None


async def test_a_pull_that_is_never_answered_times_out(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(34)
            times = w.broker.times()
            assert times[1] - times[0] == pytest.approx(33, abs=0.5)


def damaged(offset: int) -> bytes:
    data = bytearray(record(offset))
    data[100] ^= 0xFF
    return bytes(data)


async def test_threat_M3_a_damaged_message_is_pulled_once_more(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(5)
        w.broker.script = [answer(w.broker, 0, 5, record(0) + record(1) + damaged(2) + record(3) + record(4))]
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(0.01)
            assert w.broker.pulled() == [0, 2, 5]
            assert offsets_of(got) == [0, 1, 2, 3, 4]
            assert consumer.statistics().undecodable == 1
            assert consumer.status().queues[queue()].error is None


async def test_threat_M1_M3_the_offset_never_moves_past_a_damaged_message(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        w.broker.store(5)
        w.broker.logs["Orders", 0].records[2] = damaged(2)
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(0.01)
            assert w.broker.pulled() == [0, 2]
            await trio.sleep(20)
            assert offsets_of(got) == [0, 1]
            assert set(w.broker.pulled()[1:]) == {2}
            assert len(w.broker.pulled()) <= 10
            status = consumer.status().queues[queue()]
            assert isinstance(status.error, MessageDecodeError)
            assert (status.commit_offset, w.broker.offsets["Orders", 0]) == (2, 2)
            assert [each.levelname for each in caplog.records if "is stuck" in each.message] == ["ERROR"]
            w.broker.logs["Orders", 0].records[2] = record(2)
            await trio.sleep(5)
            assert offsets_of(got) == [0, 1, 2, 3, 4]
            assert consumer.status().queues[queue()].error is None


async def test_threat_M4_a_body_that_cannot_be_unpacked_is_that_message_s_problem(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(1)
        w.broker.store(1, body=b"no zlib", sys_flag=COMPRESSED)
        w.broker.store(1)
        bodies: list[bytes] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: bodies.append(message.body))
        async with consumer:
            await trio.sleep(6)
            assert len(bodies) == 2
            assert [each.offset for each in w.broker.sent_back] == [10_001]
            assert w.broker.offsets["Orders", 0] == 3


async def test_batches_that_a_broker_keeps_whole_are_taken_apart(autojump_clock: MockClock) -> None:
    async with world() as w:
        whole = encode_batch([Message("Orders", b"%d" % number) for number in range(10, 15)])
        w.broker.logs["Orders", 0].max_offset = 16
        w.broker.offsets["Orders", 0] = 12
        records = record(10, body=whole, sys_flag=INNER_BATCH | NEED_UNWRAP) + record(15, body=b"15")
        w.broker.script = [answer(w.broker, 0, 16, records)]
        got: list[MessageExt] = []
        consumer = w.consumer()
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(6)
            # The batch begins before the offset that was asked for.
            assert [(each.queue_offset, each.body) for each in got] == [(n, b"%d" % n) for n in range(12, 16)]
            assert w.broker.offsets["Orders", 0] == 16


async def test_threat_F17_a_client_refuses_what_only_servers_do(autojump_clock: MockClock) -> None:
    async with world() as w:
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.testing.wait_all_tasks_blocked()
            connection: Connection = w.broker.clients[0]
            for code in (RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.UPDATE_BROKER_CONFIG, 9999):
                reply = await connection.request(RemotingCommand(int(code)), timeout=1)
                assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            w.broker.store(1)
            await trio.sleep(1)
            assert offsets_of(got) == [0]


async def test_the_pull_interval_is_kept(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(96)
        consumer = w.consumer(consume_from_where=FIRST, pull_interval=2.0)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(10)
            times = w.broker.times()
            assert [round(b - a, 3) for a, b in pairwise(times)] == [2, 2, 2]


async def test_a_queue_whose_pulling_has_stopped_is_taken_anew(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(1)
            assert consumer._running is not None
            for puller in consumer._running.assignment:
                if puller.queue == queue():
                    puller.stop()
            w.broker.parked.clear()
            w.broker.store(2)
            await trio.sleep(150)
            assert offsets_of(got) == [0, 1]
            assert "has not been pulled for 120 seconds" in caplog.text
