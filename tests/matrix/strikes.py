"""What strikes while a call waits: once it has come to wait, not after a guess of a time, and no longer than needed.

Each call here waits for a server that answers only once the act is over, or after `HELD` seconds.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress

__all__ = ["SOON", "Beside", "Hole", "handler", "hole", "releasing", "signalled", "soon_after", "striking"]

HELD = 0.25
"""Seconds for which a call is kept waiting at most, when the act waits for the end of it."""
SOON = 0.02
"""Seconds that somebody needs to come to wait, once the server has heard of it."""
_WITHIN = 5.0


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
def handler(function):
    """In the main thread: the handler of SIGUSR1 within a block."""
    before = signal.signal(signal.SIGUSR1, function)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def soon_after(began):
    """A little after an event, which announces what takes time to begin."""
    began.wait(_WITHIN)
    time.sleep(SOON)


class Beside:
    """A thread beside a call, whose end the block waits for.

    Args:
        steps: functions that the thread calls one after the other.
        world: of the loop in which the block runs, if there is one: that goes on while the thread is waited for.
    """

    def __init__(self, *steps, world=None):
        self._steps = steps
        self._world = world
        self._thread = threading.Thread(target=self._run, name="beside")

    def _run(self):
        for step in self._steps:
            step()

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *error):
        self._thread.join()

    async def __aenter__(self):
        self._thread.start()

    async def __aexit__(self, *error):
        await self._world.to_thread(self._thread.join)


def striking(when):
    """SIGUSR1 strikes in the main thread, which comes to wait when a function returns."""

    def strike():
        when()
        time.sleep(SOON)
        os.kill(os.getpid(), signal.SIGUSR1)

    return strike


def releasing(act, let_go):
    """What the call waits for comes once the act is over, or when it lasts."""

    def release():
        act.wait_asked(_WITHIN)
        act.wait(HELD)
        let_go()

    return release


class Hole:
    """A server that accepts and never answers, and is gone when it is closed."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._guests = []
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def wait_guest(self):
        """From a thread: wait until somebody has connected."""
        self._server.settimeout(_WITHIN)
        with suppress(TimeoutError):
            self._guests.append(self._server.accept()[0])

    def close(self):
        for each in (self._server, *self._guests):
            each.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@contextmanager
def hole():
    """The address of a server that accepts, and never answers."""
    with Hole() as made:
        yield made.address
