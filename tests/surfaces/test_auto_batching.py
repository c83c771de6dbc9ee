"""Messages that linger to be sent in batches, on every surface, against a real broker over TCP."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

import rocketpy.aio
import rocketpy.sync
from rocketpy import ClientClosedError, ConfigError, Message, MessageIllegalError, SendStatus, TooManyRequestsError
from rocketpy.producer.accumulator import Accumulator
from rocketpy_broker_sim import BlockingLocalCluster
from tests.surfaces.surface import call, entered

LINGER = 0.005


async def send_all(surface, producer, messages):
    """Send them at once, in the way of the surface; the results in the order of the messages."""
    if surface.name == "asyncio":
        return await asyncio.gather(*map(producer.send, messages))
    if surface.name == "blocking":
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(producer.send, messages))
    results = [None] * len(messages)

    async def one(number):
        results[number] = await producer.send(messages[number])

    async with trio.open_nursery() as nursery:
        for number in range(len(messages)):
            nursery.start_soon(one, number)
    return results


def test_S17_every_message_is_stored_where_its_result_says(surface, cluster, namesrv, topic):
    async def main():
        producer = surface.module.Producer("pg", namesrv=namesrv, linger=LINGER)
        if surface.name == "blocking":
            with producer:
                producer.create_topic(topic, queues=4)
                return await send_all(surface, producer, messages)
        async with producer:
            await producer.create_topic(topic, queues=4)
            return await send_all(surface, producer, messages)

    messages = [Message(topic, b"%d" % n, tags=f"t{n % 3}", keys=[f"k{n}"]) for n in range(300)]
    results = surface.run(main)
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    stored = {message.message_id: message for message in cluster.messages(topic)}
    assert len(stored) == 300
    for message, result in zip(messages, results, strict=True):
        found = stored[result.message_id]
        assert (found.body, found.tags, found.keys) == (message.body, message.tags, message.keys)
        assert (found.queue, found.queue_offset) == (result.queue, result.queue_offset)
        assert found.offset_message_id == result.offset_message_id


def test_S17_messages_of_a_sharding_key_keep_their_order(surface, cluster, namesrv, topic):
    messages = [Message(topic, b"%d" % n, sharding_key=f"s{n % 5}") for n in range(200)]

    async def main():
        producer = surface.module.Producer("pg", namesrv=namesrv, linger=LINGER)
        if surface.name == "blocking":
            with producer:
                producer.create_topic(topic, queues=4)
                for future in [producer.send_soon(message) for message in messages]:
                    future.result()
            return
        async with producer:
            await producer.create_topic(topic, queues=4)
            if surface.name == "asyncio":
                await asyncio.gather(*map(producer.send, messages))
                return
            async with trio.open_nursery() as nursery:
                for message in messages:
                    nursery.start_soon(producer.send, message)
                    await trio.lowlevel.cancel_shielded_checkpoint()

    surface.run(main)
    stored = sorted(cluster.messages(topic), key=lambda each: (each.queue_id, each.queue_offset))
    assert len(stored) == 200
    for key in range(5):
        mine = [int(each.body) for each in stored if each.sharding_key == f"s{key}"]
        assert mine == list(range(key, 200, 5))


# --- futures -------------------------------------------------------------------------------------------------


@pytest.fixture
def watched():
    """A cluster of its own, and how many messages each frame of its broker had."""
    with BlockingLocalCluster() as running:
        running.create_topic("Orders", queues=2)
        yield running


def test_S17_futures_share_frames_and_hold_each_its_own_result(watched):
    with rocketpy.sync.Producer("pg", namesrv=watched.name_server_addresses, linger=0.05) as producer:
        producer.send(Message("Orders", b"warm"))
        futures = [producer.send_soon(Message("Orders", b"%d" % n)) for n in range(500)]
        results = [future.result() for future in futures]
        runs = Counter((result.queue, result.queue_offset) for result in results)
    assert len(runs) == 500
    bodies = {message.message_id: message.body for message in watched.messages("Orders")}
    assert [bodies[result.message_id] for result in results] == [b"%d" % n for n in range(500)]


def test_S17_closing_answers_every_future(namesrv, topic):
    called = []
    with rocketpy.sync.Producer("pg", namesrv=namesrv, linger=1.0) as producer:
        futures = [producer.send_soon(Message(topic, b"x")) for _ in range(50)]
        futures[0].add_done_callback(called.append)
    assert all(future.result(0).status is SendStatus.SEND_OK for future in futures)
    assert called == [futures[0]]
    with pytest.raises(ClientClosedError):
        producer.send_soon(Message(topic, b"x"))


def test_S17_who_waits_for_a_future_does_not_wait_for_linger(namesrv, topic):
    with rocketpy.sync.Producer("pg", namesrv=namesrv, linger=2.9) as producer:
        producer.send(Message(topic, b"warm"))
        assert producer.send_soon(Message(topic, b"x")).result(1).status is SendStatus.SEND_OK


def test_S17_what_is_wrong_with_a_message_is_told_at_once(namesrv, topic):
    with rocketpy.sync.Producer("pg", namesrv=namesrv, linger=LINGER) as producer:
        with pytest.raises(ConfigError):
            producer.send_soon(Message("a b", b"x"))
        with pytest.raises(ConfigError, match="belongs to Other"):
            producer.send_soon(Message(topic, b"x"), queue=rocketpy.MessageQueue("Other", "b", 0))
        assert producer.send_soon(Message(topic, b"x")).result(5)


def test_S17_a_message_that_a_broker_refuses_fails_alone(watched):
    with rocketpy.sync.Producer(
        "pg", namesrv=watched.name_server_addresses, linger=0.05, compress_body_over=1 << 30, batch_max_bytes=1 << 20
    ) as producer:
        producer.send(Message("Orders", b"warm"))
        watched.refuse_sends(3, code=13)
        futures = [producer.send_soon(Message("Orders", b"%d" % n)) for n in range(4)]
        outcomes = [future.exception(10) for future in futures]
        assert len([each for each in outcomes if each is None]) >= 1
        assert {type(each) for each in outcomes} <= {MessageIllegalError, type(None)}


@pytest.mark.waits("until a message has found no room in time")
def test_S17_room_is_waited_for_until_the_deadline(watched):
    with rocketpy.sync.Producer(
        "pg", namesrv=watched.name_server_addresses, linger=LINGER, total_batch_max_bytes=100
    ) as producer:
        producer.send(Message("Orders", b"warm"))
        watched.delay_sends(0.3, 1)
        first = producer.send_soon(Message("Orders", b"x" * 90))
        with pytest.raises(TooManyRequestsError, match="raise total_batch_max_bytes"):
            producer.send_soon(Message("Orders", b"x" * 90), timeout=0.05)
        assert producer.send_soon(Message("Orders", b"x" * 90)).result(5), "there is room when the first has ended"
        assert first.done()


def test_S17_a_signal_handler_sends_while_its_thread_does(namesrv, topic):
    """A handler may strike in the middle of any line of `send_soon`, and wait.

    Each one asks for the next when it is done: with a timer that repeats, a machine on which a send takes
    longer than the interval would nest them without end.
    """
    results = []
    with rocketpy.sync.Producer("pg", namesrv=namesrv, linger=LINGER) as producer:
        producer.send(Message(topic, b"warm"))

        def handler(*_):
            results.append(producer.send(Message(topic, b"from the handler")))
            producer.send_soon(Message(topic, b"soon, from the handler"))
            signal.setitimer(signal.ITIMER_REAL, 0.002)

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            futures = [producer.send_soon(Message(topic, b"%d" % n)) for n in range(3000)]
            for future in futures:
                future.result(10)
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert results
    assert all(result.status is SendStatus.SEND_OK for result in results)


def test_S17_callers_in_many_threads_keep_each_their_own_order(cluster, namesrv, topic):
    with rocketpy.sync.Producer("pg", namesrv=namesrv, linger=LINGER) as producer:
        producer.create_topic(topic, queues=4)

        def work(number):
            for count in range(50):
                producer.send_soon(Message(topic, b"%d" % count, sharding_key=f"thread-{number}"))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = sorted(cluster.messages(topic), key=lambda each: (each.queue_id, each.queue_offset))
    for number in range(8):
        assert [int(each.body) for each in stored if each.sharding_key == f"thread-{number}"] == list(range(50))


# --- asyncio ---------------------------------------------------------------------------------------------------


def test_S17_a_task_that_is_cancelled_leaves_nothing_behind(namesrv, topic):
    async def main():
        async with rocketpy.aio.Producer("pg", namesrv=namesrv, linger=2.0) as producer:
            await producer.send(Message(topic, b"warm"))
            tasks = [asyncio.create_task(producer.send(Message(topic, b"x"))) for _ in range(5)]
            await asyncio.sleep(0)
            tasks[2].cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each).__name__ for each in done].count("CancelledError") == 1
            return producer._lingering._taken, producer._lingering._under_way

    assert asyncio.run(main()) == (0, 0)


@pytest.mark.waits("until a message has found no room in time")
def test_S17_bytes_are_bounded_on_asyncio_too(watched):
    async def main():
        async with rocketpy.aio.Producer(
            "pg", namesrv=watched.name_server_addresses, linger=LINGER, total_batch_max_bytes=100
        ) as producer:
            await producer.send(Message("Orders", b"warm"))
            watched.delay_sends(0.3, 1)
            first = asyncio.create_task(producer.send(Message("Orders", b"x" * 90)))
            await asyncio.sleep(0)
            with pytest.raises(TooManyRequestsError):
                await producer.send(Message("Orders", b"x" * 90), timeout=0.05)
            assert await producer.send(Message("Orders", b"x" * 90))
            assert first.done()

    asyncio.run(main())


def test_S17_the_time_of_a_message_begins_before_its_selector_is_called(surface, namesrv, topic, monkeypatch):
    deadlines, latest = [], []
    drop_in = Accumulator.drop_in

    def noting(self, entry):
        deadlines.append(entry.deadline)
        drop_in(self, entry)

    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv, send_timeout=3, linger=LINGER)) as producer:

            def select(queues, message, arg):
                latest.append(clock() + 3)
                return queues[0]

            clock = getattr(producer, "_inner", producer).outside.core.clock
            await call(producer.create_topic(topic))
            await call(producer.send(Message(topic, b"x"), selector=select))
            if surface.name == "blocking":
                producer.send_soon(Message(topic, b"x"), selector=select).result(10)

    monkeypatch.setattr(Accumulator, "drop_in", noting)
    surface.run(main)
    assert len(deadlines) == len(latest) > 0
    assert all(given <= most for given, most in zip(deadlines, latest, strict=True))
