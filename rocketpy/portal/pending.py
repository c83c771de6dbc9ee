"""Work in the portal that somebody outside waits for: a thread behind a lock, or a task of asyncio behind a future.

Who waits, and how, is no concern of what is waited for: it only calls `on_end`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from rocketpy.errors import ClientClosedError
from rocketpy.services import only_cancelled

if TYPE_CHECKING:
    from rocketpy.portal.loop import Portal

__all__ = ["Call", "Pending"]

T = TypeVar("T")


class Pending(ABC, Generic[T]):
    """Something that is done in the portal, once. All but `result` is for the trio thread.

    Attributes:
        begun: whether it was begun, or given up before.
        ended: whether it has ended.
        on_end: called in the trio thread when it ends; set by whoever waits, before it is begun.
    """

    __slots__ = ("_error", "_value", "begun", "ended", "on_end")

    on_end: Callable[[], object]

    def __init__(self) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        self.begun = False
        self.ended = False

    @abstractmethod
    def begin(self, home: Portal) -> None:
        """Begin. A ClientClosedError is its end; it must not raise anything else."""

    @abstractmethod
    def cancel(self) -> None:
        """End it soon; does nothing when it has ended."""

    def start(self, home: Portal) -> None:
        """Begin, unless it was given up before."""
        if self.begun:
            return
        self.begun = True
        try:
            self.begin(home)
        except ClientClosedError as error:
            self.end(None, error)

    def abandon(self) -> None:
        """End it soon, or let it never begin."""
        if self.begun:
            self.cancel()
        else:
            self.begun = True
            self.end(None, ClientClosedError("the call was given up before it began"))

    def end(self, value: T | None, error: BaseException | None = None) -> None:
        """Once: this came of it."""
        self._value = value
        self._error = error
        self.ended = True
        self.on_end()

    def result(self) -> T:
        """What came of it, for whoever waited."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # the traceback refers to this frame: no cycle may stay behind
        return self._value  # type: ignore[return-value]  # set, as there was no error


class Call(Pending[T]):
    """An async function, in a task of its own."""

    __slots__ = ("_function", "_scope")

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        super().__init__()
        self._function = function
        self._scope = trio.CancelScope()

    def begin(self, home: Portal) -> None:
        """Start the task."""
        home.start_soon(self._run)

    def cancel(self) -> None:
        """Cancel the task."""
        self._scope.cancel()

    async def _run(self) -> None:
        value: T | None = None
        error: BaseException | None = ClientClosedError("the call was cancelled because rocketpy is closing")
        try:
            with self._scope:
                value = await self._function()
                error = None
        except BaseException as exc:  # raised again where it is waited for
            if only_cancelled(exc):
                raise
            error = exc
        finally:
            self.end(value, error)
