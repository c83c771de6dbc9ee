"""The places of users' code from which a public call may be made, for blocking code; `async_places` has the others.

A place is a function of a world and an act; it has the act done where its name says.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import trio

from rocketpy.portal import portal
from tests.matrix.spots import SPOTS, at_spot
from tests.matrix.waits import BLOCKING_WAITS, carefully, message
from tests.matrix.worlds import in_thread, unique

__all__ = ["BLOCKING", "BUSY", "HOOKED", "MOST_SENDS", "SLOW", "Dying", "finalisers", "may_refuse", "needs_of"]

HOOKED = {"a hook, before", "a hook, after"}
"""Places that the client of the world has a hook for."""
BUSY = {"a hook, before", "a hook, after", "the portal", "__del__, in our code"}
"""Places that may lie on the thread that completes other calls."""

MAY_REFUSE = {
    "a hook, before",
    "a hook, after",
    "check_forbidden",
    "before_send",
    "after_send",
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
}
"""Where a call may be refused with a remedy; everywhere else it works. `SPOTS` say so for themselves."""
MUST_WORK_IN_THREADS = {"another thread", "an executor", "a loop of asyncio", "a loop of trio"}
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
"""Places where something is held up, for a quarter of a second if the act waits for the end of it."""


def needs_of(place):
    """The parts that a world needs for a place."""
    if place == "a plain listener, in the loop":
        return SPOTS["a plain listener"].needs
    return SPOTS[place].needs if place in SPOTS else {}


def may_refuse(surface, place, call):
    """Whether a call may be refused there; where it may not, it works."""
    if place not in SPOTS:
        return place in MAY_REFUSE - (MUST_WORK_IN_THREADS if surface == "blocking" else set())
    if SPOTS[place].name == "write" and ".commit" in call:
        return True  # it would wait for this very write
    return surface != "blocking" and SPOTS[place].is_in_thread


# --- users' code that we call --------------------------------------------------------------------------


def done_callback(world, act):
    mine = threading.get_ident()

    def called(future):
        if threading.get_ident() != mine:  # it was done already: not what is tested here
            act.plain()

    for _ in range(50):
        carefully(lambda: world.producer.send_soon(message()).add_done_callback(called))  # the act may close it
        if act.was_asked:
            break
        time.sleep(0.01)


def done_callback_of_request(world, act):
    """Nobody replies, so the callback is there before the request has ended, if this thread has its turn in time."""
    mine = threading.get_ident()

    def called(future):
        if threading.get_ident() != mine:
            act.plain()

    for _ in range(10):
        carefully(lambda: world.producer.request_soon(message(), timeout=0.05).add_done_callback(called))
        if act.wait_asked(0.5):
            break


def hook_before(world, act):
    world.hook.before = act.plain
    carefully(lambda: world.producer.send(message()))


def hook_after(world, act):
    world.hook.after = act.plain
    carefully(lambda: world.producer.send(message()))


def hook_of_sends(name):
    """A hook of another producer's, with a client of its own: the first try calls it in the background."""

    def place(world, act):
        left = iter([act.plain])

        def hook(*arguments):
            for function in left:
                function()

        with world.module.Producer(unique("pg"), namesrv=world.namesrv, **{name: hook}) as producer:
            carefully(lambda: producer.send(message()))

    return place


def selector(world, act):
    def choose(queues, message, argument):
        act.plain()
        return queues[0]

    carefully(lambda: world.producer.send(message(), selector=choose))


def selector_soon(world, act):
    def choose(queues, message, argument):
        act.plain()
        return queues[0]

    carefully(lambda: world.producer.send_soon(message(), selector=choose).result(8))


def on_failure(world, act):
    bad = message()
    bad.body = b""
    carefully(lambda: world.producer.send_many([bad, message()], on_failure=lambda error: act.plain()))


def iterable(world, act):
    def messages():
        yield message()
        act.plain()
        yield message()

    carefully(lambda: world.producer.send_many(messages(), batch_size=1))


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
            carefully(lambda: futures.append(world.producer.send_soon(message())))
        for future in futures:
            carefully(lambda future=future: future.result(8))


BLOCKING = {
    "a done-callback": done_callback,
    "a done-callback of a request": done_callback_of_request,
    "a hook, before": hook_before,
    "a hook, after": hook_after,
    "check_forbidden": hook_of_sends("check_forbidden"),
    "before_send": hook_of_sends("before_send"),
    "after_send": hook_of_sends("after_send"),
    "a selector": selector,
    "a selector of send_soon": selector_soon,
    "on_failure": on_failure,
    "an iterable": iterable,
    "another thread": other_thread,
    "an executor": executor,
    "a loop of asyncio": loop_of_asyncio,
    "a loop of trio": loop_of_trio,
    "the portal": thread_of_the_portal,
    "__del__": del_collected,
    "__del__, in our code": del_in_our_code,
    **BLOCKING_WAITS,
    **{name: at_spot(spot) for name, spot in SPOTS.items() if "blocking" in spot.surfaces},
}
