"""One blocking producer for each process and configuration, shared by all partitions that are written there.

Made on first use, and forgotten by a child after a fork. Spark ends its Python workers without letting them
close anything, and ends a worker that was idle for a minute. So a producer that was not used for half that time is
closed, and unregisters from the brokers. Not here: anything of Spark's.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import attrs

from rocketpy.errors import ClientClosedError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.sync import Producer

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig

__all__ = ["IDLE", "Producers", "producers"]

IDLE = 30.0
"""Seconds without use after which a producer is closed. PySpark ends a worker after 60."""

logger = get_logger(__name__)


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


@attrs.define(eq=False)
class _Entry:
    """A producer, who uses it and since when nobody does."""

    producer: Producer
    users: int = 0
    unused_since: float = 0.0


class Producers:
    """The open producers of a process. Any thread may use it.

    Args:
        idle: seconds without use after which a producer is closed.
        clock: tells seconds.
        timer: makes what calls a function later.
        make: makes a producer that is not started.
    """

    def __init__(
        self,
        idle: float = IDLE,
        *,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], Timer] = _daemon_timer,
        make: Callable[[ProducerConfig], Producer] = lambda config: Producer(config=config),
    ) -> None:
        self._idle = idle
        self._clock = clock
        self._make_timer = timer
        self._make = make
        self._entries: dict[ProducerConfig, _Entry] = {}
        self._timer: Timer | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._entries)

    @contextmanager
    def use(self, config: ProducerConfig) -> Iterator[Producer]:
        """The producer of a configuration, for the time of a block.

        Raises:
            RocketMQError: it could not be started.
        """
        entry = self._take(config)
        try:
            yield entry.producer
        finally:
            self._give_back(entry)

    def _take(self, config: ProducerConfig) -> _Entry:
        with self._lock:
            entry = self._entries.get(config)
            if entry is None or not entry.producer.is_open:
                # One that broke is left to those who use it still, who learn of it by themselves.
                entry = self._entries[config] = _Entry(self._started(config))
            entry.users += 1
            return entry

    def _started(self, config: ProducerConfig) -> Producer:
        producer = self._make(config)
        producer.start()
        return producer

    def _give_back(self, entry: _Entry) -> None:
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
                # A producer that is in use now is checked again when its time could be over.
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


def _close(entries: Iterable[_Entry]) -> None:
    for entry in entries:
        try:
            entry.producer.close()
        except ClientClosedError:
            pass  # the process ends, and with it the thread in which it ran
        except RocketMQError as error:
            logger.warning("closing %r: %s", entry.producer, error)


# --- those of this process -----------------------------------------------------------------------------

_current = Producers()


def producers() -> Producers:
    """The producers of this process."""
    return _current


def _forget_after_fork() -> None:
    global _current
    _current = Producers()  # the old ones are the parent's: their sockets, their threads, and who held their lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _current.close())
