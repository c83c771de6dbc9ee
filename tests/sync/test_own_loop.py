"""Async listeners of blocking code: in a loop of the consumer's own, where what blocks blocks nobody else."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest
import trio

from rocketpy.consumer.calling.runners import TaskRunner
from rocketpy.errors import ConfigError, ServiceCrashedError
from rocketpy.sync import ConsumeFromWhere, Message, Producer, PushConsumer
from rocketpy.sync import listeners as own_loop

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WAIT = 20
"""Seconds for what comes soon."""
PATIENT = {"await_termination": 60, "close_timeout": 60}
"""Closing that waits in vain takes far longer."""


@pytest.fixture
def producer(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as made:
        made.create_topic(topic, queues=2)
        yield made


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    def threads():
        return {thread for thread in threading.enumerate() if thread.name == "rocketpy-listeners"}

    before = threads()
    yield
    for thread in threads() - before:
        thread.join(5)
    assert threads() <= before


def consumer_of(namesrv, topic, listener, group=None, **settings):
    made = PushConsumer(group or f"own-{topic}", namesrv=namesrv, consume_from_where=FIRST, **settings)
    made.subscribe(topic, listener)
    return made


def test_they_run_in_one_thread_of_their_own_and_may_use_trio(namesrv, topic, producer):
    threads, full = [], threading.Event()

    async def listener(message):
        await trio.lowlevel.checkpoint()
        threads.append(threading.current_thread().name)
        if len(threads) == 50:
            full.set()

    for number in range(50):
        producer.send_soon(Message(topic, b"%d" % number))
    with consumer_of(namesrv, topic, listener):
        assert full.wait(WAIT)
    assert set(threads) == {"rocketpy-listeners"}
    assert len(threads) == 50


def test_plain_listeners_alone_start_no_loop(namesrv, topic, producer):
    done = threading.Event()
    producer.send(Message(topic, b"x"))
    with consumer_of(namesrv, topic, lambda message: done.set()):
        assert done.wait(WAIT)
        assert "rocketpy-listeners" not in [thread.name for thread in threading.enumerate()]


def test_one_that_blocks_holds_up_no_other_client(namesrv, topic, producer):
    entered, release, sent = threading.Event(), threading.Event(), []

    async def listener(message):
        entered.set()
        sent.append(release.wait(WAIT))  # the whole loop stands

    producer.send(Message(topic, b"x"))
    with consumer_of(namesrv, topic, listener) as consumer:
        assert entered.wait(WAIT)
        other = f"{topic}Other"
        producer.create_topic(other, queues=1)
        for number in range(5):
            producer.send(Message(other, b"%d" % number))
        assert consumer.status().state == "open"
        release.set()
    assert sent == [True]


def test_they_may_call_what_blocks(namesrv, topic, producer):
    """In the portal each of these would wait for itself for ever."""
    got, done, other = [], threading.Event(), f"{topic}Other"
    consumer_is_open = threading.Event()
    producer.create_topic(other, queues=1)

    async def listener(message):
        assert consumer_is_open.wait(WAIT)
        got.append(producer.send(Message(other, message.body)).status.name)
        got.append(producer.send_soon(Message(other, message.body)).result(WAIT).status.name)
        got.append(len(consumer.wait_assigned(WAIT)))
        got.append(producer.queues(other)[0].topic)
        with Producer("another", namesrv=namesrv) as made:
            got.append(made.send(Message(other, b"x")).status.name)
        done.set()

    producer.send(Message(topic, b"x"))
    with consumer_of(namesrv, topic, listener) as consumer:
        consumer_is_open.set()
        assert done.wait(WAIT)
    assert got == ["SEND_OK", "SEND_OK", 2, other, "SEND_OK"]


def test_no_more_run_side_by_side_than_consume_thread_max(namesrv, topic, producer):
    running, most, ended, full, together = 0, 0, [], threading.Event(), trio.Event()

    async def listener(message):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            together.set()
        await together.wait()
        running -= 1
        ended.append(message)
        if len(ended) == 20:
            full.set()

    for number in range(20):
        producer.send(Message(topic, b"%d" % number))
    with consumer_of(namesrv, topic, listener, consume_thread_max=3):
        assert full.wait(WAIT)
    assert most == 3


@pytest.mark.waits("closing waits for a listener in a real thread for as long as it may")
def test_they_get_await_termination_and_are_cancelled_then(namesrv, topic, producer, caplog):
    entered, ended, again = threading.Event(), [], threading.Event()

    async def listener(message):
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    producer.send(Message(topic, b"x"))
    with caplog.at_level(logging.CRITICAL):
        with consumer_of(namesrv, topic, listener, await_termination=0.2):
            assert entered.wait(WAIT)
        assert ended == ["cancelled"]
        with consumer_of(namesrv, topic, lambda message: again.set()):
            assert again.wait(WAIT)  # cut off, hence neither acknowledged nor given back


@pytest.mark.waits("a listener in a real thread holds closing up for as long as it may")
def test_one_that_cannot_be_cancelled_is_left_alone(namesrv, topic, producer, caplog, monkeypatch):
    monkeypatch.setattr(own_loop, "_PATIENCE", 0.1)
    entered, release = threading.Event(), threading.Event()

    async def listener(message):
        entered.set()
        release.wait(WAIT)

    producer.send(Message(topic, b"x"))
    began = time.monotonic()
    try:
        with consumer_of(namesrv, topic, listener, await_termination=0.1):
            assert entered.wait(WAIT)
        assert time.monotonic() - began < WAIT / 2
        assert "1 async listener did not end" in caplog.text
    finally:
        release.set()


@pytest.mark.waits("a listener in a real thread takes too long")
def test_one_that_takes_too_long_is_told_by_the_clock_of_the_consumer(namesrv, topic, producer, caplog):
    tries, done = [], threading.Event()

    async def listener(message):
        tries.append(message.reconsume_times)
        if message.reconsume_times:
            done.set()
        else:
            await trio.sleep_forever()

    producer.send(Message(topic, b"x"))
    with caplog.at_level(logging.CRITICAL):
        with consumer_of(
            namesrv, topic, listener, consume_timeout=0.3, consume_thread_max=1, await_termination=0.1
        ) as consumer:
            assert done.wait(WAIT)
            assert consumer.statistics().timed_out == 1
    assert tries == [0, 1]


@pytest.mark.waits("looks until the loop of the portal has come to a state")
@pytest.mark.parametrize("waiting", ["run_forever", "close"])
def test_the_end_of_its_loop_is_heard(namesrv, topic, producer, waiting, monkeypatch, caplog):
    def broken(self, lane, call, outcome):
        raise ValueError("a bug in the runner")

    async def listener(message):
        caught.append(message)
        return True  # what returns nothing is not noted there

    monkeypatch.setattr(TaskRunner, "_note", broken)
    caught = []
    producer.send(Message(topic, b"x"))
    consumer = consumer_of(namesrv, topic, listener)
    with caplog.at_level(logging.CRITICAL):
        if waiting == "close":
            consumer.start()
            while consumer.status().state != "closed":
                time.sleep(0.01)
        with pytest.raises(ServiceCrashedError, match="a bug in the runner"):
            getattr(consumer, waiting)()
    assert len(caught) == 1


def test_one_that_is_written_for_asyncio_is_told_that_it_runs_on_trio(namesrv, topic, producer, caplog):
    failed = threading.Event()

    async def listener(message):
        try:
            asyncio.get_running_loop()
        finally:
            failed.set()

    producer.send(Message(topic, b"x"))
    with consumer_of(namesrv, topic, listener):
        assert failed.wait(WAIT)
    assert "async listeners of rocketpy.sync run on trio" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_a_listener_raises_ends_no_other_client(namesrv, topic, producer, error, caplog):
    raised = threading.Event()

    async def listener(message):
        raised.set()
        raise error

    producer.send(Message(topic, b"x"))
    with caplog.at_level(logging.CRITICAL):
        consumer = consumer_of(namesrv, topic, listener, f"raises-{error.__name__}")
        consumer.start()
        assert raised.wait(WAIT)
        producer.send(Message(topic, b"x"))
        consumer.close()
        producer.send(Message(topic, b"x"))


def test_a_finalizer_that_strikes_in_the_loop_may_close_the_consumer(namesrv, topic, producer):
    """It is in no listener then, and yet closing waits for its thread."""
    struck, closed = threading.Event(), threading.Event()
    seconds = []

    async def listener(message):
        trio.lowlevel.current_trio_token().run_sync_soon(close)

    def close():
        began = time.monotonic()
        consumer.close()
        seconds.append(time.monotonic() - began)
        struck.set()

    producer.send(Message(topic, b"x"))
    consumer = consumer_of(namesrv, topic, listener, **PATIENT)
    consumer.start()
    assert struck.wait(WAIT)
    assert seconds[0] < WAIT
    waiter = threading.Thread(target=lambda: (consumer.close(), closed.set()))
    began = time.monotonic()
    waiter.start()
    assert closed.wait(WAIT)
    waiter.join()
    assert time.monotonic() - began < WAIT


def strike_while_telling(owner, function):
    """Call a function, as a finalizer would, the next time that this thread posts something to an object's loop.

    A lock of trio's is held then.
    """
    token = owner._token

    class Struck:
        def run_sync_soon(self, job, **keywords):
            owner._token = token
            with token._reentry_queue.lock:
                function()
                token.run_sync_soon(job, **keywords)

    owner._token = Struck()


def strike_while_waking(home, function):
    """The same while a portal is woken, as for a send that cannot take the direct path."""
    home.call(trio.lowlevel.checkpoint)  # so that it goes to sleep, and has to be woken
    strike_while_telling(home, function)
    home.post(list)


@pytest.mark.parametrize("place", ["send", "pause"])
def test_a_finalizer_that_strikes_while_a_call_tells_the_portal_may_close_the_consumer(namesrv, topic, producer, place):
    """The call holds a lock of trio's that threads of listeners need in order to end."""
    heard, seconds = threading.Event(), []
    consumer = PushConsumer(f"own-{topic}", namesrv=namesrv, consume_from_where=FIRST, **PATIENT)

    async def listener(message):
        heard.set()

    consumer.subscribe(topic, listener)
    consumer.start()
    producer.send(Message(topic, b"x"))
    assert heard.wait(WAIT)

    def close():
        began = time.monotonic()
        consumer.close()
        seconds.append(time.monotonic() - began)

    if place == "send":
        strike_while_waking(consumer._portal, close)
    else:
        strike_while_telling(consumer._inner._running, close)
        consumer.pause()
    assert seconds[0] < WAIT
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < WAIT


@pytest.mark.parametrize("setting", ["offset_store", "on_assigned", "on_revoked", "allocate_strategy"])
def test_a_finalizer_that_strikes_there_does_not_wait_for_functions_in_threads(namesrv, topic, producer, setting):
    """The threads cannot report back before the finalizer returns."""
    refused = []

    class Shelf(dict):
        read, write = dict.get, dict.update

    functions = {"offset_store": Shelf(), "allocate_strategy": lambda request: request.queues}
    consumer = PushConsumer(f"own-{topic}", namesrv=namesrv, **{setting: functions.get(setting, lambda queues: None)})
    consumer.subscribe(topic, lambda message: None)

    def use():
        for call in (consumer.commit, consumer.wait_assigned, consumer.start):
            with pytest.raises(ConfigError, match="hand this call to another thread") as caught:
                call()
            refused.append(caught)

    with consumer:
        strike_while_waking(consumer._portal, use)
        consumer.commit()
    assert len(refused) == 3
