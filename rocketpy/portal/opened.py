"""An async context manager that a task of the portal holds open for code outside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import trio

from rocketpy.errors import ClientClosedError
from rocketpy.services import only_cancelled

if TYPE_CHECKING:
    from rocketpy.portal.loop import Portal

__all__ = ["Opened"]

T = TypeVar("T")

_END_TIMEOUT = 5.0
"""Seconds to wait for a portal that is already ending."""


class _BodyFailedError(Exception):
    """Raised in the portal in place of the exception that ended a body outside of it.

    Some exceptions would do harm there. Code in the portal would misunderstand a GeneratorExit or a CancelledError, and
    a SystemExit would end more than the body.
    """


class Opened(Generic[T]):
    """An async context manager that one task of the portal enters, holds open and leaves.

    `enter`, `leave`, `cancel`, `hurry` and `wait_left` are for the trio thread, `open` and `close` are for all others.

    Args:
        home: the portal that holds it.
        manager: what is entered.
        on_end: called in the trio thread when it was left, or has ended by itself.

    Attributes:
        home: the portal that holds it.
        value: what the context manager returned on entry.
        entered: whether it was entered.
        ended: set when it was left, or has ended by itself because something in it crashed.
    """

    value: T

    def __init__(
        self, home: Portal, manager: AbstractAsyncContextManager[T], on_end: Callable[[], object] | None = None
    ) -> None:
        self.home = home
        self._manager = manager
        self.entered = False
        self.ended = threading.Event()
        self._on_end = on_end
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        self._left = trio.Event()
        self._body_failed = False
        self._outcome: BaseException | None = None

    def open(self) -> Self:
        """Enter it, and wait until it was entered."""
        try:
            self.home.call(self.enter)
        except BaseException:
            # After Ctrl-C it may have been entered, and nobody else can close it.
            if self.home.is_usable:
                self.home.post(self.leave)
            raise
        return self

    async def enter(self) -> None:
        """Start the task that holds the manager; returns when it is entered.

        Raises:
            ClientClosedError: it was closed before it was entered.
        """
        await self.home.hold(self._hold)

    async def _hold(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    self.value = await stack.enter_async_context(self._manager)
                    self.entered = True
                    task_status.started()
                    await self._leave.wait()
                    if self._body_failed:
                        raise _BodyFailedError
            if not self.entered:
                raise ClientClosedError("it was closed while it started")
        except BaseException as exc:
            if not self.entered or only_cancelled(exc):
                raise
            if not isinstance(exc, _BodyFailedError):
                self._outcome = exc
        finally:
            self._left.set()
            self.ended.set()
            if self._on_end is not None:
                self._on_end()

    def close(self, error: BaseException | None = None) -> None:
        """Leave it, given the error that ended the body if any, and wait until it was left.

        Raises:
            RocketMQError: leaving raised an error other than that of the body.
        """
        if not self.home.is_usable:
            return  # after a fork, what it holds belongs to the parent
        try:
            self.home.call(self._finish, error)
        except ClientClosedError:
            self.ended.wait(_END_TIMEOUT)  # its portal is ending, and leaves all that it holds
        except BaseException:
            # Ctrl-C may have come before leaving began, and callers close only once.
            if self.home.is_usable:
                self.home.post(self.leave, error)
            raise
        self.check_outcome()

    async def _finish(self, error: BaseException | None) -> None:
        self.leave(error)
        await self.wait_left()

    def leave(self, error: BaseException | None = None) -> None:
        """Start to leave it, given the error that ended the body if any. Does not wait."""
        self._body_failed = error is not None
        self._leave.set()

    def give_up(self) -> None:
        """Abandon entering it, from any thread. Does not wait."""
        with suppress(ClientClosedError):  # the process is ending, and the portal with it
            self.home.post(self.cancel)

    def cancel(self) -> None:
        """Leave it as if its body was cancelled: in order, but without waiting for anything that may take long."""
        self._scope.cancel()

    def hurry(self) -> None:
        """While it is being left: do not wait any longer for functions of users that run. Does nothing else."""
        hurry = getattr(self._manager, "_hurry", None)
        if hurry is not None:
            hurry()

    async def wait_left(self) -> None:
        """Wait until it was left."""
        await self._left.wait()

    def check_outcome(self) -> None:
        """Raise the error that leaving raised, if any. Only after it was left."""
        outcome, self._outcome = self._outcome, None
        if outcome is not None:
            raise outcome
