"""Waiting for the first SIGINT or SIGTERM on asyncio, after which all handlers are as they were before.

asyncio cannot list the handlers of a loop, so a handler replaced by `add_signal_handler` could not be restored. A
handler set with `signal.signal` can. But a loop finds out about signals through the bytes that the interpreter writes
into its wake-up file descriptor. So a socket of this module takes its place meanwhile, and passes on the bytes of other
signals.
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
    """Handles signals in the main thread, for everything in one loop that waits for them.

    Args:
        loop: the loop of the main thread.

    Attributes:
        is_over: whether a signal has arrived, after which this handles no others.
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
        """Install the handlers."""
        for end in (self._reader, self._writer):
            end.setblocking(False)
        with suppress(RuntimeError):  # a loop of Windows, which has no handlers of its own either
            self.loop.add_reader(self._reader.fileno(), self._pass_on)
            self._reads = True
            self._wakeup_fd = self._writer.fileno()
            self._wakeup_fd_before = signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
        for number in _NUMBERS:
            self._before[number] = signal.getsignal(number)
            signal.signal(number, self._handle)

    def add(self, function: Callable[[], object]) -> None:
        """Have a function called in the loop when a signal arrives."""
        self._functions.append(function)

    def remove(self, function: Callable[[], object]) -> bool:
        """Remove a function. True if none is left."""
        self._functions.remove(function)
        return not self._functions

    def end(self) -> None:
        """Restore what was there before, and release the socket."""
        self._restore()
        if self._reads:
            self._pass_on()
            with suppress(RuntimeError):  # the loop was closed
                self.loop.remove_reader(self._reader.fileno())
        self._reader.close()
        self._writer.close()

    def leave_to_parent(self) -> None:
        """Restore the handlers in the child of a fork, without touching the loop, which is the parent's.

        The loop's epoll is shared with the parent: removing the reader here would remove it there.
        """
        self._reads = False
        self.end()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handle the first signal, at any point of the main thread's code; the next one acts as before."""
        self._restore()
        self.is_over = True
        if self._pid != os.getpid():
            signal.raise_signal(number)
            return
        try:
            self.loop.call_soon_threadsafe(self._arrived)
        except RuntimeError:  # the loop was closed while functions waited for signals
            signal.raise_signal(number)

    def _arrived(self) -> None:
        for function in tuple(self._functions):
            function()

    def _restore(self) -> None:
        # A signal may arrive at any moment of this; its handler then does the rest before this continues.
        with suppress(KeyError):
            while True:
                number, before = self._before.popitem()
                # A handler that other code has set meanwhile stays, and so does one that Python cannot restore.
                if before is not None and signal.getsignal(number) == self._handle:
                    signal.signal(number, before)
        self._restore_wakeup_fd()

    def _restore_wakeup_fd(self) -> None:
        ours, self._wakeup_fd = self._wakeup_fd, -1
        if ours == -1:
            return
        with suppress(ValueError, OSError):  # the descriptor of a loop that was closed meanwhile
            now = signal.set_wakeup_fd(self._wakeup_fd_before)
            if now != ours:
                signal.set_wakeup_fd(now)

    def _pass_on(self) -> None:
        """Pass the bytes of other signals on to the loop."""
        with suppress(BlockingIOError):
            others = bytes(number for number in self._reader.recv(4096) if number not in _NUMBERS)
            if others and self._wakeup_fd_before != -1:
                os.write(self._wakeup_fd_before, others)


_watch: _Watch | None = None
"""The watch of the main thread, if there is one."""


@contextmanager
def first_signal(function: Callable[[], object]) -> Iterator[None]:
    """Within a block, have a function called in the running loop when the first SIGINT or SIGTERM arrives.

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
