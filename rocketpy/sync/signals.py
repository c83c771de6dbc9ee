"""Waiting for the first SIGINT or SIGTERM in blocking code, after which all handlers are as they were before."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from rocketpy.portal.waiting import wait

if TYPE_CHECKING:
    from rocketpy.portal import Portal

__all__ = ["Signals"]

_listening: WeakSet[Signals] = WeakSet()


class Signals:
    """Within a block, the first SIGINT or SIGTERM sets an event and restores the handlers.

    In the child of a fork, the handlers are as they were before the block.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._arrived = False
        self._ends: tuple[Portal, threading.Event] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            _listening.add(self)
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def wait(self, home: Portal, event: threading.Event) -> None:
        """Wait for an event, which a signal sets too."""
        self.end(home, event)
        wait(event)

    def end(self, home: Portal, event: threading.Event) -> None:
        """Choose the event that a signal sets, in the portal `home`. It is set soon if a signal has arrived already."""
        self._ends = home, event
        if self._arrived:
            home.post(event.set)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        if self._pid != os.getpid():
            signal.raise_signal(number)
            return
        self._arrived = True
        # Set in the portal, not here: the wait that the handler has interrupted may hold the event's lock.
        if self._ends is not None and self._ends[0].is_usable:
            self._ends[0].post(self._ends[1].set)

    def __exit__(self, *error: object) -> None:
        """Restore the handlers."""
        self.restore()

    def restore(self) -> None:
        """Restore the previous handlers."""
        # A signal may arrive at any moment of this; its handler then does the rest before this continues.
        with suppress(KeyError):
            while True:
                number, handler = self._before.popitem()
                if handler is not None:  # a handler that Python did not set cannot be restored by it
                    signal.signal(number, handler)


def _restore_after_fork() -> None:
    for signals in list(_listening):
        signals.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_after_fork)
