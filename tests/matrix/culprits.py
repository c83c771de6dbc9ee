"""Users' code that sleeps or raises, and neighbours that must not notice. The cells run in a worker."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import rocketpy.aio
from rocketpy.message import Message
from tests.matrix.async_places import ASYNCIO
from tests.matrix.cells import check_innocent, cluster, innocent
from tests.matrix.places import BLOCKING, HOOKED, needs_of
from tests.matrix.worlds import AsyncWorld, BlockingWorld

__all__ = ["KINDS", "MISDEEDS", "OF_CONSUMERS", "cell"]

OF_CONSUMERS = ("a plain listener, in order", "a strategy", "an offset store, write", "on_queues_changed")
KINDS = {
    "blocking": (
        "a done-callback",
        "a selector",
        "a selector of send_soon",
        "a plain listener",
        "an async listener",
        "a hook, before",
        "a hook, after",
        "on_failure",
        *OF_CONSUMERS,
        "on_assigned",
    ),
    "asyncio": (
        "a done-callback",
        "a selector",
        "a plain listener",
        "an async listener",
        "a hook, before",
        "a hook, after",
        "on_failure",
        *OF_CONSUMERS,
        "on_assigned, async",
    ),
}
MISDEEDS = {"sleeps": None, "Exception": Exception, "SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}

COUNT = 50
HELD = 4.0
"""Seconds that a sleeper sleeps, unless it is woken; neighbours need a tenth of it."""


class Culprit:
    """Takes the place of an act, and misbehaves once."""

    def __init__(self, misdeed):
        self._error = MISDEEDS[misdeed]
        self.began = threading.Event()
        self.wake = threading.Event()
        self.overslept = False

    @property
    def was_asked(self):
        return self.began.is_set()

    def wait_asked(self, seconds):
        return self.began.wait(seconds)

    def plain(self, *_):
        if self.began.is_set():
            return
        self.began.set()
        if self._error is not None:
            raise self._error("of the user")
        self.overslept = not self.wake.wait(HELD)

    async def awaited(self, *_):
        self.plain()  # it sleeps without a checkpoint, as code does that has no business in a loop


class Neighbours:
    """Threads that send, each at its producer; `wrong` says which were late or failed."""

    def __init__(self):
        self._threads = []
        self.wrong = []

    def start(self, name, work):
        def run():
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - told by the one that joins
                self.wrong.append(f"{name}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self):
        for thread in self._threads:
            thread.join(HELD + 8)
            if thread.is_alive():
                self.wrong.append(f"{thread.name} hangs")


def send_fifty(producer):
    for number in range(COUNT):
        producer.send(Message("Orders", b"%d" % number))


def send_fifty_in_a_loop():
    """Another client on asyncio, in a loop of its own."""

    async def main():
        async with rocketpy.aio.Producer("innocent-loop", namesrv=cluster().name_server_addresses) as producer:
            for number in range(COUNT):
                await producer.send(Message("Orders", b"%d" % number))

    asyncio.run(main())


def cell(surface, kind, misdeed):
    innocent().send(Message("Orders", b"before"))
    culprit = Culprit(misdeed)
    wrong = (_blocking if surface == "blocking" else _asyncio)(kind, culprit)
    check_innocent("\n".join(wrong))


def _meanwhile(culprit, others):
    """Let the neighbours send while the culprit misbehaves. Returns what went wrong."""
    if not culprit.began.wait(8):
        return ["the place never came to the culprit"]
    neighbours = Neighbours()
    neighbours.start("another client", lambda: send_fifty(innocent()))
    neighbours.start("another client in a loop", send_fifty_in_a_loop)
    for name, work in others.items():
        neighbours.start(name, work)
    neighbours.join()
    if culprit.overslept:
        neighbours.wrong.append(f"somebody had to wait for code that sleeps {HELD:g} s")
    culprit.wake.set()
    return neighbours.wrong


def _in_the_background(function):
    """A thread of the user: exceptions in it are not our concern."""

    def run():
        with suppress(BaseException):
            function()

    thread = threading.Thread(target=run, name="of the culprit", daemon=True)
    thread.start()
    return thread


def _blocking(kind, culprit):
    with BlockingWorld("blocking", cluster(), way=_way(kind), needs=needs_of(kind)) as world:
        world.producer.send(Message("Orders", b"connects"))
        place = _in_the_background(lambda: BLOCKING[kind](world, culprit))
        # A hook belongs to every request of its client: other calls of that may wait for it.
        others = {} if kind in HOOKED else {"another thread, same producer": lambda: send_fifty(world.producer)}
        wrong = _meanwhile(culprit, others)
        place.join(8)
        return wrong + _after(world)


def _way(kind):
    return "hooked" if kind in HOOKED else "cold"


def _after(world):
    """Nothing was closed by it, and everything goes on."""
    wrong = [] if world.producer.is_open and world.client.is_open else ["it closed its own client"]
    called = threading.Event()
    future = world.producer.send_soon(Message("Orders", b"after"))
    future.add_done_callback(lambda future: called.set())
    future.result(5)
    if not called.wait(5):
        wrong.append("done-callbacks are not called any more")
    return wrong + (_still_listens(world) if world.consumer is not None else [])


def _still_listens(world):
    again, again_async = threading.Event(), threading.Event()

    async def listen():
        again_async.set()

    world.users.give("listener", again.set)
    world.users.give("async listener", listen)
    world.producer.send(world.to_hear())
    world.producer.send(world.to_await())
    heard = {"plain": again.wait(5), "async": again_async.wait(5)}
    return [f"the {kind} listener is not called any more" for kind, is_so in heard.items() if not is_so]


def _asyncio(kind, culprit):
    wrong = []
    loop = _in_the_background(lambda: asyncio.run(_culprits_loop(kind, culprit, wrong)))
    wrong += _meanwhile(culprit, {})
    loop.join(15)
    return [*wrong, "the loop of the culprit hangs"] if loop.is_alive() else wrong


async def _culprits_loop(kind, culprit, wrong):
    async with AsyncWorld("asyncio", cluster(), way=_way(kind), needs=needs_of(kind)) as world:
        await world.producer.send(Message("Orders", b"connects"))
        if kind == "a plain listener":
            await _beside_a_listener(world, culprit, wrong)
        else:
            with suppress(Exception):
                await ASYNCIO[kind](world, culprit)
        await world.producer.send(Message("Orders", b"after"))
        if not (world.producer.is_open and world.client.is_open):
            wrong.append("it closed its own client")


async def _beside_a_listener(world, culprit, wrong):
    """A plain listener has a thread: the loop goes on, and so do its sends."""
    await ASYNCIO["a plain listener"](world, culprit)
    for number in range(COUNT):
        await world.producer.send(Message("Orders", b"%d" % number))
    if culprit.overslept:
        wrong.append("the loop of the consumer had to wait for a plain listener")
    await asyncio.to_thread(culprit.wake.wait, HELD + 4)
