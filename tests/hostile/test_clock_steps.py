"""The wall clock is set forward or back while a broker runs: what waits goes on waiting for as long as it should.

All in virtual time: the loop's clock goes on evenly, the wall clock beside it makes a step.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.runtime_info import runtime_info
from rocketpy_broker_sim.broker.statistics import BrokerStatistics
from rocketpy_broker_sim.config import namesrv_config
from rocketpy_broker_sim.namesrv.server import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, Client, bodies, broker_and_client, client_of, settings
from tests.virtual_time import loop_time

NOON = 1_800_014_400_000
HOUR = 3_600_000
STEPS = {"1 h forward": HOUR, "1 h back": -HOUR, "1 ms back": -1}
NEARLY = 0.05


class SteppedClock:
    """A wall clock that goes with the loop's until it is set."""

    def __init__(self) -> None:
        self._even = loop_time(NOON)
        self._set_by = 0

    def __call__(self) -> int:
        return self._even() + self._set_by

    def step(self, milliseconds: int) -> None:
        self._set_by += milliseconds


@pytest.fixture
def clock() -> Iterator[SteppedClock]:
    made = SteppedClock()
    with wall_clock(made):
        yield made


@pytest.fixture(params=STEPS)
def step(request: pytest.FixtureRequest) -> int:
    """By how many milliseconds the clock is set."""
    return STEPS[request.param]


@asynccontextmanager
async def noting_arrivals(topic: str) -> AsyncIterator[tuple[Broker, Client, list[float]]]:
    """A broker, and when messages arrive in queue 0 of a topic."""
    async with broker_and_client() as (broker, client), trio.open_nursery() as nursery:
        arrived: list[float] = []

        async def watch() -> None:
            while True:
                answer = await client.pull(
                    topic, 0, len(arrived), sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=20_000
                )
                arrived.extend([trio.current_time()] * len(bodies(answer)))

        await client.send(topic, b"first")
        nursery.start_soon(watch)
        yield broker, client, arrived
        nursery.cancel_scope.cancel()


# --- delays and retries ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("level", "seconds"), [(1, 1), (3, 10), (5, 60), (18, 7200)])
async def test_a_delay_lasts_as_long_as_ever(
    autojump_clock: MockClock, clock: SteppedClock, step: int, level: int, seconds: float
) -> None:
    """The second of two, too: that is looked at only when the first is delivered, after the step."""
    async with noting_arrivals("T") as (_, client, arrived):
        began = trio.current_time()
        for _number in range(2):
            await client.send("T", b"later", f"DELAY\x01{level}\x02")
            await trio.sleep(seconds * 0.2)
        clock.step(step)
        await trio.sleep(seconds)
        assert arrived[1:] == pytest.approx([began + seconds, began + 1.2 * seconds], abs=NEARLY)


@pytest.mark.parametrize("after", [0.0, 0.3, 0.9, 1.1, 5.0])
async def test_a_delay_that_begins_after_the_step_lasts_as_long_as_ever(
    autojump_clock: MockClock, clock: SteppedClock, step: int, after: float
) -> None:
    """While stored times stand, time goes on."""
    async with noting_arrivals("T") as (_, client, arrived):
        clock.step(step)
        await client.send("T", b"meanwhile")
        await trio.sleep(after)
        began = trio.current_time()
        await client.send("T", b"later", "DELAY\x011\x02")
        await trio.sleep(1 - NEARLY)
        assert len(arrived) == 2
        await trio.sleep(2 * NEARLY)
        assert arrived[2:] == [pytest.approx(began + 1, abs=NEARLY)]


async def test_delays_last_as_long_as_ever_under_a_clock_that_never_rests(
    autojump_clock: MockClock, clock: SteppedClock
) -> None:
    async with noting_arrivals("T") as (_, client, arrived):
        expected = []
        for number in range(40):
            clock.step((HOUR, -2 * HOUR, -1, 7_000)[number % 4])
            expected.append(trio.current_time() + 5)
            await client.send("T", b"later", "DELAY\x012\x02")
            await trio.sleep(0.4)
        await trio.sleep(6)
        assert arrived[1:] == pytest.approx(expected, abs=NEARLY)


async def test_a_retry_comes_after_its_delay(autojump_clock: MockClock, clock: SteppedClock, step: int) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        await client.send("T", b"again")
        (message,) = decode_messages(broker.store.reads.get("T", 0, 0, 32).records)
        header = ConsumerSendMsgBackRequestHeader(
            group="g", origin_topic="T", origin_msg_id="M", offset=message.commit_log_offset, delay_level=0
        )
        for _number in range(2):
            assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_ext())).code == 0
            await trio.sleep(2)
        clock.step(step)
        for come in range(2):
            await trio.sleep(6 - NEARLY if come == 0 else 2 - 2 * NEARLY)
            assert broker.store.reads.max_offset("%RETRY%g", 0) == come
            await trio.sleep(2 * NEARLY)
            assert broker.store.reads.max_offset("%RETRY%g", 0) == come + 1


@pytest.mark.slow
async def test_what_an_earlier_run_stored_is_due_when_the_store_says(
    autojump_clock: MockClock, clock: SteppedClock
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send("T", b"later", "DELAY\x0116\x02")  # half an hour
        await client.send("T", b"much later", "DELAY\x0118\x02")  # two hours
    clock.step(HOUR)
    async with broker_and_client(storage=storage) as (broker, _):
        await trio.sleep(NEARLY)
        assert broker.store.reads.max_offset("T", 0) == 1
        await trio.sleep(3600 - 2 * NEARLY)
        assert broker.store.reads.max_offset("T", 0) == 1
        await trio.sleep(2 * NEARLY)
        assert broker.store.reads.max_offset("T", 0) == 2


async def test_what_an_earlier_run_stored_does_not_follow_a_step_of_this_one(
    autojump_clock: MockClock, clock: SteppedClock, step: int
) -> None:
    """The second of two, too: that is looked at only when the first is delivered, after the step."""
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        for _number in range(2):
            await client.send("T", b"later", "DELAY\x015\x02")  # a minute
            await trio.sleep(10)
    async with broker_and_client(storage=storage) as (broker, _):
        await trio.sleep(20)
        clock.step(step)
        for come in range(2):
            await trio.sleep(20 - NEARLY if come == 0 else 10 - 2 * NEARLY)
            assert broker.store.reads.max_offset("T", 0) == come
            await trio.sleep(2 * NEARLY)
            assert broker.store.reads.max_offset("T", 0) == come + 1


# --- stored times ----------------------------------------------------------------------------------------


async def test_stored_times_stand_for_a_second_and_go_on(autojump_clock: MockClock, clock: SteppedClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        stood = broker.store.reads.store_time("T", 0, 0)
        clock.step(-HOUR)
        for after in (0, 0.5, 0.5, 0.5, 2.0):
            await trio.sleep(after)
            await client.send()
        times = [broker.store.reads.store_time("T", 0, offset) - stood for offset in range(1, 6)]
        assert times == pytest.approx([0, 0, 0, 500, 2500], abs=2)


async def test_stored_times_follow_a_step_forward_and_wait_for_a_small_one_back(
    autojump_clock: MockClock, clock: SteppedClock
) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        for step, after in (HOUR, 0.0), (-300, 0.1), (0, 0.4):
            clock.step(step)
            await trio.sleep(after)
            await client.send()
        first, *times = [broker.store.reads.store_time("T", 0, offset) for offset in range(4)]
        assert [time - first for time in times] == pytest.approx([HOUR, HOUR, HOUR + 200], abs=2)


# --- everything else that waits ----------------------------------------------------------------------------


async def test_a_long_poll_lasts_as_long_as_ever(autojump_clock: MockClock, clock: SteppedClock, step: int) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def set_clock() -> None:
                await trio.sleep(5)
                clock.step(step)

            nursery.start_soon(set_clock)
            answer = await client.pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=20_000)
        assert bodies(answer) == []
        assert 20 <= trio.current_time() - began < 26


async def test_clients_are_forgotten_as_late_as_ever(autojump_clock: MockClock, clock: SteppedClock, step: int) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        await trio.sleep(60)
        clock.step(step)
        await trio.sleep(59)
        assert broker.clients.consumers.group("g") is not None
        await trio.sleep(75)
        assert broker.clients.consumers.group("g") is None


async def test_name_servers_go_on_knowing_a_broker_and_hear_of_its_topics(
    autojump_clock: MockClock, clock: SteppedClock, step: int
) -> None:
    network = MemoryNetwork()
    async with (
        open_name_server(namesrv_config(listen_port=0), network=network) as names,
        open_broker(settings(), network=network, storage=MemoryStorage(), name_servers=[names.address]) as broker,
    ):
        await trio.sleep(45)
        clock.step(step)
        for wait in range(0, 200, 5):  # it registers every 30 s, and is forgotten after 120
            await trio.sleep(5)
            assert list(names.routes.live), f"gone {wait} s after the step"
        async with client_of(network, broker.address) as client:
            assert (await client.send("Fresh")).code == 0
        await trio.sleep(1)
        assert "Fresh" in names.routes.queues


async def test_rates_and_todays_sums_do_not_jump(autojump_clock: MockClock, clock: SteppedClock, step: int) -> None:
    async with broker_and_client() as (broker, client):
        for _ in range(20):
            await client.send()
            await trio.sleep(1)
        clock.step(step)
        await trio.sleep(0.5)
        assert broker.counting.statistics.rate(lambda totals: totals.put, 10) == pytest.approx(1, abs=0.11)
        info = runtime_info(broker.config, broker.identity.boot_timestamp, broker.subsystems)
        assert info["msgPutTotalTodayMorning"] == info["msgPutTotalYesterdayMorning"] == "0"


def test_a_day_that_comes_twice_is_one_day(clock: SteppedClock) -> None:
    """Set back over midnight and over it again: the sums of the morning stay those of that midnight."""
    day = 24 * HOUR
    sums = BrokerStatistics(lambda: 0.0)
    sums.note_put(5)
    sums._keep()
    clock.step(day)
    assert [each.put for each in sums.mornings()] == [5, 0]
    sums.note_put(3)
    sums._keep()
    for step in (-day, 0, day):
        clock.step(step)
        assert [each.put for each in sums.mornings()] == [5, 0]
    clock.step(day)
    assert [each.put for each in sums.mornings()] == [8, 5]


async def test_the_time_that_it_runs_is_never_negative(autojump_clock: MockClock, clock: SteppedClock) -> None:
    async with broker_and_client() as (broker, _):
        clock.step(-HOUR)
        info = runtime_info(broker.config, broker.identity.boot_timestamp, broker.subsystems)
        assert info["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
