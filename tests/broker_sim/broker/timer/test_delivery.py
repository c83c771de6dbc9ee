"""Messages with a time of delivery, in virtual time: each is delivered at its time, and once."""

from __future__ import annotations

import itertools

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, encode_properties
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.timer.timer_kit import EPOCH, timed, wall
from tests.virtual_time import loop_time


@pytest.mark.parametrize("begin", [0.0, 0.25, 0.999])
@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("TIMER_DELAY_SEC", 1, 1.0),
        ("TIMER_DELAY_MS", 1000, 1.0),
        ("TIMER_DELAY_MS", 1, 0.001),
        ("TIMER_DELAY_MS", 1999, 1.999),
        ("TIMER_DELAY_SEC", 7, 7.0),
        ("TIMER_DELAY_SEC", 90, 90.0),
        ("TIMER_DELAY_MS", 3_600_017, 3600.017),
    ],
)
async def test_DL3_a_message_is_delivered_at_its_time_and_not_before(
    autojump_clock: MockClock, name: str, value: int, seconds: float, begin: float
) -> None:
    async with timed() as setup:
        await trio.sleep(begin)
        start = trio.current_time()
        assert (await setup.send(**{name: str(value)})).code == 0
        await trio.sleep(seconds + 3)
    (arrived,) = setup.arrived["T"]
    assert seconds <= arrived - start + 1e-6
    assert arrived - start < seconds + 0.01


@pytest.mark.parametrize("ahead", [1, 500, 999, 1000, 1001, 2000, 60_000, 3_600_123])
async def test_DL3_a_moment_is_kept_to_the_millisecond(autojump_clock: MockClock, ahead: int) -> None:
    async with timed() as setup:
        await trio.sleep(0.3)
        moment = wall() + ahead
        await setup.send_at(moment)
        await trio.sleep(ahead / 1000 + 2)
    (arrived,) = setup.arrived["T"]
    assert EPOCH + arrived * 1000 == pytest.approx(moment, abs=1.5)
    assert EPOCH + arrived * 1000 >= moment - 0.01


async def test_DL3_a_delivered_message_says_what_apaches_says(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        await trio.sleep(0.3)
        await setup.send(body=b"body", TIMER_DELAY_SEC="2", TAGS="a", mine="yes")
        await trio.sleep(3)
        (message,) = setup.messages()
        assert EPOCH + 2300 <= int(message.wire_properties.pop("TIMER_DEQUEUE_MS")) <= EPOCH + 2302
        added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
        assert message.wire_properties == {
            "UNIQ_KEY": "U1", "TIMER_DELAY_SEC": "2", "TAGS": "a", "mine": "yes", **added, "REAL_TOPIC": "T",
            "REAL_QID": "0", "TIMER_OUT_MS": str(EPOCH + 2000), "TIMER_ENQUEUE_MS": str(EPOCH),
        }  # fmt: skip
        assert (message.body, message.born_timestamp) == (b"body", 1)
        (waited,) = setup.messages(TIMER_TOPIC)
        assert waited.body == b"body"


async def test_DL3_the_first_of_the_three_ways_to_say_it_counts(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        start = trio.current_time()
        await setup.send(TIMER_DELAY_SEC="1", TIMER_DELAY_MS="7000", TIMER_DELIVER_MS=str(wall() + 9000))
        await trio.sleep(10)
        await setup.send(TIMER_DELAY_MS="2000", TIMER_DELIVER_MS=str(wall() + 9000))
        await trio.sleep(10)
    assert [at - start for at in setup.arrived["T"]] == pytest.approx([1, 12], abs=0.01)


async def test_DL3_a_delay_level_takes_precedence(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        start = trio.current_time()
        await setup.send(DELAY="1", TIMER_DELAY_SEC="60")
        await trio.sleep(5)
        (message,) = setup.messages()
    assert setup.arrived["T"][0] - start == pytest.approx(1, abs=0.01)
    assert not any(name.startswith("TIMER") for name in message.wire_properties)


@pytest.mark.parametrize("moment", [1, EPOCH - 5000, EPOCH])
async def test_DL3_what_is_due_is_delivered_at_once(autojump_clock: MockClock, moment: int) -> None:
    async with timed() as setup:
        answer = await setup.send(TIMER_DELIVER_MS=str(moment))
        assert (answer.code, "recallHandle" in answer.ext_fields) == (0, False)
        assert setup.bodies() == [b"x"]
        assert TIMER_TOPIC not in setup.arrived


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_SEC": "9" * 18},
        {"TIMER_DELAY_MS": "259200001"},
        {"TIMER_DELIVER_MS": str(EPOCH + 300_000_000)},
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELAY_MS": "1.5"},
        {"TIMER_DELIVER_MS": "٣"},
        {"TIMER_DELIVER_MS": str(2**63)},
    ],
)
async def test_threat_M8_what_is_too_far_or_no_number_is_refused(
    autojump_clock: MockClock, properties: dict[str, str]
) -> None:
    async with timed() as setup:
        assert (await setup.send(**properties)).code == ResponseCode.MESSAGE_ILLEGAL
        assert TIMER_TOPIC not in setup.arrived
        assert setup.bodies() == []


@pytest.mark.parametrize(
    ("seconds", "waiting", "bodies"), [("-5", [], [b"x"]), ("259200", [b"x"], [])], ids=["in the past", "the farthest"]
)
async def test_DL3_a_delay_at_the_end_of_what_is_allowed(
    autojump_clock: MockClock, seconds: str, waiting: list[bytes], bodies: list[bytes]
) -> None:
    async with timed() as setup:
        assert (await setup.send(TIMER_DELAY_SEC=seconds)).code == 0
        assert (setup.bodies(TIMER_TOPIC), setup.bodies()) == (waiting, bodies)


async def test_DL3_without_a_timer_messages_are_refused_with_the_reason(autojump_clock: MockClock) -> None:
    async with timed(timer_wheel_enable=False) as setup:
        answer = await setup.send(TIMER_DELAY_SEC="1")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable=false" in (answer.remark or "")
        assert setup.broker.topics.get(TIMER_TOPIC) is None
        assert (await setup.send(DELAY="1")).code == 0
        await trio.sleep(2)
        assert setup.bodies() == [b"x"]


async def test_DL3_a_slot_that_is_too_full_takes_no_more(autojump_clock: MockClock) -> None:
    async with timed(timer_congest_num_each_slot=3) as setup:
        codes = []
        for number in range(30):
            answer = await setup.send(unique=f"U{number}", TIMER_DELIVER_MS=str(EPOCH + 60_000))
            codes.append(answer.code)
            await trio.sleep(0.1)
        assert codes[:4] == [0] * 4
        assert 4 <= codes.count(0) <= 6, "beyond twice as many none is taken"
        assert codes[-1] == ResponseCode.SYSTEM_ERROR
        assert (await setup.send(TIMER_DELIVER_MS=str(EPOCH + 70_000))).code == 0
        await trio.sleep(60)
        assert len(setup.bodies()) == codes.count(0)


async def test_DL3_beyond_the_window_a_message_goes_through_the_timer_again(autojump_clock: MockClock) -> None:
    async with timed(timer_roll_window_slot=6) as setup:
        await trio.sleep(0.4)
        moment = wall() + 40_000
        await setup.send_at(moment)
        await trio.sleep(45)
        (message,) = setup.messages()
        (arrived,) = setup.arrived["T"]
        assert EPOCH + arrived * 1000 == pytest.approx(moment, abs=1.5)
        rolls = int(message.wire_properties["TIMER_ROLL_TIMES"])
        assert 40 // 6 - 1 <= rolls <= 40 // 3
        assert len(setup.messages(TIMER_TOPIC)) == rolls + 1
        assert setup.broker.timers.metrics.count("T") == 0


@pytest.mark.parametrize("with_crc", [False, True])
@pytest.mark.parametrize("seconds", [3, 1300])
async def test_a_message_whose_properties_leave_no_room_for_those_of_the_timer_is_delivered(
    autojump_clock: MockClock, seconds: int, with_crc: bool
) -> None:
    settings = {"timer_roll_window_slot": 600, "enabled_append_prop_crc": with_crc}
    async with timed(**settings) as setup:
        delay = {"TIMER_DELAY_SEC": str(seconds)}
        await setup.send(pad="x", **delay)
        (first,) = setup.messages(TIMER_TOPIC)
        room = MAX_PROPERTIES_SIZE + 1 - len(encode_properties(first.wire_properties))
        for left in (0, 30, 45, 90):
            assert (
                await setup.send(unique=f"U{left}", pad="x" * (room - left - len(f"{left}") + 1), **delay)
            ).code == 0
        await trio.sleep(seconds + 3)
        found = {message.wire_properties["UNIQ_KEY"]: message.wire_properties for message in setup.messages()}
        assert sorted(found) == ["U0", "U1", "U30", "U45", "U90"]
        assert {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"} <= found["U1"].keys() & found["U90"].keys()
        assert not {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"} & found["U0"].keys()


@pytest.mark.parametrize("precision", [100, 1000, 5000])
async def test_the_precision_says_nothing_of_the_time_of_delivery(autojump_clock: MockClock, precision: int) -> None:
    async with timed(timer_precision_ms=precision) as setup:
        await trio.sleep(0.123)
        for delay in (50, 700, 3333, 12_000):
            await setup.send(f"T{delay}", TIMER_DELAY_MS=str(delay))
        start = trio.current_time()
        await trio.sleep(20)
    for delay in (50, 700, 3333, 12_000):
        (arrived,) = setup.arrived[f"T{delay}"]
        assert arrived - start == pytest.approx(delay / 1000, abs=0.002)


async def test_DL3_messages_of_one_second_come_in_the_order_of_their_times(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        moments = [EPOCH + 5000 + (number * 37) % 100 * 10 for number in range(100)]
        for number, moment in enumerate(moments):
            await setup.send("T", b"%d" % moment, f"U{number}", TIMER_DELIVER_MS=str(moment))
        await trio.sleep(10)
        found = [int(body) for body in setup.bodies()]
    assert found == sorted(moments)
    assert all(EPOCH + at * 1000 >= moment - 0.01 for at, moment in zip(setup.arrived["T"], found, strict=True))


@pytest.mark.slow
async def test_many_of_one_second_are_delivered_once_each(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        for number in range(1000):
            await setup.send("T", b"%d" % number, f"U{number}", TIMER_DELIVER_MS=str(EPOCH + 20_000))
        await trio.sleep(30)
        assert sorted(map(int, setup.bodies())) == list(range(1000))
        assert setup.broker.timers.metrics.count("T") == 0
        assert setup.broker.timers.timers.wheel.waiting == 0


@pytest.mark.slow
async def test_the_timer_sleeps_while_nothing_waits(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        await setup.send(TIMER_DELAY_SEC="1")
        await trio.sleep(10)
        steps = itertools.count()
        service = setup.broker.timers.service
        step = service._step
        service._step = lambda: (next(steps), step())[1]  # type: ignore[method-assign]
        await trio.sleep(8_000)
        assert next(steps) == 0


async def test_timer_stop_enqueue_and_timer_stop_dequeue(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        config = setup.broker.config.store
        for setting in ("timer_stop_enqueue", "timer_stop_dequeue"):
            setattr(config, setting, True)
            await trio.sleep(1.5)
            await setup.send("T", setting.encode(), setting, TIMER_DELAY_SEC="1")
            await trio.sleep(60)
            assert setting.encode() not in setup.bodies()
            setattr(config, setting, False)
            await trio.sleep(1.5)
            assert setup.bodies()[-1] == setting.encode()


async def test_disappear_time_after_start(autojump_clock: MockClock) -> None:
    async with timed(disappear_time_after_start=30_000) as setup:
        await setup.send(TIMER_DELAY_SEC="1")
        await trio.sleep(29)
        assert setup.bodies() == []
        await trio.sleep(1.1)
        assert setup.bodies() == [b"x"]


async def test_timer_flush_interval_ms(autojump_clock: MockClock) -> None:
    for millis in (200, 20_000):
        async with timed(MemoryStorage(), timer_flush_interval_ms=millis) as setup:
            await setup.send(TIMER_DELAY_SEC="60")
            await trio.sleep(1)
            assert setup.broker.timers.timers.checkpoint.last_timer_queue_offset == (millis < 1000)


@pytest.mark.parametrize("step", [3_600_000, -3_600_000, 86_400_000, -86_400_000, 1500, -1500, -1])
async def test_threat_L10_a_message_waits_as_long_whatever_the_clock_does(autojump_clock: MockClock, step: int) -> None:
    behind = 0
    even = loop_time(EPOCH)
    with wall_clock(lambda: even() + behind):
        async with timed() as setup:
            await trio.sleep(0.3)
            sent = {}
            for number, delay in enumerate((2, 10, 100)):
                sent[f"A{number}"] = trio.current_time(), delay
                await setup.send(f"A{number}", TIMER_DELAY_SEC=str(delay))
            await setup.send_at(wall() + 50_000, "M")
            sent["M"] = trio.current_time(), 50
            await trio.sleep(1)
            behind = step
            for number, delay in enumerate((2, 10, 100)):
                sent[f"B{number}"] = trio.current_time(), delay
                await setup.send(f"B{number}", TIMER_DELAY_SEC=str(delay))
            await setup.send_at(wall() + 50_000, "N")
            sent["N"] = trio.current_time(), 50
            await trio.sleep(150)
            for topic, (start, delay) in sent.items():
                (arrived,) = setup.arrived[topic]
                assert delay - 0.001 <= arrived - start <= delay + 0.2, topic


async def test_runtime_info_tells_of_the_timer(autojump_clock: MockClock) -> None:
    async with timed() as setup:
        for number in range(3):
            await setup.send(unique=f"U{number}", TIMER_DELAY_SEC=str(1 + 60 * number))
        await trio.sleep(5)
        info = setup.broker.runtime_info()
        assert (info["timerCongestNum"], info["timerOffsetBehind"], info["timerReadBehind"]) == ("2", "0", "0")
        assert float(info["timerEnqueueTps"]) > 0 < float(info["timerDequeueTps"])
