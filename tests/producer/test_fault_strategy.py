"""Brokers that are slow, fail or cannot be reached, as senders meet them: in virtual time, each over its own clock."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rocketpy.config import LatencyTable
from rocketpy.errors import BrokerError, ConfigError, ConnectError, SendError
from rocketpy.message import Message, MessageQueue
from rocketpy.services import open_services
from rocketpy.wire.codes import RequestCode
from tests.producer.brokers import SENDS, SendBroker

FAST, SLOW = 0.4, 2.0
SENDERS = 64


class TimedBroker(SendBroker):
    """Answers each send after `latency` seconds; notes when each came."""

    def __init__(self, name, nursery):
        super().__init__(name)
        self.latency = FAST
        self.came = []
        self._nursery = nursery
        for code in SENDS:
            self.on(code, self.take)

    def take(self, connection, request):
        self.came.append(trio.current_time())
        connection.forget_request(request)
        self._nursery.start_soon(self._answer, self.latency, connection, request)

    async def _answer(self, seconds, connection, request):
        await trio.sleep(seconds)
        if connection.is_open:
            connection.recall_request(request)
            connection.send_answer(request, self.send(connection, request))

    def came_since(self, when):
        return [moment for moment in self.came if moment > when]


@pytest.fixture
def three(opened):
    """Opens a producer with three brokers that take their time: `async with three(...) as (producer, brokers):`."""

    @asynccontextmanager
    async def open_three(**settings):
        async with open_services() as nursery:
            brokers = [TimedBroker(f"broker-{letter}", nursery) for letter in "abc"]
            async with opened(*brokers, **settings) as (producer, _):
                yield producer, brokers

    return open_three


async def rate(producer, *, warming, seconds):
    """How many sends a second so many senders get through once they have warmed up."""
    begun, done = trio.current_time() + warming, 0

    async def keep_sending():
        nonlocal done
        while True:
            await producer.send(message())
            done += trio.current_time() > begun

    with trio.move_on_after(warming + seconds):
        async with trio.open_nursery() as nursery:
            for _ in range(SENDERS):
                nursery.start_soon(keep_sending)
    return done / seconds


def message():
    return Message("T", b"x")


def faults(producer):
    return producer.statistics().faults


# --- 64 senders ------------------------------------------------------------------------------------------


async def share_of_healthy_rate(three, slow, **settings):
    async with three(**settings) as (producer, brokers):
        healthy = await rate(producer, warming=1, seconds=10)
        for broker in brokers[:slow]:
            broker.latency = SLOW
        switched = trio.current_time()
        share = await rate(producer, warming=5, seconds=30) / healthy
        return share, [broker.came_since(switched + 5) for broker in brokers], faults(producer)


@pytest.mark.slow
@pytest.mark.parametrize(("slow", "timeout"), [(1, 10.0), (2, 3.0)], ids=["one, answers", "two, no answer in time"])
@pytest.mark.parametrize("table", ["4.x", "5.x"])
async def test_S13_sixty_four_senders_keep_their_rate_when_brokers_are_slow(
    autojump_clock, three, table, slow, timeout
):
    settings = {"send_latency_enable": True, "latency_table": table, "send_timeout": timeout}
    share, came, seen = await share_of_healthy_rate(three, slow, **settings)
    assert share >= 0.9
    assert set(seen.brokers) == {"broker-a", "broker-b"} - ({"broker-b"} if slow == 1 else set())
    # 5 s of rest and 2 s of a probe make a turn; the 4.x table lets no probe out before 120 s.
    assert all(len(times) <= (5 if table == "5.x" else 0) for times in came[:slow])
    for fault in seen.brokers.values():
        assert fault.latency == pytest.approx(min(SLOW, timeout / 2), abs=0.01)
        assert fault.reachable


@pytest.mark.slow
async def test_S13_without_the_strategy_they_fall_to_the_pace_of_the_slow(autojump_clock, three):
    share, _, seen = await share_of_healthy_rate(three, 1, send_timeout=10.0)
    assert share < 0.6
    assert (seen.enabled, seen.brokers, seen.isolations) == (False, {}, 0)


@pytest.mark.slow
async def test_S13_a_broker_that_recovers_gets_a_single_probe_and_then_its_share(autojump_clock, three):
    async with three(send_latency_enable=True, latency_table="5.x", send_timeout=10.0) as (producer, brokers):
        brokers[0].latency = SLOW
        await rate(producer, warming=0, seconds=5)
        brokers[0].latency = FAST
        mended = trio.current_time()
        await rate(producer, warming=0, seconds=10)
        probe, *others = brokers[0].came_since(mended)
        assert others[0] >= probe + FAST, "the others wait for the answer to the probe"
        assert len(others) > SENDERS / 3
        assert faults(producer).brokers == {}
        assert (faults(producer).isolations, faults(producer).probes) == (1, 1)


async def test_S13_with_all_brokers_isolated_messages_are_sent_all_the_same(autojump_clock, opened):
    brokers = [SendBroker(f"broker-{letter}", [1] * 2) for letter in "abc"]
    async with opened(*brokers, send_latency_enable=True, retry_times_when_send_failed=5) as (producer, _):
        with pytest.raises(SendError):
            await producer.send(message())
        seen = faults(producer).brokers
        assert set(seen) == {"broker-a", "broker-b", "broker-c"}
        assert all(590 < fault.available_in <= 600 for fault in seen.values())
        taken = sum(len(broker.taken) for broker in brokers)
        await producer.send(message())
        assert sum(len(broker.taken) for broker in brokers) == taken + 1


async def many(producer):
    await producer.send_many([message() for _ in range(24)], batch_size=2)


async def called_back(producer):
    outcomes = []
    for _ in range(24):
        producer.outside.start_send(producer.outside.prepare(message()), outcomes.append)
    await trio.sleep(SLOW + 0.1)
    assert len(outcomes) == 24


async def in_batches(producer):
    for _ in range(12):
        await producer.send_batch([message(), message()])


async def lingering(producer):
    for _ in range(12):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(producer.send, message())


@pytest.mark.parametrize(
    ("way", "settings"), [(many, {}), (called_back, {}), (in_batches, {}), (lingering, {"linger": 0.01})]
)
async def test_S13_every_way_to_send_obeys_the_table_and_fills_it(autojump_clock, three, way, settings):
    async with three(send_latency_enable=True, **settings) as (producer, brokers):
        await way(producer)
        brokers[1].latency = SLOW
        while "broker-b" not in faults(producer).brokers:
            await producer.send(message())
        before = len(brokers[1].came)
        await way(producer)
        assert len(brokers[1].came) == before
        brokers[0].latency = 1.0
        await way(producer)
        await trio.sleep(SLOW)
        assert set(faults(producer).brokers) == {"broker-a", "broker-b"}


# --- what counts ----------------------------------------------------------------------------------------


async def test_a_table_of_ones_own_says_for_how_long(autojump_clock, three):
    table = LatencyTable(latency_max_ms=(300, 1000), not_available_ms=(0, 7000), isolation_ms=300)
    async with three(send_latency_enable=True, latency_table=table) as (producer, brokers):
        brokers[0].latency = 1.2
        while not brokers[0].came:
            await producer.send(message())
        assert faults(producer).brokers["broker-a"].available_in == pytest.approx(7.0)
        brokers[1].script = [1]
        while not brokers[1].taken:
            await producer.send(message())
        assert "broker-b" not in faults(producer).brokers, "an error counts as 300 ms, which cost nothing"


@pytest.mark.parametrize(("code", "is_held_against_it"), [(13, False), (1, True), (14, True), (2, True)])
async def test_a_message_that_is_refused_for_good_is_not_held_against_the_broker(
    autojump_clock, opened, code, is_held_against_it
):
    settings = {"send_latency_enable": True, "retry_times_when_send_failed": 0}
    async with opened(SendBroker(script=[code]), **settings) as (producer, _):
        with pytest.raises(BrokerError):
            await producer.send(message())
        assert bool(faults(producer).brokers) == is_held_against_it


async def test_a_message_that_was_not_sent_proves_nothing(autojump_clock, opened):
    old = SendBroker()
    old.version = 300  # knows no timers
    async with opened(old, SendBroker("broker-b"), send_latency_enable=True) as (producer, _):
        strategy = producer._core.fault
        strategy.update("broker-a", 3.0, isolation=True)
        await trio.sleep(1)
        with pytest.raises(ConfigError):
            await producer.send(Message("T", b"x", delay=5.0), queue=MessageQueue("T", "broker-a", 0))
        assert set(faults(producer).brokers) == {"broker-a"}


async def test_oneway_sends_leave_the_probe_to_those_that_are_answered(autojump_clock, opened):
    a, b = SendBroker(), SendBroker("broker-b")
    async with opened(a, b, send_latency_enable=True, latency_table="5.x") as (producer, _):
        producer._core.fault.update("broker-a", 2.0)
        await trio.sleep(5.1)
        for _ in range(6):
            await producer.send_oneway(message())
        await trio.sleep(0.1)
        assert (len(a.taken), len(b.taken)) == (0, 6)
        for _ in range(4):
            await producer.send(message())
        assert (faults(producer).probes, faults(producer).brokers) == (1, {})


async def test_oneway_sends_come_back_to_a_broker_that_nothing_else_probes(autojump_clock, opened):
    a, b = SendBroker(), SendBroker("broker-b")
    async with opened(a, b, send_latency_enable=True, latency_table="5.x") as (producer, _):
        producer._core.fault.update("broker-a", 2.0)
        await trio.sleep(8.2)
        for _ in range(8):
            await producer.send_oneway(message())
        await trio.sleep(0.1)
        assert len(a.taken) == 4
        assert faults(producer).brokers == {}


# --- brokers that cannot be reached -----------------------------------------------------------------------


@asynccontextmanager
async def one_comes_and_goes(opened, **settings):
    """A producer, and a broker that is there while the context it gives is open; the other one always is."""
    a, b = SendBroker(), SendBroker("broker-b")
    async with opened(a, send_latency_enable=True, **settings) as (producer, world):
        async with b.open(world.network, 10999):
            world.route("T", a, b)
            await producer.client.routes.refresh("T")
            for _ in range(8):
                await producer.send(message())
        for _ in range(8):
            await producer.send(message())
        assert not faults(producer).brokers["broker-b"].reachable
        yield producer, b, lambda: b.open(world.network, 10999)


async def test_R10_a_broker_that_is_back_is_used_again_at_once_when_it_is_looked_for(autojump_clock, opened):
    async with one_comes_and_goes(opened, start_detector_enable=True, detect_interval=5.0) as (producer, b, back):
        await trio.sleep(60)
        assert set(faults(producer).brokers) == {"broker-b"}
        taken = len(b.taken)
        async with back():
            await trio.sleep(10.1)
            assert RequestCode.GET_MAX_OFFSET in b.codes()
            assert (faults(producer).detected, faults(producer).brokers["broker-b"].available_in) == (1, 0)
            b.script = ["silence"]
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(producer.send, message())
                await trio.sleep(0.5)
                assert len(b.taken) == taken + 1, "one probe, which is not answered"
                assert faults(producer).brokers["broker-b"].probing


async def test_R10_a_broker_that_leaves_dials_without_an_answer_is_looked_for(autojump_clock, opened):
    a, b = SendBroker(), SendBroker("broker-b")
    settings = {"send_latency_enable": True, "start_detector_enable": True, "detect_interval": 5.0}
    async with opened(a, b, **settings) as (producer, world):
        world.network.hang(b.address)
        for _ in range(8):
            await producer.send(message())
        assert not faults(producer).brokers["broker-b"].reachable
        world.network.heal(b.address)
        await trio.sleep(10.1)
        assert (faults(producer).detected, faults(producer).brokers["broker-b"].available_in) == (1, 0)


async def test_R10_without_the_detector_it_rests_as_the_table_says(autojump_clock, opened):
    async with one_comes_and_goes(opened) as (producer, b, back):
        taken = len(b.taken)
        async with back():
            await trio.sleep(60)
            for _ in range(8):
                await producer.send(message())
            assert len(b.taken) == taken
            await trio.sleep(541)
            for _ in range(8):
                await producer.send(message())
            assert len(b.taken) > taken


async def test_R10_the_detector_asks_no_broker_that_is_only_slow(autojump_clock, three):
    async with three(send_latency_enable=True, start_detector_enable=True) as (producer, brokers):
        await producer.send(message())
        producer._core.fault.update("broker-a", 2.0)
        await trio.sleep(30)
        assert all(RequestCode.GET_MAX_OFFSET not in broker.codes() for broker in brokers)
        assert set(faults(producer).brokers) == {"broker-a"}


# --- errors carry their tries ---------------------------------------------------------------------------


async def test_an_error_tells_of_each_try(autojump_clock, opened):
    a, b = SendBroker(script=[1] * 3), SendBroker("broker-b", [1] * 3)
    async with opened(a, b) as (producer, _):
        with pytest.raises(SendError) as caught:
            await producer.send(message())
        tries = caught.value.attempts
        assert [each.queue.broker_name for each in tries] == [each.broker_name for each in tries]
        headers = {broker.name: iter(broker.taken) for broker in (a, b)}
        assert [each.queue.queue_id for each in tries] == [
            next(headers[each.broker_name]).header.queue_id for each in tries
        ]
        assert f"queue {tries[0].queue.queue_id} of {tries[0].broker_name}" in repr(tries[0])


async def test_an_error_of_one_try_tells_of_it_too(autojump_clock, opened):
    async with opened(SendBroker(script=[13])) as (producer, _):
        with pytest.raises(BrokerError) as caught:
            await producer.send(message(), queue=MessageQueue("T", "broker-a", 2))
        [only] = caught.value.attempts
        assert (only.broker_name, only.queue.queue_id, only.error) == ("broker-a", 2, caught.value)
        assert only.address
    assert ConnectError("away", address="a:1").attempts == ()
