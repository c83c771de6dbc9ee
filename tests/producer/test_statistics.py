"""What a producer and its client tell of themselves: every send is counted once, under its topic and its broker."""

from __future__ import annotations

import importlib
import threading

import pytest
import trio

from rocketpy.client.meter import GATHERED, MOST_CELLS, Cell, SendMeter
from rocketpy.errors import BrokerError, RequestTimeoutError, RouteNotFoundError, SendError
from rocketpy.message import Message
from rocketpy.results import LocalTransactionState
from rocketpy.wire.codes import RequestCode
from tests.producer.brokers import SendBroker

SURFACES = ["rocketpy", "rocketpy.sync", "rocketpy.aio"]


def message(**fields):
    return Message("T", b"hello", **fields)


def both(script_a=(), script_b=()):
    return SendBroker("broker-a", script_a), SendBroker("broker-b", script_b)


async def test_sends_are_counted_by_topic_and_broker(autojump_clock, opened):
    async with opened(*both()) as (producer, _):
        before = producer.statistics()
        assert (before.sent, before.failed, before.brokers, before.topics) == (0, 0, {}, {})
        for _ in range(8):  # four queues at each of the two brokers
            await producer.send(message())
        await producer.send_batch([message(), message(), message()])
        await producer.send_oneway(message())
        found = producer.statistics()
    assert (found.sent, found.one_way, found.failed, found.failed_tries, found.retries) == (11, 1, 0, 0, 0)
    assert found.sent_bytes > 8 * len(b"hello")
    assert found.latency.count == 9
    assert found.sent_per_second == pytest.approx(11 / 10)  # Rates: three messages at once are not thousands a second
    assert found.topics.keys() == {"T"}
    assert found.topics["T"].sent == sum(each.sent for each in found.brokers.values()) == 11
    assert found.brokers.keys() == {"broker-a", "broker-b"}
    assert all(each.sent >= 4 for each in found.brokers.values())


async def test_latencies_are_percentiles_of_the_last_minute(autojump_clock, opened):
    broker, delay = SendBroker(), 0.0

    def slow(connection, request):
        autojump_clock.jump(delay)
        return broker.send(connection, request)

    broker.on(RequestCode.SEND_MESSAGE_V2, slow)
    async with opened(broker) as (producer, _):
        for delay in [0.01] * 90 + [1.0] * 10:  # noqa: B007 - read by `slow`
            await producer.send(message())
        found = producer.statistics().latency
        assert found.count == 100
        assert 0.01 <= found.p50 <= 0.011
        assert 1.0 <= found.p99 <= 1.09
        assert found.mean == pytest.approx(0.109, rel=0.01)
        assert found.maximum == pytest.approx(1.0)
        await trio.sleep(80)
        assert producer.statistics().latency.count == 0
        assert producer.statistics().sent == 100


async def test_what_failed_is_counted_with_its_tries(autojump_clock, opened):
    a, b = both([14] * 9, [14] * 9)
    async with opened(a, b, retry_times_when_send_failed=4) as (producer, _):
        with pytest.raises(SendError):
            await producer.send(message())
        found = producer.statistics()
        assert (found.sent, found.failed, found.failed_tries, found.retries) == (0, 1, 5, 4)
        assert found.failed_per_second > 0
        assert found.retries_per_second == pytest.approx(4 * found.failed_per_second)
        with pytest.raises(RouteNotFoundError):
            await producer.send(Message("Nowhere", b"x"))
        found = producer.statistics()
        assert found.topics["Nowhere"].failed == 1
        assert "" not in found.brokers


@pytest.mark.parametrize("way", ["send", "start_send", "send_many"])
async def test_a_final_refusal_and_a_retry_are_counted_the_same_on_every_way(autojump_clock, opened, way):
    broker = SendBroker(script=[0, 13, 14])
    async with opened(broker) as (producer, _):
        await producer.send(message())  # so that the others find a connection

        async def send():
            if way == "send":
                await producer.send(message())
            elif way == "send_many":
                await producer.send_many([message()], on_failure=lambda error: None)
            else:
                done = trio.Event()
                producer.outside.start_send(producer.outside.prepare_frame([message()]), lambda outcome: done.set())
                await done.wait()

        if way == "send":
            with pytest.raises(BrokerError):
                await send()
        else:
            await send()
        await send()
        found = producer.statistics()
    assert (found.sent, found.failed, found.failed_tries, found.retries) == (2, 1, 2, 1)


async def test_what_is_stored_weakly_in_the_end_is_sent(autojump_clock, opened):
    broker = SendBroker(script=[10] * 9)  # FLUSH_DISK_TIMEOUT
    settings = {"retry_another_broker_when_not_store_ok": True, "retry_times_when_send_failed": 1}
    async with opened(broker, **settings) as (producer, _):
        await producer.send(message())
        found = producer.statistics()
    assert (found.sent, found.failed, found.failed_tries, found.retries, found.latency.count) == (1, 0, 2, 1, 0)


async def test_what_is_in_flight(autojump_clock, opened, nursery):
    broker = SendBroker(script=["silence"] * 3)
    async with opened(broker, retry_times_when_send_failed=0) as (producer, _):
        with pytest.raises(RouteNotFoundError):
            await producer.send(Message("Nowhere", b"x"))

        async def lost():
            with pytest.raises(RequestTimeoutError):
                await producer.send(message())

        for _ in range(3):
            nursery.start_soon(lost)
        await trio.sleep(1)
        client = producer.client.statistics()
        assert producer.statistics().in_flight == 3
        assert client.in_flight == 3
        assert client.peers[broker.address].in_flight == 3
        await trio.sleep(5)
        assert producer.statistics().in_flight == 0
        found = producer.statistics()
        assert found.brokers["broker-a"].in_flight == 0
        assert found.failed == 4


async def test_what_a_client_has_open_and_knows(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        await producer.send(message())
        await trio.sleep(1)
        found = producer.client.statistics()
        assert (found.connections, found.dials, found.failed_dials, found.topics, found.brokers) == (2, 2, 0, 1, 1)
        assert (found.heartbeats, found.failed_heartbeats, found.brokers_answering) == (1, 0, 1)
        assert found.peers.keys() == {broker.address, "ns:9876"}
        assert found.peers[broker.address].sent_bytes > 0
        assert found.peers[broker.address].received_bytes > 0
        # The route and the heartbeat; the send is in the statistics of the producer.
        assert (found.requests, found.failed_requests, found.latency.count) == (2, 0, 2)
        assert found.requests_per_second == pytest.approx(0.2)
        assert found.peers[broker.address].requests == found.peers["ns:9876"].requests == 1
        assert found.peers[broker.address].latency.count == 1
    assert producer.client.statistics().connections == 0


# --- in every state --------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["Producer", "TransactionProducer"])
@pytest.mark.parametrize("surface", SURFACES)
def test_a_producer_that_was_not_started_has_zeros(surface, role):
    checker = {"checker": lambda message: LocalTransactionState.COMMIT} if role == "TransactionProducer" else {}
    producer = getattr(importlib.import_module(surface), role)("g", namesrv="a:1", **checker)
    found = producer.statistics()
    assert (found.sent, found.in_flight, found.latency.count, found.sent_per_second) == (0, 0, 0, 0.0)
    assert (found.brokers, found.topics, found.faults.brokers) == ({}, {}, {})


# --- the counters themselves -----------------------------------------------------------------------------


def test_no_send_is_lost_or_counted_twice_by_many_threads():
    cell = Cell(0.0)
    threads, each = 8, 20_000

    def send():
        for number in range(each):
            if number == each // 2 or len(cell.sizes) >= GATHERED:
                cell.drain(12.0)
            cell.seconds.append(0.001)
            cell.sizes.append(10)

    running = [threading.Thread(target=send) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    cell.drain(12.0)
    assert cell.sent == threads * each
    assert cell.sent_bytes == 10 * threads * each
    assert cell.sizes == cell.seconds == []
    assert cell.histogram.latency(12.0).count == threads * each


def test_a_count_that_interrupts_another_one_does_not_wait():
    cell = Cell(0.0)
    cell.sizes.append(10)
    assert cell._draining.acquire(blocking=False)  # as a finalizer finds it within `drain`
    cell.drain(1.0)
    assert cell.sizes == [10]
    cell._draining.release()
    cell.drain(1.0)
    assert cell.sent == 1


def test_sends_count_in_the_slice_of_time_in_which_they_ended():
    now = 5.0
    meter = SendMeter(lambda: now)
    meter.open()
    cell = meter.cell("T", "b")
    cell.sizes += [10] * 7
    cell.seconds += [0.5] * 7
    now = 15.0  # nothing was sent, and nobody asked
    assert now >= cell.ends
    cell.drain(now)
    cell.sizes.append(10)
    cell.seconds.append(0.25)
    now = 71.0  # a minute later the slice of the first ones is gone
    found = meter.total()
    assert (found.sent, found.latency.count, found.latency.maximum) == (8, 1, 0.25)


def test_more_topics_than_are_counted_apart_are_in_the_sums():
    meter = SendMeter(lambda: 1.0)
    meter.open()
    for number in range(MOST_CELLS + 10):
        meter.cell(f"T{number}", "b").sizes.append(10)
    assert meter.total().sent == MOST_CELLS + 10
    assert len(meter.by_topic()) == MOST_CELLS


# --- on_statistics ---------------------------------------------------------------------------------------


async def test_a_function_that_hangs_is_called_once_and_closing_waits_only_so_long(autojump_clock, opened):
    told = []

    async def hang(statistics):
        told.append(statistics)
        await trio.sleep_forever()

    async with opened(SendBroker(), on_statistics=hang, statistics_interval=1.0, close_timeout=2.0) as (producer, _):
        await trio.sleep(10)
        await producer.send(message())
        closing = trio.current_time()
    assert len(told) == 1
    assert trio.current_time() - closing == pytest.approx(2.0, abs=0.1)


async def test_closing_waits_for_a_call_that_is_under_way(autojump_clock, opened):
    ended = []

    async def slow(statistics):
        await trio.sleep(1.5)
        ended.append(statistics)

    async with opened(SendBroker(), on_statistics=slow, statistics_interval=1.0) as (producer, _):
        assert producer.config.close_timeout > 1.5
        await trio.sleep(1.1)
    assert len(ended) == 1
    await trio.sleep(10)
    assert len(ended) == 1
