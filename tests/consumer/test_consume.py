"""From pulled messages to listeners, and from what comes of them to offsets; in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater
from rocketpy.wire.codes import ResponseCode
from tests.client.fakes import route_to
from tests.consumer.brokers import queue, world
from tests.consumer.helpers import role_of

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
RETRY = "%RETRY%billing"


async def test_plain_and_async_listeners_side_by_side(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        w.broker.store(70)
        w.broker.store(50, topic="Bills")
        plain: list[int] = []
        waited: list[int] = []

        async def listener(message: MessageExt) -> None:
            await trio.sleep(1)
            waited.append(message.queue_offset)

        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=5)
        consumer.subscribe("Orders", lambda message: plain.append(message.queue_offset))
        consumer.subscribe("Bills", listener)
        async with consumer:
            await trio.sleep(9.5)
            assert sorted(plain) == list(range(70))
            # Five at a time, a second each.
            assert len(waited) == 45
            await trio.sleep(6)
            assert sorted(waited) == list(range(50))
            assert (w.broker.offsets["Orders", 0], w.broker.offsets["Bills", 0]) == (70, 50)
            assert consumer.statistics().consumed == 120


async def test_progress_is_told_as_it_is_made(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(20)
        hold = trio.Event()

        async def listener(message: MessageExt) -> None:
            if message.queue_offset == 12:
                await hold.wait()

        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(6)
            assert w.broker.offsets["Orders", 0] == 12
            assert consumer.status().queues[queue()].held_messages == 1
            hold.set()
            await trio.sleep(6)
            assert w.broker.offsets["Orders", 0] == 20


@pytest.mark.parametrize(("answer", "level"), [(1, 0), (RetryLater(7, done=1), 7), (RetryLater(-1, done=1), -1)])
async def test_batches(autojump_clock: MockClock, answer: object, level: int) -> None:
    async with world() as w:
        w.broker.store(10)
        batches: list[list[int]] = []

        def listener(messages: list[MessageExt]) -> object:
            batches.append([message.queue_offset for message in messages])
            return answer if 5 in batches[-1] else None

        consumer = w.consumer(consume_from_where=FIRST, consume_message_batch_max_size=4)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(6)
            assert sorted(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
            assert sorted(each.offset for each in w.broker.sent_back) == [10_005, 10_006, 10_007]
            assert {each.delay_level for each in w.broker.sent_back} == {level}
            assert w.broker.offsets["Orders", 0] == 10


# --- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (ConsumeResult.RETRY, 0),
        (RetryLater(7), 7),
        (RetryLater(-1), -1),
        (ValueError("no"), 0),
        (SystemExit(3), 0),
        (GeneratorExit(), 0),
        (BaseExceptionGroup("", [ValueError("no"), GeneratorExit()]), 0),
        ("junk", 0),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_RT1_what_failed_is_given_back_to_its_broker(
    autojump_clock: MockClock, answer: object, level: int, kind: str
) -> None:
    async with world() as w:
        w.broker.store(3)

        def plain(message: MessageExt) -> object:
            if message.queue_offset != 1:
                return None
            if isinstance(answer, BaseException):
                raise answer
            return answer

        async def waiting(message: MessageExt) -> object:
            await trio.sleep(0.1)
            return plain(message)

        consumer = w.consumer(consume_from_where=FIRST, max_reconsume_times=3)
        consumer.subscribe("Orders", plain if kind == "plain" else waiting)
        async with consumer:
            await trio.sleep(6)
            [back] = w.broker.sent_back
            assert (back.offset, back.group, back.delay_level) == (10_001, "billing", level)
            assert (back.origin_msg_id, back.origin_topic, back.max_reconsume_times) == ("U000001", "Orders", 3)
            assert back.bname == "broker-a"
            assert w.broker.offsets["Orders", 0] == 3
            counts = consumer.statistics()
            assert (counts.consumed, counts.failed, counts.sent_back, counts.sent_as_new) == (2, 1, 1, 0)


async def test_RT1_sixteen_times_is_the_default(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(1)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(1)
            assert [back.max_reconsume_times for back in w.broker.sent_back] == [16]


async def test_RT1_the_retry_topic_shows_the_original_one(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        properties = {"RETRY_TOPIC": "Bills", "ORIGIN_MESSAGE_ID": "ORIGIN"}
        w.broker.store(1, topic=RETRY, properties=properties, reconsume_times=2)
        got: list[tuple[str, int]] = []
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: got.append(("orders", 0)))

        def bills(message: MessageExt) -> ConsumeResult:
            got.append((message.topic, message.reconsume_times))
            return ConsumeResult.RETRY

        consumer.subscribe("Bills", bills)
        async with consumer:
            await trio.sleep(1)
            assert got == [("Bills", 2)]
            assert [back.origin_topic for back in w.broker.sent_back] == ["Bills"]


async def test_RT1_what_its_broker_refuses_goes_to_the_retry_topic_as_a_new_message(autojump_clock: MockClock) -> None:
    async with world() as w:
        properties = {"TAGS": "paid", "KEYS": "k1", "colour": "red", "TRAN_MSG": "true"}
        w.broker.store(1, properties=properties, reconsume_times=2, body=b"payload")
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(6)
            [sent], [fields] = w.broker.sent, w.broker.sent_properties()
            assert (sent.topic, sent.producer_group) == (RETRY, "CLIENT_INNER_PRODUCER")
            assert (sent.reconsume_times, sent.max_reconsume_times) == (3, 16)
            assert fields == {
                "UNIQ_KEY": "U000000",
                "TAGS": "paid",
                "KEYS": "k1",
                "colour": "red",
                "ORIGIN_MESSAGE_ID": "U000000",
                "RETRY_TOPIC": "Orders",
                "DELAY": "5",
            }
            assert w.broker.offsets["Orders", 0] == 1
            assert consumer.statistics().sent_as_new == 1


async def test_RT1_a_retry_topic_that_name_servers_do_not_know_yet_has_one_queue(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(12)
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        del w.name_server.routes[RETRY]
        w.set_route("TBW102", queues=8)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(3)
            assert [sent.queue_id for sent in w.broker.sent] == [0] * 12


@pytest.mark.parametrize("attempts", [0, 2, 40])
async def test_RT1_a_dead_letter_that_its_broker_refuses_has_used_up_its_attempts(
    autojump_clock: MockClock, attempts: int
) -> None:
    async with world() as w:
        w.broker.store(1, reconsume_times=attempts, properties={"DELAY": "4", "TIMER_DELAY_MS": "9000"})
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: RetryLater(-1))
        async with consumer:
            await trio.sleep(6)
            [sent], [fields] = w.broker.sent, w.broker.sent_properties()
            assert (sent.topic, sent.max_reconsume_times) == (RETRY, 16)
            # Older brokers make a dead letter of what has reached the maximum, newer ones of what is over it.
            assert sent.reconsume_times == max(16, attempts) + 1
            assert fields == {"UNIQ_KEY": "U000000", "ORIGIN_MESSAGE_ID": "U000000", "RETRY_TOPIC": "Orders"}
            assert w.broker.offsets["Orders", 0] == 1


async def test_RT1_without_a_master_there_is_nobody_to_ask_first(autojump_clock: MockClock) -> None:
    async with world("broker-a", "broker-b") as w:
        a, b = w.brokers
        slave_only = route_to(a, b, read=1, write=1)
        slave_only.broker_datas[0].broker_addrs = {1: a.address}
        w.set_route("Orders", slave_only)
        w.set_route(RETRY, route_to(b, read=1, write=1))
        a.store(1)
        a.offsets["Orders", 0] = 0
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(6)
            assert a.sent_back == []
            assert [sent.topic for sent in b.sent] == [RETRY]
            assert a.offsets["Orders", 0] == 1


async def test_RT1_the_first_message_id_stays_known(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(1, topic=RETRY, properties={"RETRY_TOPIC": "Orders", "ORIGIN_MESSAGE_ID": "FIRST"})
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(1)
            [fields] = w.broker.sent_properties()
            assert (fields["ORIGIN_MESSAGE_ID"], fields["RETRY_TOPIC"]) == ("FIRST", "Orders")


async def test_RT1_what_no_broker_takes_is_tried_again_here(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(2)
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        w.broker.send_code = ResponseCode.MESSAGE_ILLEGAL
        attempts: list[tuple[float, int]] = []

        def listener(message: MessageExt) -> ConsumeResult | None:
            if message.queue_offset == 1:
                return None
            attempts.append((trio.current_time() - started, message.reconsume_times))
            return ConsumeResult.RETRY if len(attempts) < 4 else None

        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            started = trio.current_time()
            await trio.sleep(12)
            assert [(round(at), times) for at, times in attempts] == [(0, 0), (5, 1), (10, 2)]
            assert w.broker.offsets["Orders", 0] == 0
            await trio.sleep(10)
            assert [(round(at), times) for at, times in attempts][3:] == [(15, 3)]
            assert w.broker.offsets["Orders", 0] == 2
            assert consumer.statistics().retried_here == 3


async def test_giving_back_does_not_storm_a_broker(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(500)
        w.broker.send_back_code = "silence"
        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=8, await_termination=0)
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(4)
            assert len(w.broker.sent_back) == 8


# --- too long ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3])
async def test_threat_L7_a_listener_that_hangs_loses_its_message_and_nothing_else(
    autojump_clock: MockClock, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=2) as w:
        w.broker.store(30, queue_id=0)
        w.broker.store(30, queue_id=1)
        done: list[tuple[int, int]] = []
        hold = trio.Event()

        async def listener(message: MessageExt) -> None:
            if (message.queue_id, message.queue_offset) == (0, 4):
                await hold.wait()
                raise ValueError("nobody wants to know any more")
            done.append((message.queue_id, message.queue_offset))

        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=limit)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(890)
            if limit > 1:
                assert len(done) == 59
                assert (w.broker.offsets["Orders", 0], w.broker.offsets["Orders", 1]) == (4, 30)
            assert w.broker.sent_back == []
            await trio.sleep(20)
            # The listener is left alone, and another may run in its place.
            [back] = w.broker.sent_back
            assert (back.offset, back.delay_level) == (10_004, 3)
            assert len(done) == 59
            assert (w.broker.offsets["Orders", 0], w.broker.offsets["Orders", 1]) == (30, 30)
            assert "has not returned from <MessageExt U000004 of Orders@broker-a:0+4> for 900 seconds" in caplog.text
            hold.set()
            await trio.sleep(910)
            assert len(w.broker.sent_back) == 1
            counts = consumer.statistics()
            assert (counts.timed_out, counts.failed, counts.sent_back, counts.consumed) == (1, 1, 1, 59)


async def test_threat_L7_listeners_of_one_topic_that_hang_do_not_starve_another(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        w.broker.store(50)
        got: list[int] = []
        hung = 0

        async def hanging(message: MessageExt) -> None:
            nonlocal hung
            hung += 1
            await trio.sleep_forever()

        async def listener(message: MessageExt) -> None:
            await trio.sleep(0.01)
            got.append(message.queue_offset)

        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=5, await_termination=0)
        consumer.subscribe("Orders", hanging)
        consumer.subscribe("Bills", listener)
        async with consumer:
            await trio.sleep(5)
            assert hung == 4
            w.broker.store(50, topic="Bills")
            await trio.sleep(5)
            assert sorted(got) == list(range(50))
            # A topic that is alone has all of them.
            consumer.unsubscribe("Bills")
            await trio.sleep(1)
            assert hung == 5


@pytest.mark.parametrize("offset", [0.1, 0.7, 1 / 3, 2.345])
async def test_threat_L7_a_time_limit_ends_whatever_its_last_digits(autojump_clock: MockClock, offset: float) -> None:
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST, consume_timeout=2.1, await_termination=0)

        async def listener(message: MessageExt) -> None:
            await trio.sleep_forever()

        consumer.subscribe("Orders", listener)
        async with consumer:
            for number in range(5):
                await trio.sleep(offset)
                w.broker.store(1)
                await trio.sleep(2.2)
                assert consumer.statistics().timed_out == number + 1


@pytest.mark.slow
async def test_threat_L7_listeners_that_all_hang_are_bounded(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(100)
        running = 0

        async def listener(message: MessageExt) -> None:
            nonlocal running
            running += 1
            await trio.sleep_forever()

        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=4, consume_timeout=60, await_termination=0)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(30)
            assert running == 4
            await trio.sleep(660)
            assert running == 8
            assert len(w.broker.sent_back) == 8
            consumer.set_consume_thread_max(10)
            await trio.sleep(660)
            assert running == 20
            consumer.set_consume_thread_max(1)
            await trio.sleep(660)
            assert running == 20


async def test_threat_L7_a_message_that_times_out_and_cannot_be_given_back_stays(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(1)
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        w.broker.send_code = ResponseCode.MESSAGE_ILLEGAL
        calls = 0

        async def listener(message: MessageExt) -> None:
            nonlocal calls
            calls += 1
            await trio.sleep_forever()

        consumer = w.consumer(consume_from_where=FIRST, consume_timeout=60, await_termination=0)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(72)
            assert len(w.broker.sent_back) == 3
            assert w.broker.offsets["Orders", 0] == 0
            w.broker.send_back_code = 0
            await trio.sleep(10)
            # It was never called a second time while the first call was under way.
            assert (calls, len(w.broker.sent_back), w.broker.offsets["Orders", 0]) == (1, 4, 1)


async def test_a_broker_that_counts_us_no_more_hears_of_us_at_once_and_takes_no_queue_from_us(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(1)
            w.broker.heartbeats.clear()
            role_of(consumer).rebalance_now()
            await trio.sleep(0.5)
            assert [beat.client_id for beat in w.broker.heartbeats] == [consumer.client.client_id]
            assert consumer.assignment == (queue(0),)


async def test_what_a_listener_says_of_a_queue_that_was_lost_counts_no_more(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        w.broker.store(3, queue_id=0)
        w.broker.store(3, queue_id=1)
        hold = trio.Event()

        async def listener(message: MessageExt) -> None:
            await hold.wait()
            raise ValueError("it is somebody else's message by now")

        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(1)
            w.broker.members = [consumer.client.client_id, "~ somebody who comes later in the order"]
            role_of(consumer).rebalance_now()
            await trio.sleep(1)
            assert consumer.assignment == (queue(0),)
            hold.set()
            await trio.sleep(6)
            assert sorted(back.offset for back in w.broker.sent_back) == [10_000, 10_001, 10_002]
            assert (w.broker.offsets["Orders", 0], w.broker.offsets["Orders", 1]) == (3, 0)
