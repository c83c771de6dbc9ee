"""Half messages with a time of delivery: it applies once they are committed. And queues that are gone by then."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import ResponseCode
from tests.broker_sim.broker.timer.timer_kit import Timed, handle, timed
from tests.broker_sim.broker.transacting import COMMIT, end, half_properties, send_half


async def test_a_time_of_delivery_is_kept_when_the_commit_comes_before_it(autojump_clock: MockClock) -> None:
    async with timed() as made:
        began = trio.current_time()
        half = await send_half(made.client, TIMER_DELIVER_MS=str(wall_ms() + 10_000))
        await trio.sleep(3)
        assert (await end(made.client, half, COMMIT)).code == 0
        await trio.sleep(20)
        assert [round(at - began, 2) for at in made.arrived["T"]] == [10.0]


async def test_a_message_whose_time_has_passed_is_delivered_by_the_commit(autojump_clock: MockClock) -> None:
    async with timed() as made:
        half = await send_half(made.client, TIMER_DELIVER_MS=str(wall_ms() + 2_000))
        await trio.sleep(4)
        assert "T" not in made.arrived
        assert (await end(made.client, half, COMMIT)).code == 0
        assert made.bodies() == [b"x"]


async def test_a_timer_begins_with_the_commit(autojump_clock: MockClock) -> None:
    async with timed() as made:
        half = await send_half(made.client, TIMER_DELAY_MS="2000")
        await trio.sleep(5)
        committed = trio.current_time()
        assert (await end(made.client, half, COMMIT)).code == 0
        await trio.sleep(5)
        assert [round(at - committed, 2) for at in made.arrived["T"]] == [2.0]


async def test_a_delay_level_takes_precedence_over_a_timer_here_too(autojump_clock: MockClock) -> None:
    async with timed() as made:
        half = await send_half(made.client, TIMER_DELAY_MS="20000", DELAY="2")
        committed = trio.current_time()
        assert (await end(made.client, half, COMMIT)).code == 0
        await trio.sleep(30)
        assert [round(at - committed, 2) for at in made.arrived["T"]] == [5.0]


async def test_a_committed_message_is_recalled_before_its_time(autojump_clock: MockClock) -> None:
    async with timed() as made:
        due = wall_ms() + 10_000
        halves = [await send_half(made.client, unique, TIMER_DELIVER_MS=str(due)) for unique in ("U1", "U2")]
        for half in halves:
            assert (await end(made.client, half, COMMIT)).code == 0
        assert (await made.recall(handle(due=str(due), unique="U1"))).code == 0
        await trio.sleep(20)
        assert [message.message_id for message in made.messages()] == ["U2"]


@pytest.mark.parametrize(
    ("settings", "properties", "code"),
    [
        ({}, {"TIMER_DELAY_SEC": "259201"}, ResponseCode.MESSAGE_ILLEGAL),
        ({}, {"TIMER_DELIVER_MS": "tomorrow"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"timer_wheel_enable": False}, {"TIMER_DELAY_SEC": "1"}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_half_message_is_refused_if_it_could_not_be_committed(
    autojump_clock: MockClock, settings: dict[str, object], properties: dict[str, str], code: int
) -> None:
    async with timed(**settings) as made:
        answer = await made.client.send("T", b"x", half_properties(**properties))
        assert answer.code == code, answer.remark
        assert made.messages("RMQ_SYS_TRANS_HALF_TOPIC") == []


# --- topics that have fewer queues by now ------------------------------------------------------------------


def shrink(made: Timed) -> None:
    """T has two queues from here on; it had more."""
    assert made.broker.tables.topics.queues_read("T") > 2
    made.broker.tables.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))


async def test_a_commit_goes_to_a_queue_that_is_still_read(autojump_clock: MockClock) -> None:
    async with timed() as made:
        half = await send_half(made.client, queue_id=3)
        shrink(made)
        assert (await end(made.client, half, COMMIT)).code == 0
        assert [len(made.messages("T", queue)) for queue in range(4)] == [0, 1, 0, 0]


async def test_the_timer_delivers_to_a_queue_that_is_still_read(autojump_clock: MockClock) -> None:
    async with timed() as made:
        properties = f"UNIQ_KEY\x01U1\x02TIMER_DELIVER_MS\x01{wall_ms() + 2_000}\x02"
        assert (await made.client.send("T", b"x", properties, queue_id=3)).code == 0
        shrink(made)
        await trio.sleep(5)
        assert [len(made.messages("T", queue)) for queue in range(4)] == [0, 1, 0, 0]
