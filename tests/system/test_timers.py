"""Messages with a moment of their own, from a producer to a listener, and taken back; in virtual time."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import (
    BrokerUnreachableError,
    ConfigError,
    IllegalOperationError,
    MessageIllegalError,
    NoPermissionError,
    SendError,
    TopicNotExistError,
)
from rocketpy.message import Message
from rocketpy.producer import Producer
from rocketpy.results import ConsumeResult
from rocketpy.seams import wall_clock, wall_ms
from rocketpy.wire.recall_handle import RecallHandle
from tests.system.consuming import Recorder, world


@pytest.mark.parametrize(
    "delay",
    [{"delay_level": 1}, {"delay": 1}, {"delay": 1.0}, {"delay": timedelta(seconds=1)}, "deliver_at", "datetime"],
    ids=str,
)
async def test_DL3_a_second_is_between_10_and_12_tenths(autojump_clock: MockClock, delay: Any) -> None:
    async with world() as w:
        got, sent = Recorder(), []
        consumer = w.consumer()
        consumer.subscribe("Orders", got)
        async with consumer:
            for number in range(20):
                await trio.sleep(0.137)
                sent.append(trio.current_time())
                meant = delay
                if delay == "deliver_at":
                    meant = {"deliver_at": wall_ms() + 1000}
                elif delay == "datetime":
                    meant = {"deliver_at": datetime.fromtimestamp(wall_ms() / 1000 + 1, UTC)}
                await w.producer.send(Message("Orders", b"%d" % number, **meant))
            await got.wait_count(20)
    took = {int(m.body): at - sent[int(m.body)] for m, at in zip(got.messages, got.times, strict=True)}
    assert sorted(took) == list(range(20))
    assert all(0.999 <= seconds <= 1.2 for seconds in took.values()), took


async def test_DL5_a_message_is_recalled_by_any_producer_and_the_others_arrive(autojump_clock: MockClock) -> None:
    async with world(2) as w:
        got = Recorder()
        consumer = w.consumer()
        consumer.subscribe("Orders", got)
        async with consumer, Producer("others", **_where(w)) as other:
            results = [await w.producer.send(Message("Orders", b"%d" % n, delay=30)) for n in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker-a", "broker-b"}
            for number in (0, 3, 6):
                result = results[number]
                assert result.recall_handle is not None
                assert await other.recall("Orders", result.recall_handle) == result.message_id
            await got.wait_count(5)
            await trio.sleep(30)
    assert sorted(got.bodies) == [b"1", b"2", b"4", b"5", b"7"]


async def test_DL5_only_messages_for_the_timer_have_a_handle(autojump_clock: MockClock) -> None:
    async with world() as w:
        for message in (
            Message("Orders", b"x"),
            Message("Orders", b"x", delay_level=1),
            Message("Orders", b"x", delay=0),
        ):
            assert (await w.producer.send(message)).recall_handle is None
        assert (await w.producer.send_batch([Message("Orders", b"x")] * 2)).recall_handle is None
        assert (await w.producer.send(Message("Orders", b"x", delay=5))).recall_handle is not None


@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        (None, "the recall handle is None: give the `recall_handle`"),
        ("", "give the `recall_handle`"),
        (7, "the recall handle is 7"),
        ("x", "not a handle to recall a message by"),
        ("ü", "not a handle"),
        (RecallHandle("Other", "broker-a", "1", "U").encode(), "belongs to a message of 'Other', not of Orders"),
        (urlsafe_b64encode(b"v1 Orders broker-a").decode(), "it has 2 parts, not 4"),
        (urlsafe_b64encode(b"v2 Orders broker-a 1 U").decode(), "its version is 'v2', not 'v1'"),
        (RecallHandle("Orders", "broker-a", "1", "AC11000100002A9F" * 2).encode()[:-4], "it is cut off or damaged"),
    ],
)
async def test_DL5_a_handle_that_is_none_or_of_another_topic_is_refused_here(
    autojump_clock: MockClock, handle: Any, reason: str
) -> None:
    async with world() as w:
        with pytest.raises(ConfigError, match=reason):
            await w.producer.recall("Orders", handle)


@pytest.mark.parametrize("topic", ["", "Or ders", "%RETRY%g", "%DLQ%g"])
async def test_DL5_a_topic_of_which_nothing_can_be_recalled(autojump_clock: MockClock, topic: str) -> None:
    async with world() as w:
        with pytest.raises(ConfigError):
            await w.producer.recall(topic, RecallHandle(topic, "broker-a", "1", "U").encode())


async def test_DL5_what_a_broker_refuses_has_a_type(autojump_clock: MockClock) -> None:
    def handle(**changes: str) -> str:
        due = str(wall_ms() + 60_000)
        return RecallHandle("Orders", "broker-a", due, "AC11000100002A9F" * 2)._replace(**changes).encode()

    async with world() as w:
        broker = w.cluster.brokers[0]
        with pytest.raises(IllegalOperationError, match="is already due"):
            await w.producer.recall("Orders", handle(timestamp=str(wall_ms())))
        with pytest.raises(BrokerUnreachableError, match="broker-z"):
            await w.producer.recall("Orders", handle(broker_name="broker-z"))
        broker.config.recall_message_enable = False
        with pytest.raises(NoPermissionError, match="recallMessageEnable=false"):
            await w.producer.recall("Orders", handle())
        broker.config.recall_message_enable = True
        broker.topics.delete("Orders")
        with pytest.raises(TopicNotExistError):
            await w.producer.recall("Orders", handle())


async def test_DL3_a_broker_without_a_timer_says_so(autojump_clock: MockClock) -> None:
    async with world(timer_wheel_enable=False) as w:
        with pytest.raises(SendError, match="timerWheelEnable=false"):
            await w.producer.send(Message("Orders", b"x", delay=5))
        assert (await w.producer.send(Message("Orders", b"x", delay_level=1))).recall_handle is None


async def test_DL3_what_is_too_far_is_refused_with_the_limit(autojump_clock: MockClock) -> None:
    async with world() as w:
        with pytest.raises(MessageIllegalError, match="259200000 ms from now"):
            await w.producer.send(Message("Orders", b"x", delay=timedelta(days=3, seconds=1)))
        await w.producer.send(Message("Orders", b"x", delay=timedelta(days=2, hours=23)))


@pytest.mark.slow
async def test_DL3_a_delivered_message_that_fails_is_tried_again_as_any_other(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder(lambda message: ConsumeResult.RETRY if message.reconsume_times < 2 else None)
        consumer = w.consumer()
        consumer.subscribe("Orders", got, tags="a")
        async with consumer:
            await w.producer.send(Message("Orders", b"other", tags="b", delay=60))
            await w.producer.send(Message("Orders", b"x", tags="a", delay=60))
            start = trio.current_time()
            await got.wait_count(3, within=200)
            await trio.sleep(300)
    assert [message.body for message in got.messages] == [b"x"] * 3
    assert [at - start for at in got.times] == pytest.approx([60, 70, 100], abs=1)


@pytest.mark.slow
async def test_DL3_messages_outlive_a_broker_that_is_stopped_and_one_that_is_killed(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer()
        consumer.subscribe("Orders", got)
        async with consumer:
            for number in range(30):
                await w.producer.send(Message("Orders", b"%d" % number, delay=20 + number))
            await trio.sleep(25)
            await w.cluster.restart_broker(0)
            await trio.sleep(5)
            await w.cluster.kill_broker(0)
            await w.cluster.start_broker(0)
            await got.wait_count(30, within=100)
            await trio.sleep(60)
    assert set(got.bodies) == {b"%d" % number for number in range(30)}
    again = {body: count for body, count in got.bodies.items() if count > 1}
    assert len(again) <= 3, "only what was due about the time of the kill"


_NO_TIMER: list[dict[str, Any]] = [{}, {"delay_level": 1}, {"delay": 0}]


def _where(w: Any) -> dict[str, Any]:
    return {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}


# --- a clock that is set -----------------------------------------------------------------------------------


async def test_DL5_a_recall_finds_its_message_after_the_clock_was_set_back_and_the_broker_was_restarted(
    autojump_clock: MockClock,
) -> None:
    """The message waits in a slot that is twelve seconds after its time, where an earlier run of the broker put it."""
    set_back = 0

    async with world() as w:
        start = wall_ms()
        # It holds for the whole process: clusters of other tests ask it too, in threads of their own.
        with wall_clock(lambda: start - set_back + round(autojump_clock.current_time() * 1000)):
            await w.producer.send(Message("Orders", b"first", delay=1))
            await trio.sleep(3)
            set_back = 12_000
            sent = trio.current_time()
            recalled, _ = [await w.producer.send(Message("Orders", body, delay=10)) for body in (b"a", b"b")]
            await trio.sleep(2)
            await w.cluster.restart_broker(0)
            assert recalled.recall_handle is not None
            assert await w.producer.recall("Orders", recalled.recall_handle) == recalled.message_id
            await w.cluster.wait_messages("Orders", 2)
            assert 10.0 <= trio.current_time() - sent <= 11.1
            await trio.sleep(30)
            assert [message.body for message in w.cluster.messages("Orders")] == [b"first", b"b"]
