"""The places of users' code from which a public call may be made, for blocking code; `async_places` has the others.

A place is a function of a world and an act; it has the act done where its name says.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import trio

from rocketpy import RocketMQError
from rocketpy.message import Message
from rocketpy.portal import portal
from rocketpy.serialization import JsonSerializer
from tests.matrix.worlds import in_thread, unique

__all__ = [
    "BLOCKING",
    "BUSY",
    "LISTENING",
    "MOST_SENDS",
    "SLOW",
    "Dying",
    "finalisers",
    "hole",
    "may_refuse",
    "message",
    "signalled",
]

LISTENING = {"a plain listener", "an async listener", "before_consume", "on_revoked"}
BUSY = {"a hook, before", "a hook, after", "the portal", "__del__, in our code"}
"""Places that may lie on the thread that completes other calls."""

MAY_REFUSE = {
    "a hook, before",
    "a hook, after",
    "the portal",
    "__del__",
    "__del__, in our code",
    "another thread",
    "a thread of the loop",
    "an executor",
    "a loop of asyncio",
    "a loop of trio",
    "a signal in send",
    "a signal in send_soon",
    "a signal in result",
    "a signal in start",
    "a signal in close",
    "a handler of the loop",
    "a start under way",
    "a close under way",
    "a thread, while it closes",
    "a plain listener",
    "before_consume",
    "on_revoked",
}
"""Where a call may be refused with a remedy; everywhere else it works."""
MUST_WORK_IN_THREADS = {
    "a plain listener",
    "before_consume",
    "on_revoked",
    "another thread",
    "an executor",
    "a loop of asyncio",
    "a loop of trio",
}
"""Of these, where it works on the blocking surface."""
SLOW = {
    "a signal in send",
    "a signal in send_soon",
    "a signal in result",
    "a signal in start",
    "a signal in close",
    "a handler of the loop",
    "a start under way",
    "a close under way",
    "a thread, while it closes",
}
"""Places that take half a second."""


def may_refuse(surface, place):
    """Whether a call may be refused there; where it may not, it works."""
    return place in MAY_REFUSE - (MUST_WORK_IN_THREADS if surface == "blocking" else set())


def message():
    return Message("Orders", b"of the place")


# --- users' code that we call --------------------------------------------------------------------------


def done_callback(world, act):
    mine = threading.get_ident()

    def called(future):
        if threading.get_ident() != mine:  # it was done already: not what is tested here
            act.plain()

    for _ in range(50):
        _carefully(lambda: world.producer.send_soon(message()).add_done_callback(called))  # the act may close it
        if act.was_asked:
            break
        time.sleep(0.01)


def plain_listener(world, act):
    world.heard = act.plain
    _until_asked(act, lambda: world.producer.send(Message("Heard", b"x")))


def before_consume(world, act):
    world.before = act.plain
    _until_asked(act, lambda: world.producer.send(Message("Heard", b"x")))


def on_revoked(world, act):
    world.revoked = act.plain
    _until_asked(act, lambda: world.consumer.unsubscribe("Awaited"))


def async_listener(world, act):
    world.awaited = act.awaited
    _until_asked(act, lambda: world.producer.send(Message("Awaited", b"x")))


def _until_asked(act, trigger):
    until = time.monotonic() + 5
    while not act.was_asked and time.monotonic() < until:
        with suppress(RocketMQError):  # the act may have closed what sends
            trigger()
        time.sleep(0.05)


def hook_before(world, act):
    world.hook.before = act.plain
    _carefully(lambda: world.producer.send(message()))


def hook_after(world, act):
    world.hook.after = act.plain
    _carefully(lambda: world.producer.send(message()))


def _carefully(function):
    """What it ends with is free, as long as it is an answer: the act may close what it needs."""
    with suppress(RocketMQError):
        function()


def selector(world, act):
    def choose(queues, message, argument):
        act.plain()
        return queues[0]

    _carefully(lambda: world.producer.send(message(), selector=choose))


def selector_soon(world, act):
    def choose(queues, message, argument):
        act.plain()
        return queues[0]

    _carefully(lambda: world.producer.send_soon(message(), selector=choose).result(8))


def on_failure(world, act):
    bad = message()
    bad.body = b""
    _carefully(lambda: world.producer.send_many([bad, message()], on_failure=lambda error: act.plain()))


def iterable(world, act):
    def messages():
        yield message()
        act.plain()
        yield message()

    _carefully(lambda: world.producer.send_many(messages(), batch_size=1))


def serializer(world, act):
    json = JsonSerializer()

    def serialize(value):
        act.plain()
        return json.encode(value)

    _carefully(lambda: world.producer.send_many(Message("Orders", serialize(n)) for n in range(3)))


# --- threads and loops ---------------------------------------------------------------------------------


def other_thread(world, act):
    in_thread(act.plain)


def executor(world, act):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(act.plain).result(10)


def loop_of_asyncio(world, act):
    asyncio.run(act.awaited())


def loop_of_trio(world, act):
    trio.run(act.awaited)


def thread_of_the_portal(world, act):
    portal().post(act.plain)


# --- finalisers ----------------------------------------------------------------------------------------


class Dying:
    """Garbage in a cycle, with a finaliser. With `again` the end of one makes the next one."""

    def __init__(self, last_words, again=0):
        self.cycle = self
        self.last_words = last_words
        self.again = again

    def __del__(self):
        if self.again:
            Dying(self.last_words, self.again - 1)
        self.last_words()


def del_collected(world, act):
    Dying(act.plain)
    gc.collect()


MOST_SENDS = 3000
"""Collections are put off while a finalizer runs in another thread, so that thirty sends may see too few of them."""


@contextmanager
def finalisers(act):
    """They strike at every few allocations of all code; the act is done by one that is late enough to be inside it."""
    before = gc.get_threshold()
    left = iter(range(40))

    def last_words():
        # The other ends only keep the collector busy, which would slow down what is judged.
        if next(left, 0) == 25:
            gc.set_threshold(*before)
            act.plain()

    gc.collect()
    gc.set_threshold(1, 1, 1)
    try:
        Dying(last_words, again=60)
        yield
    finally:
        gc.set_threshold(*before)


def del_in_our_code(world, act):
    """Finalisers strike in the code that sends, here and in the background."""
    with finalisers(act):
        futures = []
        for sent in range(MOST_SENDS):
            if sent >= 30 and act.was_asked:
                break
            _carefully(lambda: futures.append(world.producer.send_soon(message())))
        for future in futures:
            _carefully(lambda future=future: future.result(8))


# --- signals -------------------------------------------------------------------------------------------


@contextmanager
def signalled(function, after=0.15):
    """In the main thread: SIGUSR1 strikes so many seconds after the block has begun."""
    before = signal.signal(signal.SIGUSR1, function)
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def hole():
    """The address of a server that accepts, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def signal_in_send(world, act):
    world.cluster.delay_sends(0.4)
    with signalled(act.plain):
        _carefully(lambda: world.producer.send(message()))


def signal_in_send_soon(world, act):
    world.cluster.delay_sends(0.4, 2)
    full = world.module.Producer(unique("full"), client=world.client, back_pressure_for_async_send_num=2)
    ours, world.producer = world.producer, full
    with full:
        full.send_soon(message())
        full.send_soon(message())
        with signalled(act.plain):
            _carefully(lambda: full.send_soon(message()))
    world.producer = ours


def signal_in_result(world, act):
    world.cluster.delay_sends(0.4)
    future = world.producer.send_soon(message())
    with signalled(act.plain):
        _carefully(lambda: future.result(8))


def signal_in_start(world, act):
    with hole() as namesrv:
        world.consumer = _slow_starter(world, namesrv)
        with signalled(act.plain):
            _carefully(world.consumer.start)
        _carefully(world.consumer.close)


def _slow_starter(world, namesrv):
    """A consumer whose start takes half a second: nobody answers it."""
    made = world.module.PushConsumer(unique("slow"), namesrv=namesrv, request_timeout=0.5)
    made.subscribe("Heard", lambda message: None)
    made.subscribe("Spare", lambda message: None)
    return made


def signal_in_close(world, act):
    with _closing_slowly(world) as closing, signalled(act.plain):
        _carefully(closing.close)


@contextmanager
def _closing_slowly(world):
    """A producer that takes half a second to close, in the place of that of the world."""
    closing = world.new("Producer")
    ours, world.producer = world.producer, closing
    closing.start()
    closing.send(message())
    world.cluster.delay_sends(0.5)
    under_way = closing.send_soon(message())
    yield closing
    closing.close()
    assert under_way.done(), "it was closed, and left a future unanswered"
    world.producer = ours


# --- while something starts or closes ------------------------------------------------------------------


def during_start(world, act):
    with hole() as namesrv:
        world.consumer = _slow_starter(world, namesrv)
        thread = threading.Thread(target=lambda: _carefully(world.consumer.start))
        thread.start()
        time.sleep(0.1)
        act.plain()
        thread.join(10)
        _carefully(world.consumer.close)


def during_close(world, act):
    with _closing_slowly(world) as closing:
        thread = threading.Thread(target=lambda: _carefully(closing.close))
        thread.start()
        time.sleep(0.1)
        act.plain()
        thread.join(10)


BLOCKING = {
    "a done-callback": done_callback,
    "a plain listener": plain_listener,
    "an async listener": async_listener,
    "before_consume": before_consume,
    "on_revoked": on_revoked,
    "a hook, before": hook_before,
    "a hook, after": hook_after,
    "a selector": selector,
    "a selector of send_soon": selector_soon,
    "on_failure": on_failure,
    "an iterable": iterable,
    "a serializer": serializer,
    "another thread": other_thread,
    "an executor": executor,
    "a loop of asyncio": loop_of_asyncio,
    "a loop of trio": loop_of_trio,
    "the portal": thread_of_the_portal,
    "__del__": del_collected,
    "__del__, in our code": del_in_our_code,
    "a signal in send": signal_in_send,
    "a signal in send_soon": signal_in_send_soon,
    "a signal in result": signal_in_result,
    "a signal in start": signal_in_start,
    "a signal in close": signal_in_close,
    "a start under way": during_start,
    "a close under way": during_close,
}
