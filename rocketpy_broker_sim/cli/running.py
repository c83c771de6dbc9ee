"""What every server command does around its server: signals, one line when it serves, an exit status.

The first SIGTERM, SIGINT or SIGHUP stops in order, status 0; the second ends the process at once. What keeps a server
from starting is one line on standard error: status 2 when the settings are at fault, else 1.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import trio

from rocketpy.errors import ConfigError, RocketMQError, ServiceCrashedError
from rocketpy.services import open_services
from rocketpy_broker_sim.cli.heap_gaps import give_gaps_back, heap_of_this_process
from rocketpy_broker_sim.cli.logs import log, logging_of
from rocketpy_broker_sim.cli.long_running import long_running
from rocketpy_broker_sim.cli.run_files import run_file
from rocketpy_broker_sim.store.disk.platforms import raise_max_open_files

__all__ = ["Boot", "Opening", "run_command", "serve"]

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DONE, _FAILED, _BAD_SETTINGS, _INTERRUPTED = 0, 1, 2, 130


class Boot(NamedTuple):
    """What a server that serves says of itself."""

    role: str
    """What it can be stopped as: broker, namesrv or sim."""
    name: str
    """What it calls itself, for messages."""
    address: str
    """Where it serves, as text."""
    line: str
    """For standard output."""


Opening = Callable[[], AbstractAsyncContextManager[Boot]]


def run_command(program: str, log_file: str | None, body: Callable[[], int], *, log_level: str | None = None) -> int:
    """Run a command; every error of ours becomes one line and a status.

    Args:
        program: its name.
        log_file: where to log; None for standard error.
        body: does the work, returns the status.
        log_level: the lowest level to log, as in `logging_of`.
    """

    def logged() -> int:
        with logging_of(program, log_file, log_level):
            return _status(body)

    with logging_of(program, level=log_level if log_file is None else None):
        return _status(body if log_file is None else logged)


def _status(body: Callable[[], int]) -> int:
    try:
        return body()
    except ServiceCrashedError as exc:
        log.error("%s; this is a bug of ours", exc, exc_info=exc)
    except ConfigError as exc:
        log.error("%s", exc)
        return _BAD_SETTINGS
    except RocketMQError as exc:
        log.error("%s", exc)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as exc:
        if exc.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        log.error("too many open files: raise the limit (ulimit -n)")
    return _FAILED


def serve(opening: Opening, warnings: Sequence[str] = ()) -> int:
    """Open a server, say that it serves, and leave it at the first signal.

    Args:
        opening: opens it, and yields what it says of itself.
        warnings: what its settings bring with them, for the operator.

    Raises:
        RocketMQError: it could not start, or failed.
    """
    for warning in warnings:
        log.warning("%s", warning)
    raise_max_open_files()
    trio.run(_serve, opening)
    return _DONE


async def _serve(opening: Opening) -> None:
    with trio.open_signal_receiver(*_wanted()) as signals:
        async with open_services() as services:
            stop = _Stop()
            services.start_soon(stop.watch, signals)
            # Found as long as it lives: a `stop` that waits for its end waits until the last byte is written.
            with contextlib.ExitStack() as lasting, stop.starting:
                async with opening() as boot:
                    lasting.enter_context(long_running())
                    services.start_soon(give_gaps_back, heap_of_this_process())
                    lasting.enter_context(run_file(boot.role, boot.name, boot.address))
                    await stop.stay(boot)


def _wanted() -> list[signal.Signals]:
    """The signals to stop at, without those that are ignored from the start (nohup, a job in the background)."""
    return [number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN]


class _Stop:
    """The wish to stop: breaks off a start, and ends the wait of what serves."""

    def __init__(self) -> None:
        self.starting = trio.CancelScope()
        self._serves = False
        self._wished = trio.Event()

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Wait for the first signal; after it the system's own answer to them holds: the process ends."""
        async for _ in signals:
            for number in _wanted():
                signal.signal(number, signal.SIG_DFL)
            self._wished.set()
            if not self._serves:
                self.starting.cancel()
            return

    async def stay(self, boot: Boot) -> None:
        """Say that it serves, and return when it is to stop."""
        self._serves = True
        _say(boot.line)
        log.info("%s", boot.line)
        await self._wished.wait()
        log.info("%s stops", boot.name)


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:
        # Nobody listens any more; the interpreter shall not stumble over that again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
