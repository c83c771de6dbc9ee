"""What a lite pull consumer asks of brokers, what becomes of their answers, and what it holds."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.consumer.lite import handed_out
from rocketpy.consumer.lite.handed_out import HandedOut
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.errors import RequestCodeNotSupportedError, ServiceCrashedError
from rocketpy.message import MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.offset import GetMinOffsetResponseHeader
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.sysflag import PullSysFlag
from tests.consumer.brokers import World, queue, world
from tests.consumer.helpers import QUEUE, stored_range
from tests.system.consuming import wait_until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def subscribed(w: World, **settings: object) -> LitePullConsumer:
    consumer = w.lite(consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders")
    return consumer


async def take(consumer: LitePullConsumer, count: int) -> list[int]:
    """The offsets of the next messages."""
    got: list[int] = []
    with trio.fail_after(60):
        while len(got) < count:
            got += [message.queue_offset for message in await consumer.poll(count - len(got))]
    return got


# --- what is asked ------------------------------------------------------------------------------------------


async def test_a_lite_pull_says_that_it_is_one(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.offsets["Orders", 0] = 7
        w.broker.logs["Orders", 0].max_offset = 7
        consumer = w.lite()
        consumer.subscribe("Orders", tags="paid || open")
        async with consumer:
            await trio.sleep(1)
            [pull] = w.broker.pulls
            codes = {each.code for each in w.broker.requests}
            assert RequestCode.LITE_PULL_MESSAGE in codes
            assert RequestCode.PULL_MESSAGE not in codes
            assert pull.sys_flag == PullSysFlag.build(suspend=True, subscription=True, lite_pull=True) == 0b10110
            assert (pull.commit_offset, pull.max_msg_nums, pull.suspend_timeout_millis) == (0, 10, 20_000)
            assert (pull.queue_offset, pull.subscription, pull.expression_type) == (7, "paid || open", "TAG")
            [data] = w.broker.heartbeats[-1].consumer_data_set
            assert (data.group_name, data.consume_type.value) == ("billing", "CONSUME_ACTIVELY")
            assert [each.topic for each in data.subscription_data_set] == ["Orders"]


async def test_a_broker_that_does_not_know_lite_pulls_is_asked_as_older_clients_do(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        w.broker.on(RequestCode.LITE_PULL_MESSAGE, lambda _, request: request.answer(3, "not supported"))
        for number in (0, 1):
            w.broker.store(30, queue_id=number)
        async with subscribed(w) as consumer:
            assert len(await take(consumer, 60)) == 60
            codes = [each.code for each in w.broker.requests]
            assert 1 <= codes.count(RequestCode.LITE_PULL_MESSAGE) <= 2  # the broker is asked so once, not each time
            assert w.broker.pulls[-1].sys_flag & PullSysFlag.LITE_PULL


async def test_a_server_that_knows_no_pulls_is_told_of(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.script = [ResponseCode.REQUEST_CODE_NOT_SUPPORTED] * 3
        async with subscribed(w) as consumer:
            w.broker.store(3)
            with pytest.raises(
                RequestCodeNotSupportedError, match=r"a lite pull of Orders@broker-a:0 .* is that a broker"
            ):
                await consumer.poll(timeout=60)
            await trio.sleep(10)  # it was replaced by a broker
            assert await take(consumer, 3) == [0, 1, 2]


# --- what answers mean --------------------------------------------------------------------------------------


async def test_PL9_an_illegal_offset_is_followed(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(30)
        async with subscribed(w, pull_threshold_for_queue=5) as consumer:
            assert await take(consumer, 3) == [0, 1, 2]

            def moved(request: RemotingCommand, _: PullMessageRequestHeader) -> RemotingCommand:
                return w.broker.answer_pull(request, ResponseCode.PULL_OFFSET_MOVED, 20)

            w.broker.script = [moved]
            # What is held when the broker moves the group is not handed out any more.
            await take(consumer, 5)
            await trio.sleep(1)
            assert await take(consumer, 10) == list(range(20, 30))
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 30


@pytest.mark.slow
@pytest.mark.parametrize("offset", [-5, 0, 3])
@pytest.mark.parametrize(
    "code", [ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND, ResponseCode.SUCCESS]
)
async def test_threat_M15_a_next_offset_that_makes_no_sense_neither_spins_nor_goes_back(
    autojump_clock: MockClock, code: int, offset: int
) -> None:
    async with world() as w:
        w.broker.store(10)
        async with subscribed(w) as consumer:
            assert await take(consumer, 10) == list(range(10))
            await consumer.commit()

            def senseless(request: RemotingCommand, _: PullMessageRequestHeader) -> RemotingCommand:
                w.broker.logs["Orders", 0].min_offset = 99  # beyond the highest
                return w.broker.answer_pull(request, code, offset)

            w.broker.script = [senseless] * 10_000
            w.broker.answer_parked(ResponseCode.PULL_NOT_FOUND, offset)
            pulls = len(w.broker.pulls)
            assert await consumer.poll(timeout=10) == []
            assert len(w.broker.pulls) - pulls <= 10 / 0.02 + 5
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 10
            assert set(w.broker.pulled()[-5:]) == {10}


async def test_threat_M15_messages_with_a_next_offset_of_their_own_are_handed_out_once(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        w.broker.store(10)

        def equal(request: RemotingCommand, header: PullMessageRequestHeader) -> RemotingCommand:
            body = b"".join(w.broker.logs["Orders", 0].records[each] for each in range(5))
            return w.broker.answer_pull(request, ResponseCode.SUCCESS, header.queue_offset, body)

        w.broker.script = [equal, equal, equal]
        async with subscribed(w) as consumer:
            assert await take(consumer, 10) == list(range(10))


# --- what is held -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"pull_threshold_for_queue": 20}, "messages held, over 20"),
        ({"consume_max_span": 20}, "over a span of"),
        ({"pull_threshold_for_all": 20}, "messages held of all queues, over 20"),
    ],
)
async def test_pulling_waits_while_too_much_is_held_and_goes_on_at_once(
    autojump_clock: MockClock, settings: dict[str, int], says: str
) -> None:
    async with world() as w:
        w.broker.store(100)
        async with subscribed(w, **settings) as consumer:
            await trio.sleep(200)
            status = consumer.status().queues[queue()]
            assert 20 < status.held_messages <= 40
            assert says in str(status.paused)
            pulls, now = len(w.broker.pulls), trio.current_time()
            assert len(await take(consumer, 25)) == 25
            await trio.testing.wait_all_tasks_blocked()
            assert len(w.broker.pulls) > pulls
            assert w.broker.pull_times[-1] - now < 0.1
            assert await take(consumer, 75) == list(range(25, 100))


async def test_what_all_queues_hold_together_is_bounded(autojump_clock: MockClock) -> None:
    async with world(queues=4) as w:
        for number in range(4):
            w.broker.store(200, queue_id=number)
        async with subscribed(w, pull_threshold_for_all=100) as consumer:
            await trio.sleep(10)
            held = [each.held_messages for each in consumer.status().queues.values()]
            assert 100 < sum(held) <= 100 + 4 * 10
            assert len(await take(consumer, 800)) == 800


async def test_what_a_seek_has_dropped_makes_room_for_other_queues(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        w.broker.store(300, queue_id=0)
        async with subscribed(w, pull_threshold_for_all=100) as consumer:
            await trio.sleep(1)
            w.broker.store(300, queue_id=1)
            await trio.sleep(30)
            before = consumer.status().queues
            assert before[queue(0)].held_messages > 80
            await consumer.seek_to_end(queue(0))
            await trio.sleep(1)
            assert consumer.status().queues[queue(0)].held_messages == 0
            assert consumer.status().queues[queue(1)].held_messages > 90
            assert len(await take(consumer, 300)) == 300


async def test_PL9_seek_forgets_what_is_held_and_late_answers(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(50)
        async with subscribed(w) as consumer:
            assert await take(consumer, 1) == [0]
            await trio.sleep(1)  # the rest is held, and a pull from 50 on is parked at the broker
            [(connection, late)] = w.broker.parked
            await consumer.seek(queue(), 10)
            w.broker.parked.clear()
            body = w.broker.logs["Orders", 0].records[49]
            connection.send_answer(late, w.broker.answer_pull(late, ResponseCode.SUCCESS, 51, body))
            assert await take(consumer, 40) == list(range(10, 50))
            assert consumer.position(queue()) == 50


async def test_PL9_an_answer_that_comes_together_with_a_seek_is_late(autojump_clock: MockClock) -> None:
    """Both tasks are woken in one turn of the loop, in either order."""
    async with world() as w:
        w.broker.store(5)
        async with subscribed(w) as consumer:
            assert await take(consumer, 5) == list(range(5))

            def answer_both(connection: Connection, request: RemotingCommand) -> RemotingCommand:
                w.broker.store(2)
                return request.answer(0, None, GetMinOffsetResponseHeader(offset=0).to_ext())

            w.broker.on(RequestCode.GET_MIN_OFFSET, answer_both)
            for count in range(7, 47, 2):
                await trio.sleep(1)
                await consumer.seek_to_begin(queue())
                assert await take(consumer, count) == list(range(count))


async def test_a_seek_counts_while_it_is_not_known_whether_the_topic_is_there(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(10)
        w.broker.offsets["Orders", 0] = 3
        async with subscribed(w, auto_commit=False) as consumer:
            assert await take(consumer, 7) == list(range(3, 10))
            await trio.sleep(1)
            w.broker.answer_parked(ResponseCode.TOPIC_NOT_EXIST, 0)
            await trio.sleep(0.5)
            await consumer.seek_to_end(queue())
            w.broker.store(2)
            assert await take(consumer, 2) == [10, 11]


async def test_a_seek_goes_first_when_a_pull_waits_out_an_error(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(5)
        w.broker.script = [ResponseCode.SYSTEM_ERROR]
        async with subscribed(w, pull_time_delay_when_exception=500) as consumer:
            await trio.sleep(1)
            started = trio.current_time()
            await consumer.seek(queue(), 2)
            assert await take(consumer, 3) == [2, 3, 4]
            assert trio.current_time() - started < 1


async def test_messages_that_reached_nobody_are_handed_out_next(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(30)
        async with subscribed(w, auto_commit=False) as consumer:
            await trio.sleep(1)
            lent = await consumer.outside.polling.lend(10, 1)
            seen = lent[0].messages[:4]
            consumer.outside.polling.give_back([part._replace(messages=part.messages[4:]) for part in lent])
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == len(seen) == consumer.position(queue())
            consumer.ack(seen[0])
            assert await take(consumer, 26) == list(range(4, 30))
            await consumer.commit()
            assert w.broker.offsets["Orders", 0] == 4  # from here on only what is acknowledged counts


# --- how much is held of all queues -----------------------------------------------------------------------


async def test_queues_that_were_given_up_make_room_for_the_others(autojump_clock: MockClock) -> None:
    async with world(queues=4) as w:
        for number in range(4):
            w.broker.store(200, queue_id=number)
        consumer = w.lite(consume_from_where=FIRST, pull_threshold_for_all=100)
        consumer.assign([queue(number) for number in range(4)])
        async with consumer:
            await trio.sleep(10)
            consumer.assign([queue(0)])
            await wait_until(lambda: consumer.assignment == (queue(0),))
            assert await take(consumer, 200) == list(range(200))


async def test_paused_queues_leave_room_for_the_others(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        w.broker.store(300)
        async with subscribed(w, pull_threshold_for_all=100) as consumer:
            await trio.sleep(10)
            w.broker.store(50, queue_id=1)
            await trio.sleep(10)
            consumer.pause([queue(0)])
            assert await take(consumer, 50) == list(range(50))
            consumer.resume([queue(0)])
            assert await take(consumer, 300) == list(range(300))


# --- ends ---------------------------------------------------------------------------------------------------


async def test_complaint_24_it_commits_then_leaves_and_nothing_follows(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(30)
        async with subscribed(w) as consumer:
            await take(consumer, 10)
            await take(consumer, 10)
            await trio.testing.wait_all_tasks_blocked()
            asked, pulls = len(w.broker.requests), len(w.broker.pulls)
        codes = [each.code for each in w.broker.requests[asked:] if each.code != RequestCode.HEART_BEAT]
        assert codes == [RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNREGISTER_CLIENT]
        assert not any(each.is_oneway for each in w.broker.requests[asked:])
        assert w.broker.offsets["Orders", 0] == 10
        assert len(w.broker.pulls) == pulls
        assert not consumer.client.is_open


async def test_without_automatic_commits_closing_commits_nothing(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(30)
        w.broker.offsets["Orders", 0] = 3
        async with subscribed(w, auto_commit=False) as consumer:
            await take(consumer, 10)
            await take(consumer, 10)
            await trio.sleep(30)
        assert w.broker.commits == []
        assert w.broker.offsets["Orders", 0] == 3


async def test_who_is_cancelled_as_a_whole_commits_all_the_same(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(30)
        with trio.move_on_after(5) as scope:
            async with subscribed(w, auto_commit_interval=3000) as consumer:
                await take(consumer, 10)
                await consumer.poll()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert w.broker.offsets["Orders", 0] == 10
        assert [each.consumer_group for each in w.broker.left] == ["billing"]


async def test_a_broker_that_hangs_holds_closing_up_for_close_timeout_only(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        w.broker.store(30)
        async with subscribed(w, close_timeout=2) as consumer:
            await take(consumer, 10)
            await consumer.poll()
            w.broker.hangs = True
            started = trio.current_time()
        assert trio.current_time() - started <= 4.1
        assert "the offsets of 1 queue are not committed" in caplog.text


async def test_a_bug_in_the_background_is_told_to_who_polls(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = subscribed(w)

        def bug(*_: object) -> None:
            raise ZeroDivisionError

        async def use() -> None:
            async with consumer:
                assert consumer._running is not None
                consumer._running.cache.submit = bug  # type: ignore[method-assign]
                w.broker.store(1)
                await consumer.poll(timeout=60)

        with pytest.raises(ServiceCrashedError):
            await use()
        with pytest.raises(ServiceCrashedError, match="has crashed"):
            await consumer.poll()
        assert isinstance(consumer.status().crash, ServiceCrashedError)


# --- what was handed out ------------------------------------------------------------------------------------


def out_of(count: int) -> tuple[HandedOut, list[MessageExt]]:
    held = ProcessQueue(QUEUE, 0)
    held.put(stored_range(0, count))
    book = HandedOut(held)
    messages = held.hand_out(count)
    book.add(messages)
    return book, messages


def test_what_is_acknowledged_out_of_order_waits_for_the_lowest() -> None:
    book, _ = out_of(5)
    assert book.acknowledged == 0
    assert [book.acknowledge(offset) for offset in (4, 1, 1, 99, 0)] == [True, True, False, False, True]
    assert (book.acknowledged, book.lowest_open, book.span, len(book)) == (2, 2, 2, 2)
    assert book.acknowledge(2)
    assert book.acknowledge(3)
    assert (book.acknowledged, book.lowest_open, book.span) == (5, None, 0)


def test_what_was_given_back_and_handed_out_again_is_open_again() -> None:
    book, messages = out_of(5)
    book.give_back(messages[3:])
    book.queue.give_back(messages[3:])
    assert book.confirm() == 3
    again = book.queue.hand_out(9)
    assert [message.queue_offset for message in again] == [3, 4]
    book.add(again)
    assert book.acknowledge(4)
    assert book.acknowledged == 3


def test_what_a_filter_keeps_away_stays_committed_when_the_next_message_is_handed_out() -> None:
    book, _ = out_of(4)
    assert book.confirm() == 4
    book.queue.advance(6)  # two messages of other tags
    assert book.queue.next_offset == 6
    book.queue.put(stored_range(6, 8))
    book.add(book.queue.hand_out(1))
    assert (book.is_open, book.confirmed) == (True, 6)
    book.add(book.queue.hand_out(1))
    assert book.confirmed == 6


def test_of_who_never_commits_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_out, "MOST_REMEMBERED", 3)
    book, _ = out_of(5)
    book.forget_oldest()
    assert (len(book), book.lowest_open) == (3, 2)


def test_handing_out_part_of_what_is_held_makes_room() -> None:
    held = ProcessQueue(QUEUE, 0)
    held.put(stored_range(0, 10))
    size = held.size
    assert [message.queue_offset for message in held.hand_out(4)] == [0, 1, 2, 3]
    assert (len(held), held.size, held.next_offset, held.look_next()) == (6, size * 6 // 10, 4, 4)
    rest = held.hand_out(100)
    assert (len(held), held.size, held.next_offset, held.look_next()) == (0, 0, 10, 10)
    held.give_back(rest)
    assert (len(held), held.next_offset) == (6, 4)
