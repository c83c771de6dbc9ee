"""Messages with a delay level: delivered when due, never before, never lost, over restarts and failures."""

from __future__ import annotations

import errno
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.seams import wall_clock
from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.delays.delay import to_delay_topic
from rocketpy_broker_sim.broker.delays.schedule import ScheduleService
from rocketpy_broker_sim.broker.tables.delay_offsets import DelayOffsetTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.delay_levels import DelayLevels
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import Arrival, IncomingMessage
from tests.virtual_time import loop_time

EPOCH = 1_800_000_000_000
DELAYS = [1, 5, 10, 30, *(60 * n for n in range(1, 11)), 1200, 1800, 3600, 7200]


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


class Setup:
    """A store, and a schedule service on it."""

    def __init__(self, storage: MemoryStorage | None = None, **settings: object) -> None:
        self.storage = storage or MemoryStorage()
        self.config = BrokerConfig()
        self.config.store.mapped_file_size_commit_log = 256 * 1024
        for name, value in settings.items():
            setattr(self.config.store, name, value)
        self.store = MessageStore(self.storage, self.config.store)
        self.levels = DelayLevels(self.config.store.message_delay_level)
        self.offsets = DelayOffsetTable(self.config, self.storage)
        self.queues: dict[str, int] = {}
        self.schedule = ScheduleService(
            self.store, self.levels, self.offsets, self.commit, queues_read=lambda topic: self.queues.get(topic, 0)
        )
        self.arrivals: list[tuple[str, float]] = []
        self.store.load()
        self.schedule.load()

    def commit(self) -> None:
        self.store.commit_pending()
        for arrival in self.store.reput():
            self.arrived(arrival)

    def arrived(self, arrival: Arrival) -> None:
        if arrival.topic == SCHEDULE_TOPIC:
            self.schedule.on_arrival(arrival.queue_id)
        else:
            self.arrivals.extend([(arrival.topic, trio.current_time())] * len(arrival.tags_codes))

    def send(self, level: int, topic: str = "T", body: bytes = b"x", queue_id: int = 0, **properties: str) -> None:
        message = IncomingMessage(topic, queue_id, body, born_timestamp=5, reconsume_times=2, flag=9)
        to_delay_topic(message, {"UNIQ_KEY": "U1", **properties}, level, self.levels.count)
        self.store.put(message)
        self.commit()

    def messages(self, topic: str = "T", queue_id: int = 0) -> list[tuple[bytes, dict[str, str]]]:
        found = self.store.reads.get(topic, queue_id, 0, 32)
        return [(message.body, message.wire_properties) for message in decode_messages(found.records)]

    @asynccontextmanager
    async def serving(self, interval: float = 10) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.schedule.serve)
            nursery.start_soon(self.schedule.serve_offsets, interval)
            await wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()


@contextmanager
def refusing(setup: Setup) -> Iterator[None]:
    """A store that takes nothing."""
    with setup.storage.failing("pwrite", code=errno.ENOSPC, under="commitlog"):
        yield


# --- when ------------------------------------------------------------------------------------------------


async def test_DL1_every_level_is_delivered_after_its_delay(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        start = trio.current_time()
        for level in range(1, 19):
            setup.send(level, f"T{level}")
        await trio.sleep(7201)
    took = {topic: at - start for topic, at in setup.arrivals}
    assert [took[f"T{level}"] for level in range(1, 19)] == pytest.approx(DELAYS, abs=0.01)
    assert setup.schedule.delivered == 18


async def test_a_message_that_is_due_but_for_a_rounding_error_is_due(autojump_clock: MockClock, monkeypatch) -> None:
    setup = Setup()
    setup.send(1)
    await trio.sleep(1000)
    monkeypatch.setattr(type(setup.store.clock), "waited_ms", lambda *_: 1000 - 1e-12)
    setup.schedule.deliver_due()
    assert setup.schedule.delivered == 1  # to wait for so little is to ask again at once, and for ever with this clock


async def test_DL1_a_level_above_the_highest_is_the_highest(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        setup.send(99)
        await trio.sleep(7199)
        assert setup.arrivals == []
        await trio.sleep(2)
    ((_, properties),) = setup.messages()
    assert properties["DELAY"] == "18"


async def test_messages_of_a_level_keep_their_order_and_their_distance(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        for number in range(100):
            setup.send(2, body=b"%d" % number)
            await trio.sleep(0.1)
        await trio.sleep(10)
        bodies = []
        offset = 0
        while (found := setup.store.reads.get("T", 0, offset, 32)).count:
            bodies += [message.body for message in decode_messages(found.records)]
            offset = found.next_begin_offset
    assert bodies == [b"%d" % number for number in range(100)]
    times = [at for _, at in setup.arrivals]
    assert all(0.05 < after - before < 0.15 for before, after in itertools.pairwise(times))


async def test_the_service_sleeps_until_there_is_something_to_do(autojump_clock: MockClock) -> None:
    setup = Setup()
    rounds = 0
    deliver = setup.schedule.deliver_due

    def counted() -> float:
        nonlocal rounds
        rounds += 1
        return deliver()

    setup.schedule.deliver_due = counted  # type: ignore[method-assign]
    async with setup.serving():
        setup.send(18)
        await trio.sleep(7000)
    assert rounds <= 3


async def test_a_clock_that_went_back_does_not_hold_messages_for_ever(autojump_clock: MockClock) -> None:
    with wall_clock(loop_time(EPOCH + 86_400_000)):
        setup = Setup()
        setup.send(1)
    async with setup.serving():
        await trio.sleep(0.1)
    assert len(setup.arrivals) == 1


# --- what ------------------------------------------------------------------------------------------------


async def test_DL1_what_is_delivered_is_what_was_put_aside(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        setup.send(1, "Orders", b"body", 3, TAGS="a", KEYS="k1 k2", WAIT="false", 名="值")
        waiting = setup.store.reads.get(SCHEDULE_TOPIC, 0, 0, 1)
        await trio.sleep(2)
    delivered = setup.store.reads.get("Orders", 3, 0, 1, match=lambda code: code == tags_code("a"))
    (before,), (after,) = decode_messages(waiting.records), decode_messages(delivered.records)
    assert after.wire_properties == before.wire_properties
    text = encode_properties(before.wire_properties).encode()
    assert text in waiting.records
    assert text in delivered.records
    assert (after.topic, after.queue_id, after.queue_offset) == ("Orders", 3, 0)
    for name in ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.store_timestamp - before.store_timestamp == pytest.approx(1000, abs=5)
    assert after.wire_properties["REAL_TOPIC"] == "Orders"
    assert after.wire_properties["REAL_QID"] == "3"


async def test_a_record_with_a_checksum_gets_a_new_one(autojump_clock: MockClock) -> None:
    setup = Setup(enabled_append_prop_crc=True)
    async with setup.serving():
        setup.send(1)
        await trio.sleep(2)
    waiting = setup.store.reads.get(SCHEDULE_TOPIC, 0, 0, 1).records
    delivered = setup.store.reads.get("T", 0, 0, 1).records
    assert delivered.count(b"__CRC32#") == waiting.count(b"__CRC32#") == 1
    assert delivered[-20:] != waiting[-20:]


@pytest.mark.parametrize(
    "goal",
    [
        {},
        {"REAL_TOPIC": "T"},
        {"REAL_TOPIC": "../../x", "REAL_QID": "0"},
        {"REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": TRANSACTION_HALF_TOPIC, "REAL_QID": "0"},
    ],
)
async def test_threat_A1_M6_a_message_for_no_topic_is_left_out_and_the_rest_goes_on(
    autojump_clock: MockClock, goal: dict[str, str]
) -> None:
    setup = Setup()
    async with setup.serving():
        properties = encode_properties({"DELAY": "1", **goal})
        setup.store.put(IncomingMessage(SCHEDULE_TOPIC, 0, b"bad", properties))
        setup.send(1, body=b"good")
        await trio.sleep(2)
    assert [body for body, _ in setup.messages()] == [b"good"]
    assert setup.offsets.get(1) == 2
    assert setup.store.reads.topics() == {SCHEDULE_TOPIC, "T"}


async def test_a_damaged_message_is_left_out_and_the_rest_goes_on(autojump_clock: MockClock) -> None:
    setup = Setup()
    setup.send(1, body=b"damaged-damaged")
    setup.send(1, body=b"good")
    log = setup.storage.open("commitlog/00000000000000000000")
    at = log.pread(1000, 0).index(b"damaged-damaged")
    log.pwrite(b"X", at)
    async with setup.serving():
        await trio.sleep(2)
    assert [body for body, _ in setup.messages()] == [b"good"]


# --- failures and restarts -------------------------------------------------------------------------------


async def test_a_full_disk_delays_delivery_and_loses_nothing(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        setup.send(1)
        with refusing(setup):
            await trio.sleep(60)
            assert setup.arrivals == []
            assert setup.offsets.get(1) == 0
        await trio.sleep(20)
    assert [body for body, _ in setup.messages()] == [b"x"]


async def test_DL2_delivery_goes_on_after_a_restart(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        setup.send(2, body=b"before")
        setup.send(3, body=b"after")
        await trio.sleep(6)
    await setup.schedule.save()
    setup.store.close()
    again = Setup(setup.storage)
    assert (again.offsets.get(2), again.offsets.get(3)) == (1, 0)
    async with again.serving():
        await trio.sleep(20)
    assert [body for body, _ in again.messages()] == [b"before", b"after"]


async def test_DL2_what_fell_due_while_the_broker_was_down_is_delivered_at_once(autojump_clock: MockClock) -> None:
    setup = Setup()
    setup.send(5)
    setup.store.close()
    await trio.sleep(3600)
    again = Setup(setup.storage)
    async with again.serving():
        start = trio.current_time()
        await trio.sleep(1)
    assert [at - start for _, at in again.arrivals] == pytest.approx([0], abs=0.01)


async def test_DL2_offsets_are_written_every_ten_seconds(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        setup.send(1)
        await trio.sleep(5)
        assert not setup.storage.exists("config/delayOffset.json")
        await trio.sleep(6)
        stored = DelayOffsetTable(setup.config, setup.storage)
        assert stored.load()
    assert stored.get(1) == 1
    assert stored.levels() == [1]


async def test_DL2_offsets_never_reach_the_disk_before_the_messages_they_pass(autojump_clock: MockClock) -> None:
    setup = Setup()
    order: list[str] = []

    def note(operation: str, path: str, size: int) -> None:
        if operation == "fdatasync" and path.startswith("commitlog"):
            order.append("log")
        if operation == "write_bytes_atomic" and path.startswith("config"):
            order.append("offsets")

    async with setup.serving(interval=3600):
        setup.send(1)
        await trio.sleep(2)
    setup.storage.fault = note
    await setup.schedule.save()
    assert order == ["log", "offsets"]


@pytest.mark.parametrize(("stored", "expected"), [(0, 0), (1, 1), (2, 2), (3, 2), (2**40, 2), (-5, 0)])
async def test_DL2_offsets_that_do_not_fit_the_queue_are_corrected_at_start(
    autojump_clock: MockClock, stored: int, expected: int
) -> None:
    setup = Setup()
    setup.send(1)
    setup.send(1)
    setup.store.close()
    setup.storage.write_bytes_atomic("config/delayOffset.json", b'{"offsetTable":{1:%d,2:7}}' % stored)
    again = Setup(setup.storage)
    assert again.offsets.get(1) == expected
    assert again.offsets.get(2) == 0


async def test_DL2_a_crash_delivers_again_what_it_may_have_lost(autojump_clock: MockClock) -> None:
    setup = Setup()
    async with setup.serving():
        setup.send(1)
        await trio.sleep(2)
        crashed = setup.storage.clone()
    again = Setup(crashed)
    async with again.serving():
        await trio.sleep(2)
    assert [body for body, _ in again.messages()] == [b"x", b"x"]


async def test_own_levels_of_the_settings_hold(autojump_clock: MockClock) -> None:
    setup = Setup(message_delay_level="2s 1h")
    async with setup.serving():
        start = trio.current_time()
        setup.send(1, "A")
        setup.send(5, "B")
        await trio.sleep(3_601)
    assert [(topic, round(at - start)) for topic, at in setup.arrivals] == [("A", 2), ("B", 3_600)]


async def test_an_unknown_queue_is_no_queue_of_a_level(autojump_clock: MockClock) -> None:
    setup = Setup()
    assert setup.schedule.deliver_due() == float("inf")
    setup.schedule.on_arrival(77)
    setup.schedule.on_arrival(-1)
    assert setup.schedule.deliver_due() == float("inf")


@pytest.mark.parametrize("kept", [True, False])
async def test_times_that_stand_in_the_extension_of_the_queue(autojump_clock: MockClock, kept: bool) -> None:
    before = Setup(enable_consume_queue_ext=True)
    before.send(3)
    before.store.close()
    after = Setup(before.storage, enable_consume_queue_ext=kept)
    async with after.serving():
        await trio.sleep(9.9)
        assert after.messages() == []
        after.send(3)
        await trio.sleep(0.2)
        assert len(after.messages()) == 1
        await trio.sleep(10)
        assert len(after.messages()) == 2


async def test_a_message_for_a_queue_that_is_gone_goes_to_one_that_is_read(autojump_clock: MockClock) -> None:
    setup = Setup()
    setup.queues["T"] = 2
    async with setup.serving():
        setup.send(1, queue_id=1, body=b"there")
        setup.send(1, queue_id=5, body=b"gone")
        await trio.sleep(2)
    assert [body for body, _ in setup.messages(queue_id=1)] == [b"there", b"gone"]
