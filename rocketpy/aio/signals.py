"""The first SIGINT or SIGTERM for code on asyncio, and everything as it was before from then on.

asyncio tells nobody which handlers a loop has, so one that is replaced with `add_signal_handler` could not be put back.
A handler of the interpreter can. But a loop calls its own handlers by the bytes that the interpreter writes for each
signal into its wake-up pipe: so meanwhile that is a pipe of ours, and what is not ours is passed on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

__all__ = ["first_signal"]

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class _Watch:
    """Listens in the main thread, for everybody in one loop who wants to know.

    Args:
        loop: that of the main thread.

    Attributes:
        is_over: a signal has come, and this hears of no other.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_over = False
        self._pid = os.getpid()
        self._functions: list[Callable[[], object]] = []
        self._before: dict[int, Any] = {}
        self._reader, self._writer = socket.socketpair()
        self._reads = False
        self._wakeup_fd = self._wakeup_fd_before = -1

    def start(self) -> None:
        """Listen."""
        for end in (self._reader, self._writer):
            end.setblocking(False)
        with suppress(RuntimeError):  # a loop of Windows: it has no handlers of its own either
            self.loop.add_reader(self._reader.fileno(), self._pass_on)
            self._reads = True
            self._wakeup_fd = self._writer.fileno()
            self._wakeup_fd_before = signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
        for number in _NUMBERS:
            self._before[number] = signal.getsignal(number)
            signal.signal(number, self._handle)

    def add(self, function: Callable[[], object]) -> None:
        """Have it called in the loop when a signal comes."""
        self._functions.append(function)

    def remove(self, function: Callable[[], object]) -> bool:
        """Have it called no more. True when nobody is left."""
        self._functions.remove(function)
        return not self._functions

    def end(self) -> None:
        """Listen no more."""
        self._restore()
        if self._reads:
            self._pass_on()
            with suppress(RuntimeError):  # the loop was closed
                self.loop.remove_reader(self._reader.fileno())
        self._reader.close()
        self._writer.close()

    def leave_to_parent(self) -> None:
        """In the child of a fork: signals strike as they did before, and the loop is that of the parent still.

        Its epoll is shared: to take our reader out of it here would take it out there.
        """
        self._reads = False
        self.end()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Wherever the main thread is just now: the next signal strikes as it did before."""
        self._restore()
        self.is_over = True
        if self._pid != os.getpid():
            signal.raise_signal(number)
            return
        try:
            self.loop.call_soon_threadsafe(self._arrived)
        except RuntimeError:  # the loop was closed with listeners in it
            signal.raise_signal(number)

    def _arrived(self) -> None:
        for function in tuple(self._functions):
            function()

    def _restore(self) -> None:
        # A signal may strike at any moment of this, and have the rest done by the time that it goes on.
        with suppress(KeyError):
            while True:
                number, before = self._before.popitem()
                # What somebody else has set meanwhile stays, as does what Python could not put back.
                if before is not None and signal.getsignal(number) == self._handle:
                    signal.signal(number, before)
        self._restore_wakeup_fd()

    def _restore_wakeup_fd(self) -> None:
        ours, self._wakeup_fd = self._wakeup_fd, -1
        if ours == -1:
            return
        with suppress(ValueError, OSError):  # that of a loop which was closed meanwhile
            now = signal.set_wakeup_fd(self._wakeup_fd_before)
            if now != ours:
                signal.set_wakeup_fd(now)

    def _pass_on(self) -> None:
        """Let the loop have the signals that are not ours."""
        with suppress(BlockingIOError):
            others = bytes(number for number in self._reader.recv(4096) if number not in _NUMBERS)
            if others and self._wakeup_fd_before != -1:
                os.write(self._wakeup_fd_before, others)


_watch: _Watch | None = None
"""The one of the main thread."""


@contextmanager
def first_signal(function: Callable[[], object]) -> Iterator[None]:
    """For the time of a block, have a function called in the running loop when the first SIGINT or SIGTERM comes.

    Does nothing in a thread that gets no signals.
    """
    global _watch
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if _watch is None or _watch.loop is not loop or _watch.is_over:
        _watch = _Watch(loop)
        _watch.start()
    watch = _watch
    watch.add(function)
    try:
        yield
    finally:
        if watch.remove(function):
            if _watch is watch:
                _watch = None
            watch.end()


def _restore_after_fork() -> None:
    global _watch
    watch, _watch = _watch, None
    if watch is not None:
        watch.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_after_fork)
