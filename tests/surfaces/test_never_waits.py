"""What only looks, or only notes what is wanted, waits for nothing: not even for a background thread that is busy."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from rocketpy import ConfigError, ConsumeFromWhere, Message
from rocketpy.portal import portal
from rocketpy.sync import Producer as BlockingProducer
from tests.surfaces.surface import SURFACES, call, entered

pytestmark = pytest.mark.waits("the loop is asyncio's, which has no virtual clock")

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SOON = 3.0
"""Seconds: none of this takes any, but the machine may be busy."""
LONG = 200.0
"""Seconds for three thousand messages while another thread wants the interpreter all the time."""
KINDS = pytest.mark.parametrize("kind", ["PushConsumer", "LitePullConsumer"])
PORTALS = pytest.mark.parametrize("surface", [SURFACES["blocking"], SURFACES["asyncio"]], ids=["blocking", "asyncio"])


@contextmanager
def busy_portal():
    """The thread of the portal does something else until the block is left, and for a bounded time only."""
    release, busy = threading.Event(), threading.Event()
    portal().post(lambda: (busy.set(), release.wait(3 * SOON)))
    assert busy.wait(10)
    began = time.monotonic()
    try:
        yield
        assert time.monotonic() - began < SOON
    finally:
        release.set()


def use_all(consumer, topic):
    """Everything that is plain on all surfaces."""
    pulls = hasattr(consumer, "poll")
    listener = () if pulls else (print,)
    consumer.subscribe(topic, *listener)
    consumer.subscribe("Another", *listener, tags="a || b")
    consumer.unsubscribe("Another")
    for bad in [("bad name", *listener)] + [("T", None)] * (not pulls):
        with pytest.raises(ConfigError):
            consumer.subscribe(*bad)
    if pulls:
        consumer.on_queues_changed(topic, print)
    with pytest.raises(ConfigError):
        consumer.unsubscribe("Another")
    assert topic in consumer.status().topics
    assert consumer.statistics().rebalances
    return consumer.assignment


@KINDS
@PORTALS
def test_a_busy_portal_keeps_nobody(surface, kind, namesrv, topic):
    with BlockingProducer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=2)
        producer.send(Message(topic, b"x"))

    async def main():
        made = getattr(surface.module, kind)(f"busy-{surface.name}-{kind}", namesrv=namesrv, consume_from_where=FIRST)
        async with entered(made) as consumer:
            with busy_portal():
                assert use_all(consumer, topic) == ()
            assert len(await call(consumer.wait_assigned(10))) == 2  # what was noted is done
            messages = await call(consumer.poll(1, timeout=10)) if kind == "LitePullConsumer" else []
            with busy_portal():
                for message in messages:
                    consumer.ack(message)
                consumer.unsubscribe(topic)
            until = time.monotonic() + 10
            while consumer.assignment and time.monotonic() < until:
                with pytest.raises(ConfigError):
                    consumer.unsubscribe(topic)
            assert consumer.assignment == ()

    surface.run(main)


class Dying:
    def __init__(self, function):
        self.function = function
        self.self = self

    def __del__(self):
        self.function()


def in_thread(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()


def in_a_signal_handler(function):
    before = signal.signal(signal.SIGUSR1, lambda number, frame: function())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def in_del(function):
    gc.collect()
    Dying(function)
    gc.collect()


def in_the_portal(function):
    """As `__del__` may be, wherever it strikes. Not with the portal busy, of course."""
    done = threading.Event()
    portal().post(lambda: (function(), done.set()))
    assert done.wait(SOON)


@KINDS
@pytest.mark.parametrize("place", [in_thread, in_a_signal_handler, in_del, in_the_portal])
def test_blocking_code_may_look_and_subscribe_from_anywhere(namesrv, topic, place, kind):
    consumer = getattr(SURFACES["blocking"].module, kind)(f"anywhere-{place.__name__}-{kind}", namesrv=namesrv)
    used = []
    with consumer:
        if place is in_the_portal:
            place(lambda: used.append(use_all(consumer, topic)))
        else:
            with busy_portal():
                place(lambda: used.append(use_all(consumer, topic)))
    assert used == [()]


@KINDS
@pytest.mark.parametrize("place", [in_thread, in_a_signal_handler, in_del, in_the_portal])
def test_asyncio_code_may_look_from_anywhere_and_subscribes_in_its_loop(namesrv, topic, place, kind):
    listener, figure = ((print,), "consumed") if kind == "PushConsumer" else ((), "handed_out")

    async def main():
        async with getattr(SURFACES["asyncio"].module, kind)(f"a-{place.__name__}", namesrv=namesrv) as consumer:
            seen = []

            def look():
                seen.append((consumer.assignment, consumer.status().state, getattr(consumer.statistics(), figure)))
                if place in (in_thread, in_the_portal):
                    with pytest.raises(ConfigError, match="run_coroutine_threadsafe"):
                        consumer.subscribe(topic, *listener)

            place(look)
            assert seen == [((), "open", 0)]

    SURFACES["asyncio"].run(main)


@pytest.mark.slow
@PORTALS
def test_it_may_be_looked_at_all_the_while(surface, namesrv, topic):
    """Torn states would show as errors of the dicts that are read while they change."""
    messages = 3000
    with BlockingProducer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=3)
        producer.send_many(Message(topic, b"%d" % number) for number in range(messages))
    looks, errors, over = [], [], threading.Event()

    def look(consumer):
        while not over.is_set():
            try:
                status = consumer.status()
                looks.append(consumer.statistics().consumed)
                assert all(each.commit_offset <= each.next_offset for each in status.queues.values())
                assert all(each.held_messages >= 0 <= each.span for each in status.queues.values())
                time.sleep(0)  # else the threads that consume get a turn only every few milliseconds
            except Exception as error:  # noqa: BLE001
                errors.append(error)
                return

    async def main():
        consumer = surface.module.PushConsumer(f"torn-{surface.name}", namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, lambda message: None)
        watching = threading.Thread(target=look, args=(consumer,))
        async with entered(consumer):
            watching.start()
            while consumer.statistics().consumed < messages and not errors:
                await call(consumer.wait_assigned(10))
                if surface.name == "asyncio":
                    await asyncio.sleep(0.01)
        over.set()
        watching.join(10)
        assert consumer.statistics().consumed == messages
        assert consumer.status().state == "closed"

    faulthandler.dump_traceback_later(LONG + 40, exit=True)
    try:
        surface.run(main, limit=LONG)
    finally:
        over.set()
        faulthandler.cancel_dump_traceback_later()
    assert errors == []
    assert looks
