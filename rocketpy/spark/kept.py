"""What a process keeps open between the tasks of Spark that run in it: one object for each configuration.

Made on first use. Spark ends its Python workers without letting them close anything, and ends a worker that was idle
for a minute; so what was not used for half that time is closed, and leaves the brokers in order. Not here: anything of
Spark's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

import attrs

from rocketpy.errors import ClientClosedError, RocketMQError
from rocketpy.logs import get_logger

__all__ = ["IDLE", "Kept"]

IDLE = 30.0
"""Seconds without use after which something is closed. PySpark ends a worker after 60."""

logger = get_logger(__name__)


class Openable(Protocol):
    """What can be kept: a client of the blocking surface."""

    @property
    def is_open(self) -> bool:
        """Whether it may be used."""

    def start(self) -> None:
        """Open it."""

    def close(self) -> None:
        """Close it."""


class Timer(Protocol):
    """Calls something later, in a thread of its own."""

    def start(self) -> None:
        """Begin to wait."""

    def cancel(self) -> None:
        """Do not call it."""


def _daemon_timer(seconds: float, function: Callable[[], None]) -> Timer:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.name = "rocketpy-spark-idle"
    return timer


C = TypeVar("C", bound=Hashable)
T = TypeVar("T", bound=Openable)


@attrs.define(eq=False)
class _Entry(Generic[T]):
    """Something open, who uses it and since when nobody does."""

    held: T
    users: int = 0
    unused_since: float = 0.0


class Kept(Generic[C, T]):
    """The open objects of a process, by configuration. Any thread may use it.

    Args:
        make: makes an object that is not started.
        idle: seconds without use after which it is closed.
        clock: tells seconds.
        timer: makes what calls a function later.
    """

    def __init__(
        self,
        make: Callable[[C], T],
        idle: float = IDLE,
        *,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], Timer] = _daemon_timer,
    ) -> None:
        self._make = make
        self._idle = idle
        self._clock = clock
        self._make_timer = timer
        self._entries: dict[C, _Entry[T]] = {}
        self._timer: Timer | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._entries)

    @contextmanager
    def use(self, config: C) -> Iterator[T]:
        """The object of a configuration, for the time of a block.

        Raises:
            RocketMQError: it could not be started.
        """
        entry = self._take(config)
        try:
            yield entry.held
        finally:
            self._give_back(entry)

    def _take(self, config: C) -> _Entry[T]:
        with self._lock:
            entry = self._entries.get(config)
            if entry is None or not entry.held.is_open:
                # One that broke is left to those who use it still, who learn of it by themselves.
                entry = self._entries[config] = _Entry(self._started(config))
            entry.users += 1
            return entry

    def _started(self, config: C) -> T:
        made = self._make(config)
        made.start()
        return made

    def _give_back(self, entry: _Entry[T]) -> None:
        with self._lock:
            entry.users -= 1
            entry.unused_since = self._clock()
            if self._timer is None:
                self._wait(self._idle)

    # --- what nobody uses -------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        """Look again later; one timer for all, however often they are used."""
        self._timer = self._make_timer(seconds, self._close_unused)
        self._timer.start()

    def _close_unused(self) -> None:
        with self._lock:
            now = self._clock()
            unused = {
                config: entry
                for config, entry in self._entries.items()
                if not entry.users and now - entry.unused_since >= self._idle
            }
            for config in unused:
                del self._entries[config]
            self._timer = None
            if self._entries:
                # What is in use now is checked again when its time could be over.
                oldest = min(now if entry.users else entry.unused_since for entry in self._entries.values())
                self._wait(oldest + self._idle - now)
        _close(unused.values())

    def close(self) -> None:
        """Close all of them, those in use too."""
        with self._lock:
            entries, self._entries = self._entries, {}
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        _close(entries.values())


def _close(entries: Iterable[_Entry[T]]) -> None:
    for entry in entries:
        try:
            entry.held.close()
        except ClientClosedError:
            pass  # the process ends, and with it the thread in which it ran
        except RocketMQError as error:
            logger.warning("closing %r: %s", entry.held, error)
