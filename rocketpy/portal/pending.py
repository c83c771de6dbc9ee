"""Work in the portal for which a thread waits with a lock, or an asyncio task with a future.

The work does not depend on who waits or how: it only calls a function when it ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

import trio

from rocketpy.errors import ClientClosedError
from rocketpy.services import only_cancelled

__all__ = ["Call", "Pending", "StartSoon"]

T = TypeVar("T")

StartSoon: TypeAlias = Callable[[Callable[[], Awaitable[object]]], None]
"""Runs an async function in a task of the portal, see `Portal.start_soon`."""


class Pending(ABC, Generic[T]):
    """Work that is done once in the portal. All methods but `result` are for the trio thread.

    Attributes:
        begun: whether it was begun, or was given up before it began.
        ended: whether it has ended.
    """

    __slots__ = ("_error", "_on_end", "_value", "begun", "ended")

    def __init__(self) -> None:
        self._on_end: Callable[[], object] | None = None
        self._value: T | None = None
        self._error: BaseException | None = None
        self.begun = False
        self.ended = False

    @abstractmethod
    def begin(self, start_soon: StartSoon) -> None:
        """Begin. If this raises a ClientClosedError, the work ends with it; nothing else may be raised."""

    @abstractmethod
    def cancel(self) -> None:
        """Cause it to end soon. Does nothing if it has ended."""

    def start(self, start_soon: StartSoon, on_end: Callable[[], object]) -> None:
        """Begin, unless it was given up.

        Args:
            start_soon: runs it.
            on_end: called in the trio thread when it has ended.
        """
        if self.begun:
            return
        self.begun = True
        self._on_end = on_end
        try:
            self.begin(start_soon)
        except ClientClosedError as error:
            self.end(None, error)

    def abandon(self, on_end: Callable[[], object]) -> None:
        """Cause it to end soon, or if it has not begun, end it without beginning, and call `on_end`."""
        if self.begun:
            self.cancel()
        else:
            self.begun = True
            self._on_end = on_end
            self.end(None, ClientClosedError("the call was given up before it began"))

    def end(self, value: T | None, error: BaseException | None = None) -> None:
        """Record the outcome, and call the function for the end. Called once."""
        self._value = value
        self._error = error
        self.ended = True
        on_end, self._on_end = self._on_end, None  # it may refer to this: leave no cycle
        if on_end is not None:
            on_end()

    def result(self) -> T:
        """Return the value, or raise the error, for the code that waited."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # the traceback refers to this frame: leave no cycle
        return self._value  # type: ignore[return-value]  # set, as there was no error


class Call(Pending[T]):
    """An async function that runs in its own task."""

    __slots__ = ("_function", "_scope")

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        super().__init__()
        self._function = function
        self._scope = trio.CancelScope()

    def begin(self, start_soon: StartSoon) -> None:
        """Start the task."""
        start_soon(self._run)

    def cancel(self) -> None:
        """Cancel the task."""
        self._scope.cancel()

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        value: T | None = None
        error: BaseException | None = ClientClosedError("the call was cancelled because rocketpy is closing")
        try:
            with self._scope:
                value = await self._function()
                error = None
        except BaseException as exc:  # `result` raises it again
            if only_cancelled(exc):
                raise
            error = exc
        finally:
            self.end(value, error)
