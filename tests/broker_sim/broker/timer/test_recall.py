"""Recalling messages that are not due yet, and recalls that are refused."""

from __future__ import annotations

import errno

import pytest
import trio
from trio.testing import MockClock

from rocketpy.wire.bodies.timer import TimerCheckpoint, TimerMetrics
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy.wire.recall_handle import RecallHandle
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.timer.units import UNIT_SIZE
from tests.broker_sim.broker.timer.timer_kit import EPOCH, handle, timed, wall
from tests.virtual_time import loop_time


async def test_DL5_a_recalled_message_is_not_delivered_and_others_are(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        handles = [await setup.send_at(EPOCH + 9500, unique=f"U{number}") for number in range(5)]
        answer = await setup.recall(handles[2])
        assert (answer.code, answer.ext_fields["msgId"]) == (0, "U2")
        await trio.sleep(15)
        assert [message.wire_properties["UNIQ_KEY"] for message in setup.messages()] == ["U0", "U1", "U3", "U4"]
        assert setup.broker.timers.metrics.count("T") == 0


async def test_DL5_a_recall_counts_though_the_disk_keeps_it_out_of_its_queue(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        given = await setup.send_at(EPOCH + 9500)
        await setup.send_at(EPOCH + 9500, unique="other")
        await trio.sleep(5)
        with storage.failing("pwrite", code=errno.EMFILE, under="consumequeue"):
            assert (await setup.recall(given)).code == 0
            await trio.sleep(15)
        await trio.sleep(30)
        assert [message.wire_properties["UNIQ_KEY"] for message in setup.messages()] == ["other"]


async def test_a_stop_amid_a_second_keeps_the_count_of_what_waits(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        given = await setup.send_at(EPOCH + 9100)
        for number in range(3):
            await setup.send_at(EPOCH + 9200 + 300 * number, unique=f"other {number}")
        assert (await setup.recall(given)).code == 0
        await trio.sleep(9.4 - trio.current_time())
    async with timed(storage) as setup:
        await trio.sleep(5)
        assert len(setup.messages()) == 3
        assert setup.broker.timers.metrics.count("T") == 0


async def test_DL5_what_recalls_is_stored_as_apaches_broker_does(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        found = RecallHandle.decode(await setup.send_at(EPOCH + 9500))
        assert found == RecallHandle("T", "broker-a", str(EPOCH + 9001), "U1")
        await setup.recall(found.encode())
        message = setup.messages(TIMER_TOPIC)[1]
        assert message.body == b"0"
        assert {name: value for name, value in message.wire_properties.items() if name != "BORN_TIMESTAMP"} == {
            "PGROUP": "p", "REAL_QID": "0", "REAL_TOPIC": "T", "TAGS": "_RECALL_TAG_",
            "TIMER_DELIVER_MS": str(EPOCH + 9001), "TIMER_DEL_UNIQKEY": "T+U1", "TIMER_OUT_MS": str(EPOCH + 9000),
            "UNIQ_KEY": "U1",
        }  # fmt: skip


@pytest.mark.parametrize("left", [10, 400, 1400, 5000])
async def test_DL5_up_to_the_beginning_of_its_second_a_message_is_recalled(
    autojump_clock: MockClock, left: int
) -> None:
    async with timed() as setup:
        given = await setup.send_at(EPOCH + 9999)
        await trio.sleep(9 - left / 1000 - trio.current_time())
        assert (await setup.recall(given)).code == 0
        await trio.sleep(15)
        assert setup.bodies() == []


async def test_DL5_a_message_that_is_due_is_recalled_no_more(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        given = await setup.send_at(EPOCH + 9999)
        await trio.sleep(9.5)
        assert (await setup.recall(given)).code == ResponseCode.ILLEGAL_OPERATION
        await trio.sleep(1)
        assert setup.bodies() == [b"x"]


async def test_DL5_beyond_the_window_a_recall_finds_its_message(autojump_clock: MockClock) -> None:
    async with timed(timer_roll_window_slot=6) as setup:
        given = await setup.send_at(EPOCH + 40_500)
        other = await setup.send_at(EPOCH + 40_500, unique="U2")
        await trio.sleep(7)
        assert (await setup.recall(given)).code == 0
        await trio.sleep(20)
        assert (await setup.recall(other)).code == 0
        await trio.sleep(40)
        assert setup.bodies() == []
        assert setup.broker.timers.metrics.count("T") == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", [3_600_000, -3_600_000, -500])
async def test_DL5_a_recall_finds_its_message_after_a_step_of_the_clock(autojump_clock: MockClock, step: int) -> None:
    from rocketpy.seams import wall_clock

    behind = 0
    even = loop_time(EPOCH)
    with wall_clock(lambda: even() + behind):
        async with timed() as setup:
            before = await setup.send_at(wall() + 7_201_500, unique="before")
            await trio.sleep(5)
            behind = step
            after = await setup.send_at(wall() + 30_500, unique="after")
            await trio.sleep(5)
            assert (await setup.recall(before)).code == 0
            assert (await setup.recall(after)).code == 0
            await trio.sleep(20_000)
            assert setup.bodies() == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"broker": "broker-b"}, ResponseCode.ILLEGAL_OPERATION),
        ({"topic": "Other"}, ResponseCode.ILLEGAL_OPERATION),
        ({"due": "soon"}, ResponseCode.ILLEGAL_OPERATION),
        ({"due": "1" * 30}, ResponseCode.ILLEGAL_OPERATION),
        ({"due": str(EPOCH - 1)}, ResponseCode.ILLEGAL_OPERATION),
        ({"due": str(EPOCH + 300_000_000)}, ResponseCode.ILLEGAL_OPERATION),
        ({}, 0),
    ],
)
async def test_DL5_handles_that_do_not_fit_are_refused(
    autojump_clock: MockClock, given: dict[str, str], code: int
) -> None:
    async with timed() as setup:
        await setup.send()
        assert (await setup.recall(handle(**given))).code == code


@pytest.mark.parametrize("text", ["", "x", "%%%", "dG8=", "djEgVA==", "a" * 5000])
async def test_DL5_what_is_no_handle_is_refused(autojump_clock: MockClock, text: str) -> None:
    async with timed() as setup:
        await setup.send()
        assert (await setup.recall(text)).code == ResponseCode.ILLEGAL_OPERATION


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"recall_message_enable": False}, ResponseCode.NO_PERMISSION),
        ({"broker_permission": 4, "allow_recall_when_broker_not_writeable": False}, ResponseCode.SERVICE_NOT_AVAILABLE),
        ({"broker_permission": 4}, 0),
        ({"timer_wheel_enable": False}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_DL5_settings_that_forbid_it(autojump_clock: MockClock, settings: dict[str, object], code: int) -> None:
    async with timed(**settings) as setup:
        await setup.send()
        assert (await setup.recall(handle())).code == code


async def test_DL5_a_topic_that_is_not_there(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        assert (await setup.recall(handle("No"), "No")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_DL5_a_message_can_be_recalled_by_another_message(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        await setup.send_at(EPOCH + 9500)
        answer = await setup.send(unique="R", TIMER_DELIVER_MS=str(EPOCH + 9500), TIMER_DEL_UNIQKEY="T+U1")
        assert answer.code == 0
        await trio.sleep(15)
        assert setup.bodies() == []


@pytest.mark.parametrize(
    ("key", "enabled", "code"),
    [("Other+U1", True, ResponseCode.ILLEGAL_OPERATION), ("T+U1", False, ResponseCode.NO_PERMISSION)],
)
async def test_threat_M6_a_client_recalls_nothing_that_it_may_not(
    autojump_clock: MockClock, key: str, enabled: bool, code: int
) -> None:
    async with timed(recall_message_enable=enabled) as setup:
        answer = await setup.send(TIMER_DELIVER_MS=str(EPOCH + 9500), TIMER_DEL_UNIQKEY=key)
        assert answer.code == code


async def test_threat_M6_nobody_sends_to_the_timers_topic(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        answer = await setup.send(TIMER_TOPIC, TIMER_OUT_MS=str(EPOCH + 1000), REAL_TOPIC="T", REAL_QID="0")
        assert answer.code == ResponseCode.NO_PERMISSION


async def test_a_timer_message_says_nothing_of_its_time_that_a_client_made_up(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        await setup.send(TIMER_DELAY_SEC="2", TIMER_OUT_MS="5", TIMER_ROLL_TIMES="9", REAL_TOPIC="Other")
        await trio.sleep(5)
        (message,) = setup.messages()
        assert message.wire_properties["TIMER_OUT_MS"] == str(EPOCH + 1000)
        assert "TIMER_ROLL_TIMES" not in message.wire_properties


async def test_how_far_the_timer_is_can_be_asked_for(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        await setup.send_at(EPOCH + 60_500)
        await trio.sleep(5)
        check = TimerCheckpoint.decode((await setup.client.ask(RequestCode.GET_TIMER_CHECK_POINT)).body)
        assert (check.last_timer_queue_offset, check.last_timer_log_flush_pos) == (1, 52)
        metrics = TimerMetrics.decode((await setup.client.ask(RequestCode.GET_TIMER_METRICS)).body)
        assert metrics.timing_count["T"].count == 1
    async with timed(timer_wheel_enable=False) as setup:
        for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS):
            assert (await setup.client.ask(code)).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_DL5_a_recall_outlives_the_broker(autojump_clock: MockClock, end: str) -> None:
    storage = MemoryStorage()
    async with timed(storage) as setup:
        given = await setup.send_at(EPOCH + 60_500)
        await setup.send_at(EPOCH + 60_500, unique="U2")
        await trio.sleep(5)
        assert (await setup.recall(given)).code == 0
        left = storage.clone()
    async with timed(storage if end == "stop" else left) as setup:
        await trio.sleep(70)
        assert [message.wire_properties["UNIQ_KEY"] for message in setup.messages()] == ["U2"]


@pytest.mark.parametrize("fails", [False, True])
async def test_recalls_that_are_taken_late_are_put_once_and_forgotten(autojump_clock: MockClock, fails: bool) -> None:
    storage, failed = MemoryStorage(), list[str]()

    def fail_once(operation: str, path: str, size: int) -> None:
        if (operation, path.partition("/")[0], failed) == ("pwrite", "timerlog", []):
            failed.append(path)
            raise OSError(errno.ENOSPC, "No space left on device")

    async with timed(storage, timer_stop_enqueue=True) as setup:
        await setup.send(unique="first")
        for number in range(300):
            assert (await setup.recall(handle(due=str(EPOCH + 2500), unique=f"U{number}"))).code == 0
        for number in (*range(10), *range(300, 322)):
            await setup.send_at(EPOCH + 2900, unique=f"U{number}")
        await trio.sleep(5)
        timers, enqueue = setup.broker.timers.timers, setup.broker.timers.service.enqueue
        storage.fault = fail_once if fails else None
        update = b"timerStopEnqueue=false\n"
        assert (await setup.client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=update)).code == 0
        await trio.sleep(5)
        given = [message.wire_properties["UNIQ_KEY"] for message in setup.messages()]
        assert sorted(given) == [*(f"U{number}" for number in range(300, 322)), "first"]
        assert (enqueue.behind, len(failed)) == (0, fails)
        assert timers.log.end <= 700 * UNIT_SIZE
        assert (enqueue._late, enqueue._vain) == ({}, {})
