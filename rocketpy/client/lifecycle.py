"""The states of objects that open and close, which can cross neither a fork nor a pickle.

Every send calls `check_open`, so it compares two values and makes no system call. Plays the part of ServiceState.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import NoReturn

import trio

from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.logs import get_logger

__all__ = ["Lifecycle", "NotPicklable", "State", "forks"]

logger = get_logger(__name__)

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def forks() -> int:
    """How many forks there were from the start of the interpreter to this process."""
    return _forks


class State(Enum):
    """The state of an object. It moves only in this order, except that a failed start leads back to NEW."""

    NEW = "not started"
    OPENING = "starting"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


_OPEN = State.OPEN  # needed for every message, and slow to look up in its class


class Lifecycle:
    """Guards the changes of state of one object.

    Args:
        what: how error texts name the object, such as "producer orders".
    """

    __slots__ = ("_forks", "_loop", "_pid", "remedy", "state", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.remedy = "use it inside `async with`"
        """What to do if it was not started. Other surfaces replace it."""
        self.state = State.NEW
        self._forks = _forks
        self._pid = os.getpid()
        self._loop: trio.lowlevel.Task | None = None

    def begin(self) -> None:
        """Start to open it, in the running trio loop.

        Raises:
            ClientClosedError: it was started before. An object is opened only once.
            ConfigError: no trio loop runs here.
        """
        self._check_process()
        if self.state is State.CLOSED:
            raise ClientClosedError(f"{self.what} is closed and cannot be started again; make a new one")
        if self.state is not State.NEW:
            raise ClientClosedError(
                f"{self.what} was started already (it is {self.state.value}); start it once, and share it where needed"
            )
        self._loop = _running_loop()
        if self._loop is None:
            raise ConfigError(
                f"{self.what} runs on trio, and no trio loop runs here: use the class of that name from rocketpy.aio "
                "in asyncio, from rocketpy.sync in blocking code"
            )
        self.state = State.OPENING

    def opened(self) -> None:
        """It is open now."""
        self.state = State.OPEN
        logger.info("%s is open", self.what)

    def failed(self) -> None:
        """The start failed and left nothing behind, so it may be tried again."""
        self.state = State.NEW
        logger.info("%s did not start, and may be started again", self.what)

    def closing(self) -> bool:
        """Start to close. False if there is nothing to close."""
        if self.state not in (State.OPENING, State.OPEN):
            return False
        self.state = State.CLOSING
        return True

    def closed(self) -> None:
        """It is closed, for good."""
        told = self.state is State.CLOSED
        self.state = State.CLOSED
        if not told:
            logger.info("%s is closed", self.what)

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self.state is State.OPEN and self._forks == _forks

    @property
    def crossed_fork(self) -> bool:
        """Whether this is a copy in a child process, which must leave the parent's connections alone."""
        return self._forks != _forks

    @property
    def shown(self) -> State:
        """The state to tell users: in the child of a fork, what was started before counts as closed."""
        return State.CLOSED if self._forks != _forks and self.state is not State.NEW else self.state

    def check_open(self) -> None:
        """Refuse use while it is not open.

        Raises:
            ClientClosedError: it is not open, or was opened before a fork; the text says what to do.
        """
        if self.state is not _OPEN or self._forks != _forks:
            self._refuse()

    def check_here(self) -> None:
        """Refuse use while it is not open, and from another loop, which would mix up the tasks of both loops.

        Raises:
            ClientClosedError: as in `check_open`.
            ConfigError: this is another loop than the one in which it was entered.
        """
        if self.state is not _OPEN or self._forks != _forks:
            self._refuse()
        if _running_loop() is not self._loop:
            self.check_loop()

    def check_loop(self) -> None:
        """Refuse use from another loop, in any state.

        Raises:
            ConfigError: this is another loop than the one in which it was entered.
        """
        if _running_loop() is not self._loop:
            raise ConfigError(
                f"{self.what} belongs to the trio loop in which it was entered: come back to it with "
                "trio.from_thread.run, make one in each loop, or use rocketpy.sync from threads"
            )

    def _refuse(self) -> NoReturn:
        self._check_process()
        remedy = {
            State.NEW: self.remedy,
            State.OPENING: "wait until its start has returned",
        }
        raise ClientClosedError(f"{self.what} is {self.state.value}: {remedy.get(self.state, 'make a new one')}")

    def _check_process(self) -> None:
        if self._forks != _forks:
            raise ClientClosedError(
                f"{self.what} was made in process {self._pid}, this is its child {os.getpid()} after a fork: sockets "
                "and background tasks do not cross a fork; make a new one in the child from the same config, or "
                "reopen() this one there"
            )


def _running_loop() -> trio.lowlevel.Task | None:
    """The root task of the running trio loop, which identifies the loop; None if there is none."""
    try:
        return trio.lowlevel.current_root_task()
    except (RuntimeError, AttributeError):  # the latter if another kind of loop runs in the place of trio's
        return None


class NotPicklable:
    """Base class of objects with sockets and tasks, which cannot be pickled, although their configs can."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse, before anything is copied.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} holds connections and tasks and cannot be pickled or copied; send its config "
            "there and make a new one"
        )
