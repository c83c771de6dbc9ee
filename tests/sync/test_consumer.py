"""The blocking push consumer against a real name server and broker, over TCP."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter

import pytest

from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.portal import portal
from rocketpy.sync import ConsumeFromWhere, ConsumeResult, Message, MQClientInstance, Producer, PushConsumer
from rocketpy.sync.signals import Signals

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUICK_SIGNALS = {("blocking", signal.SIGINT), ("trio", signal.SIGTERM), ("asyncio", signal.SIGINT)}
SIGNALS = pytest.mark.parametrize(
    ("surface", "number"),
    [
        pytest.param(surface, number, marks=() if (surface, number) in QUICK_SIGNALS else pytest.mark.matrix)
        for surface in ("blocking", "trio", "asyncio")
        for number in (signal.SIGINT, signal.SIGTERM)
    ],
)
"""Each surface and each signal; all pairs of them with the other matrices."""


class Inbox:
    """What listeners got, from any thread."""

    def __init__(self, wanted):
        self._wanted = wanted
        self._full = threading.Event()
        self._lock = threading.Lock()
        self.bodies = []
        self.threads = set()

    def __call__(self, message):
        with self._lock:
            self.bodies.append(message.body)
            self.threads.add(threading.current_thread().name)
            if len(self.bodies) >= self._wanted:
                self._full.set()

    def wait(self):
        assert self._full.wait(20), f"{len(self.bodies)} of {self._wanted} arrived"
        return Counter(self.bodies)


@pytest.fixture
def producer(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as made:
        made.create_topic(topic, queues=4)
        yield made


def test_every_message_arrives_once_in_worker_threads(namesrv, topic, producer):
    inbox = Inbox(300)
    with PushConsumer("once", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, inbox)
        assert len(consumer.wait_assigned(10)) == 4
        for number in range(300):
            producer.send_soon(Message(topic, b"%d" % number))
        assert inbox.wait() == Counter(b"%d" % number for number in range(300))
        assert "MainThread" not in inbox.threads
        assert consumer.statistics()
        assert consumer.status().group == "once"


def test_async_listeners_batches_and_tags(namesrv, topic, producer):
    got, full = [], threading.Event()

    async def listener(messages):
        got.extend(message.body for message in messages)
        if len(got) >= 50:
            full.set()

    with PushConsumer(
        "batches", namesrv=namesrv, consume_from_where=FIRST, consume_message_batch_max_size=16
    ) as consumer:
        consumer.subscribe(topic, listener, tags="yes || also")
        for number in range(100):
            producer.send_soon(Message(topic, b"%d" % number, tags="yes" if number % 2 else "no"))
        assert full.wait(20)
    assert sorted(got) == sorted(b"%d" % number for number in range(1, 100, 2))


def test_OF3_what_was_finished_does_not_come_again(namesrv, topic, producer):
    first, second = Inbox(20), Inbox(5)
    for number in range(20):
        producer.send(Message(topic, b"first %d" % number))
    for inbox, count in ((first, 0), (second, 5)):
        for number in range(count):
            producer.send(Message(topic, b"second %d" % number))
        with PushConsumer("resume", namesrv=namesrv, consume_from_where=FIRST) as consumer:
            consumer.subscribe(topic, inbox)
            inbox.wait()
    assert len(first.bodies) == 20
    assert sorted(second.bodies) == [b"second %d" % number for number in range(5)]


def test_S10_a_large_body_travels_compressed_and_arrives_as_it_was(namesrv, topic, producer):
    body = b"flight UA1545 from EWR to IAH\n" * 1000
    got, arrived = [], threading.Event()

    def listener(message):
        got.append((message.body, message.sys_flag & 1, message.store_size))
        arrived.set()

    with PushConsumer("large", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, listener)
        producer.send(Message(topic, body))
        assert arrived.wait(20)
    [(received, compressed, stored)] = got
    assert received == body
    assert compressed
    assert stored < len(body) / 10


@pytest.mark.waits("looks until the loop of the portal has come to a state")
def test_two_consumers_of_a_group_share_the_queues(namesrv, topic, producer):
    inbox = Inbox(100)
    with (
        PushConsumer("shared", namesrv=namesrv, consume_from_where=FIRST) as one,
        PushConsumer("shared", namesrv=namesrv, consume_from_where=FIRST) as two,
    ):
        for consumer in (one, two):
            consumer.subscribe(topic, inbox)
        changed = threading.Event()
        while len(one.assignment) != 2 or len(two.assignment) != 2:
            assert not changed.wait(0.05)
        assert set(one.assignment).isdisjoint(two.assignment)
        for number in range(100):
            producer.send_soon(Message(topic, b"%d" % number))
        assert set(inbox.wait().values()) == {1}


@pytest.mark.waits("a message that failed comes again after a second, from a broker in real time")
def test_RT1_a_message_that_failed_comes_again(namesrv, topic, producer):
    tries, done = [], threading.Event()

    def listener(message):
        tries.append((message.topic, message.reconsume_times))
        if message.reconsume_times == 0:
            return ConsumeResult.RETRY
        done.set()
        return None

    with PushConsumer("again", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic, listener)
        consumer.wait_assigned(10)
        producer.send(Message(topic, b"x"))
        assert done.wait(30)
    assert tries == [(topic, 0), (topic, 1)]


def test_PC1_what_cannot_work_is_refused(namesrv, topic):
    consumer = PushConsumer("checks", namesrv=namesrv)
    for bad in (("bad name", print), ("T", None), ("T", "listener")):
        with pytest.raises(ConfigError):
            consumer.subscribe(*bad)
    with pytest.raises(ConfigError):
        consumer.unsubscribe("NotSubscribed")
    with pytest.raises(ConfigError):
        PushConsumer("bad group name!", namesrv=namesrv)
    with pytest.raises(ClientClosedError, match="start"):
        consumer.wait_assigned(1)
    assert consumer.assignment == ()
    with consumer:
        with pytest.raises(ClientClosedError, match="already"):
            consumer.start()
        with pytest.raises(RequestTimeoutError):
            consumer.wait_assigned(0)
    consumer.close()
    with pytest.raises(ClientClosedError):
        consumer.start()


def test_LC2_a_producer_and_a_consumer_share_a_client(namesrv, topic, producer):
    inbox = Inbox(1)
    with MQClientInstance(namesrv=namesrv) as client:
        with PushConsumer("sharing", client=client, consume_from_where=FIRST) as consumer:
            consumer.subscribe(topic, inbox)
            with Producer("another", client=client) as sender:
                sender.send(Message(topic, b"hello"))
            assert inbox.wait() == {b"hello": 1}


@pytest.mark.waits("looks until the loop of the portal has come to a state")
def test_a_consumer_that_was_closed_by_another_thread_ends_run_forever(namesrv, topic):
    consumer = PushConsumer("forever", namesrv=namesrv)
    thread = threading.Thread(target=consumer.run_forever)
    thread.start()
    waiting = threading.Event()
    while consumer.status().state != "open":
        assert not waiting.wait(0.02)
    consumer.close()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.slow
@SIGNALS
def test_a_signal_ends_run_forever_with_offsets_committed(namesrv, topic, producer, number, surface):
    program = textwrap.dedent(
        """
        import asyncio, sys, trio, rocketpy, rocketpy.aio, rocketpy.sync
        surface, namesrv, topic = sys.argv[1:]
        def show(message):
            print(message.body.decode(), flush=True)
        kind = {"blocking": rocketpy.sync, "trio": rocketpy, "asyncio": rocketpy.aio}[surface].PushConsumer
        first = rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = kind("signalled", namesrv=namesrv, consume_from_where=first)
        consumer.subscribe(topic, show)
        if surface == "blocking":
            consumer.run_forever()
        elif surface == "trio":
            trio.run(consumer.run_forever)
        else:
            asyncio.run(consumer.run_forever())
        print("closed", flush=True)
        """
    )
    for expected in ("one", "two"):
        producer.send(Message(topic, expected.encode()))
        with subprocess.Popen(
            [sys.executable, "-c", program, surface, namesrv, topic], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == expected + "\n"
            process.send_signal(number)
            rest, _ = process.communicate(timeout=30)
        assert rest == "closed\n"
        assert process.returncode == 0


@pytest.mark.waits("closing waits for a listener in a real thread for as long as it may")
def test_a_listener_that_hangs_does_not_keep_the_consumer_from_closing(namesrv, topic, producer):
    entered, release = threading.Event(), threading.Event()

    def hang(message):
        entered.set()
        release.wait(60)

    consumer = PushConsumer("hanging", namesrv=namesrv, consume_from_where=FIRST, await_termination=0.2)
    consumer.subscribe(topic, hang)
    consumer.start()
    producer.send(Message(topic, b"x"))
    assert entered.wait(20)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    closing.join(15)
    assert not closing.is_alive()
    release.set()
    inbox = Inbox(1)
    with PushConsumer("hanging", namesrv=namesrv) as again:
        again.subscribe(topic, inbox)
        assert inbox.wait() == {b"x": 1}  # cut off, hence neither acknowledged nor given back


def test_a_signal_may_strike_while_the_event_is_locked():
    """In the main thread, that is in the very thread that holds the lock: waiting for it there would be for ever."""
    event = threading.Event()
    signals = Signals()
    signals.end(portal(), event)
    with event._cond:
        thread = threading.Thread(target=signals._handle, args=(signal.SIGTERM, None), daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
    assert event.wait(5)


@pytest.fixture
def struck():
    """The signals that strike as they did before anybody listened."""
    found = []
    numbers = signal.SIGINT, signal.SIGTERM
    before = {number: signal.signal(number, lambda number, _: found.append(number)) for number in numbers}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_strikes_as_usual_while_the_first_one_is_seen_to(struck, first, second):
    event = threading.Event()
    with Signals() as signals:
        signals.end(portal(), event)
        signal.raise_signal(first)
        assert struck == []
        signal.raise_signal(second)
        assert struck == [second]
        assert event.wait(10)
    signal.raise_signal(second)
    assert struck == [second, second]


def test_a_second_signal_strikes_as_usual_while_a_consumer_closes(namesrv, struck, monkeypatch):
    consumer, close, seen = PushConsumer("second", namesrv=namesrv), PushConsumer.close, []

    def struck_again(self):
        seen.append(list(struck))
        signal.raise_signal(signal.SIGTERM)
        seen.append(list(struck))
        close(self)

    monkeypatch.setattr(PushConsumer, "close", struck_again)
    wait = Signals.wait

    def struck_first(self, *ends):
        signal.raise_signal(signal.SIGTERM)
        wait(self, *ends)

    monkeypatch.setattr(Signals, "wait", struck_first)
    consumer.run_forever()
    assert seen == [[], [signal.SIGTERM]]
    assert consumer.status().state == "closed"


def test_a_signal_may_strike_while_handlers_are_put_back():
    signals = Signals()
    restored = []

    class Before(dict):
        def popitem(self):
            if not restored:
                restored.append(True)
                signals.restore()  # as the handler does, in the very same thread
            return super().popitem()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with signals:
        signals._before = Before(signals._before)
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.slow
@SIGNALS
def test_a_signal_that_comes_while_it_starts_ends_run_forever_in_order(namesrv, number, surface):
    program = textwrap.dedent(
        """
        import asyncio, os, sys, trio, rocketpy, rocketpy.aio, rocketpy.sync
        from rocketpy.consumer.running import RunningConsumer
        surface, namesrv, number = sys.argv[1:]
        start_services = RunningConsumer.start_services
        def interrupted(self):
            os.kill(os.getpid(), int(number))
            start_services(self)
        RunningConsumer.start_services = interrupted
        kind = {"blocking": rocketpy.sync, "trio": rocketpy, "asyncio": rocketpy.aio}[surface].PushConsumer
        consumer = kind("interrupted", namesrv=namesrv)
        if surface == "blocking":
            consumer.run_forever()
        elif surface == "trio":
            trio.run(consumer.run_forever)
        else:
            asyncio.run(consumer.run_forever())
        print("closed", flush=True)
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, surface, namesrv, str(int(number))], capture_output=True, text=True, timeout=30
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("closed\n", "", 0)
