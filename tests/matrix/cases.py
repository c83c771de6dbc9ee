"""Single cases of the ways in, which run in a worker: sends from users' code, order from cold, a busy portal."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import threading
import time
from collections import defaultdict
from contextlib import suppress

import rocketpy.aio
from rocketpy import ClientClosedError, ConfigError, RocketMQError, TooManyRequestsError
from rocketpy.message import Message
from rocketpy.portal import portal
from rocketpy.sync import ConsumeFromWhere, Producer, PushConsumer
from tests.matrix.cells import check_innocent, cluster, innocent
from tests.matrix.places import Dying
from tests.matrix.strikes import hole, signalled
from tests.matrix.worlds import unique

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
KEYS, PER_KEY = 5, 40
ROUNDS = 3
"""Cold starts: one of them may come out in order by luck."""


def namesrv():
    return cluster().name_server_addresses


def new_topic():
    made = unique("Topic")
    cluster().create_topic(made)
    return made


def stored(topic, count):
    """What the broker holds of a topic, when it holds so many messages."""
    return [each["body"] for each in cluster().wait_messages(topic, count)]


# --- done-callbacks that send --------------------------------------------------------------------------


def chain_of_callbacks():
    topic, done = new_topic(), threading.Event()
    with Producer(unique("pg"), namesrv=namesrv()) as producer:

        def send(number):
            producer.send_soon(Message(topic, b"%d" % number)).add_done_callback(lambda future: went(future, number))

        def went(future, number):
            future.result()
            if number == 99:
                done.set()
            else:
                send(number + 1)

        send(0)
        assert done.wait(10), "a callback that sends the next one did not come to its end"
    assert sorted(map(int, stored(topic, 100))) == list(range(100))


def fan_out():
    """Every callback sends two more, with room for 16 on their way."""
    topic, total = new_topic(), 2000
    sent, answered = itertools.count(), itertools.count(1)
    done, errors = threading.Event(), []
    with Producer(unique("pg"), namesrv=namesrv(), back_pressure_for_async_send_num=16) as producer:

        def send():
            if (number := next(sent)) < total:
                producer.send_soon(Message(topic, b"%d" % number)).add_done_callback(went)

        def went(future):
            try:
                future.result()
                send()
                send()
            except Exception as error:  # noqa: BLE001 - told below
                errors.append(error)
            if next(answered) == total:
                done.set()

        send()
        assert done.wait(60), f"{next(answered) - 1} of {total} callbacks came, errors: {errors[:3]}"
    assert not errors, errors[:3]
    assert sorted(map(int, stored(topic, total))) == list(range(total))


def listener_that_sends():
    """An async listener on the blocking surface passes everything on, waiting and without."""
    source, target, count = new_topic(), new_topic(), 20
    kept = []
    with (
        Producer(unique("pg"), namesrv=namesrv()) as producer,
        PushConsumer(unique("cg"), namesrv=namesrv(), consume_from_where=FIRST) as consumer,
    ):

        async def pass_on(message):
            producer.send(Message(target, b"waited " + message.body))
            kept.append(producer.send_soon(Message(target, b"soon " + message.body)))

        for number in range(count):
            producer.send(Message(source, b"%d" % number))
        consumer.subscribe(source, pass_on)
        found = stored(target, 2 * count)
        cluster().wait_consumed(consumer.config.group, source)
    assert sorted(found) == sorted(f"{how} {number}" for how in ("waited", "soon") for number in range(count))


# --- signals, finalisers, the portal -------------------------------------------------------------------


def close_in_a_signal_during_start():
    with hole() as nobody:
        consumer = PushConsumer(unique("cg"), namesrv=nobody, request_timeout=1.0)
        consumer.subscribe("Orders", lambda message: None)
        took = []

        def close(number, frame):
            began = time.monotonic()
            with suppress(ConfigError, ClientClosedError):
                consumer.close()
            took.append(time.monotonic() - began)

        began = time.monotonic()
        with signalled(close):
            with suppress(RocketMQError):
                consumer.start()
        assert time.monotonic() - began < 5, "start() took too long"
        assert took, "the handler never came to its end"
        assert took[0] < 2, f"close() took {took[0]:.1f} s"
        consumer.close()
    check_innocent("")


def send_soon_in_the_portal_without_room():
    """Waiting for room there would never end, because the waiting code itself has to make the room."""
    said, over = [], threading.Event()
    settings = {"back_pressure_for_async_send_num": 2, "send_timeout": 10}
    with Producer(unique("pg"), namesrv=namesrv(), **settings) as producer:
        producer.send(Message("Orders", b"connects"))
        cluster().hold_sends(2)

        def fill():
            try:
                for _ in range(3):
                    producer.send_soon(Message("Orders", b"x"))
            except Exception as error:  # noqa: BLE001 - looked at below
                said.append(error)
            over.set()

        began = time.monotonic()
        portal().post(fill)
        assert over.wait(6), "it waits in the portal"
        took = time.monotonic() - began
        cluster().let_go()
    assert [type(error) for error in said] == [TooManyRequestsError], said
    assert "send in a thread of yours" in str(said[0]), said
    assert took < 4, f"it was refused after {took:.1f} s only"
    check_innocent("")


def finaliser_in_the_middle_of_send_soon():
    """Sends in `__del__`, at hundreds of places of our own code, locks held or not."""
    topic, outcomes = new_topic(), []
    before = gc.get_threshold()
    with Producer(unique("pg"), namesrv=namesrv(), back_pressure_for_async_send_num=4) as producer:

        def last_words():
            try:
                outcomes.append(producer.send_soon(Message(topic, b"last words")))
            except (ConfigError, ClientClosedError) as error:
                outcomes.append(error)

        gc.collect()
        gc.set_threshold(1, 1, 1)
        try:
            Dying(last_words, again=150)
            futures = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(150)]
            for future in futures:
                future.result(10)
        finally:
            gc.set_threshold(*before)
        gc.collect()
        sent = [each for each in outcomes if not isinstance(each, Exception)]
        for future in sent:
            future.result(10)
    assert outcomes, "no finaliser ran"
    assert len(stored(topic, 150 + len(sent))) == 150 + len(sent)


def looking_while_the_portal_is_busy():
    """On asyncio, `status()` and `assignment` may not hold up the loop."""

    def stand_still(busy, leave):
        busy.set()
        leave.wait(6)

    async def main():
        async with rocketpy.aio.PushConsumer(unique("cg"), namesrv=namesrv()) as consumer:
            consumer.subscribe("Orders", lambda message: None)
            await consumer.wait_assigned(10)
            slowest, late = {}, []
            for name in ("status", "assignment", "statistics"):
                busy, leave = threading.Event(), threading.Event()
                portal().post(stand_still, busy, leave)
                assert await asyncio.to_thread(busy.wait, 10), "the portal does not come to it"
                began = time.monotonic()
                looked = getattr(consumer, name)
                if name != "assignment":
                    looked()
                slowest[name] = time.monotonic() - began
                late += [name] if slowest[name] > 3 else []
                leave.set()
            assert not late, f"the loop stood still for {slowest}"

    asyncio.run(main())


# --- order ---------------------------------------------------------------------------------------------


def numbered(topic, first=0):
    """Messages of five keys, in turn, each with its number within the key."""
    for number in range(first, first + PER_KEY):
        for key in range(KEYS):
            yield Message(topic, b"%d" % number, sharding_key=f"key {key}")


def check_order(topic, expected=None):
    """Each key lies in one queue, its numbers rising; all of `expected`, where that is given."""
    numbers, queues = defaultdict(list), defaultdict(set)
    for each in sorted(cluster().messages(topic), key=lambda each: (each["broker"], each["queue"], each["offset"])):
        numbers[each["key"]].append(int(each["body"]))
        queues[each["key"]].add((each["broker"], each["queue"]))
    wrong = [key for key, found in numbers.items() if found != sorted(set(found))]
    assert not wrong, f"out of order, or twice: { ({key: numbers[key] for key in wrong}) }"
    assert all(len(found) == 1 for found in queues.values()), queues
    if expected is not None:
        assert {key: len(found) for key, found in numbers.items()} == {f"key {key}": expected for key in range(KEYS)}


def keyed_soon_from_cold(known):
    """Right after the start, the route not known, the topic new or not."""
    for _ in range(ROUNDS):
        topic = new_topic() if known else unique("New")
        with Producer(unique("pg"), namesrv=namesrv()) as producer:
            futures = [producer.send_soon(message) for message in numbered(topic)]
            for future in futures:
                future.result(10)
        check_order(topic, PER_KEY)


def keyed_soon_after_a_restart():
    topic = new_topic()
    with Producer(unique("pg"), namesrv=namesrv(), send_timeout=10) as producer:
        for round_number in range(2):
            futures = [producer.send_soon(message) for message in numbered(topic, round_number * PER_KEY)]
            for future in futures:
                future.result(15)
            cluster().restart_broker(0)
    check_order(topic, 2 * PER_KEY)


def keyed_soon_during_a_restart():
    """What was under way may fail; what is stored lies in order, and once."""
    topic = new_topic()
    with Producer(unique("pg"), namesrv=namesrv(), send_timeout=10) as producer:
        restart = threading.Timer(0.05, lambda: cluster().restart_broker(0))
        restart.start()
        futures = []
        for round_number in range(40):
            futures += [producer.send_soon(message) for message in numbered(topic, round_number * PER_KEY)]
        failed = sum(1 for future in futures if future.exception(20) is not None)
        restart.join()
        assert failed < len(futures), "nothing was sent"
        producer.send(Message(topic, b"1000000", sharding_key="key 0"))
    check_order(topic)


def keyed_on_asyncio_from_cold(known):

    async def main():
        async with rocketpy.aio.Producer(unique("pg"), namesrv=namesrv()) as producer:
            await asyncio.gather(*(producer.send(message, timeout=10) for message in numbered(topic)))

    for _ in range(ROUNDS):
        topic = new_topic() if known else unique("New")
        asyncio.run(main())
        check_order(topic, PER_KEY)


def keyed_on_asyncio_after_a_restart():
    topic = new_topic()

    async def main():
        async with rocketpy.aio.Producer(unique("pg"), namesrv=namesrv()) as producer:
            for round_number in range(3):
                messages = numbered(topic, round_number * PER_KEY)
                await asyncio.gather(*(producer.send(message, timeout=10) for message in messages))
                await asyncio.to_thread(cluster().restart_broker, 0)

    asyncio.run(main())
    check_order(topic, 3 * PER_KEY)


def threads_of_the_process():
    """How many threads there are with a producer and after it; none may stay that belongs to it."""
    innocent().send(Message("Orders", b"x"))
    before = threading.active_count()
    for _ in range(3):
        with Producer(unique("pg"), namesrv=namesrv()) as producer:
            future = producer.send_soon(Message("Orders", b"x"))
            future.add_done_callback(lambda future: None)
            future.result(10)
    until = time.monotonic() + 3
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.02)
    left = [thread.name for thread in threading.enumerate()]
    assert threading.active_count() <= before, f"process {os.getpid()} has threads left: {left}"
