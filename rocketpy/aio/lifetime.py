"""Opening and closing, for every class of the asyncio surface: `async with`, or `start` and `aclose`.

The object of the trio surface is entered in a task of the portal. It is left in order even if the task that uses it is
cancelled. If the user's code does not leave it, the portal does, with a warning: when the object is collected, or, if
its loop was closed, when the next result is to be delivered to that loop.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from rocketpy.client.reopening import AsyncReopenable
from rocketpy.errors import ClientClosedError
from rocketpy.portal import Call, Opened, StartSoon

if TYPE_CHECKING:
    from rocketpy.aio.bridge import Bridge

__all__ = ["Lifetime"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class _Leave(Call[None]):
    """Leaving, which always completes: cancelling the task that waits only makes it quicker.

    Args:
        opened: what to leave.
        error: what ended the body. A cancellation of its task becomes a cancellation in the portal.
    """

    __slots__ = ("_body_error", "_body_was_cancelled", "_opened")

    def __init__(self, opened: Opened[Any], error: BaseException | None) -> None:
        super().__init__(opened.wait_left)
        self._opened = opened
        self._body_error = error
        self._body_was_cancelled = isinstance(error, asyncio.CancelledError)

    def begin(self, start_soon: StartSoon) -> None:
        """Start to leave, and wait until that is done."""
        if self._body_error is None or isinstance(self._body_error, Exception | SystemExit | KeyboardInterrupt):
            self._opened.leave(self._body_error)
        else:
            self._opened.cancel()
        super().begin(start_soon)

    def cancel(self) -> None:
        """Leave in order, skipping what may take long; if the body was cancelled already, listeners too."""
        if self._body_was_cancelled:
            self._opened.hurry()
        self._opened.cancel()


_END_TIMEOUT = 5.0
"""Seconds to wait for a portal that is ending already."""


class _Start(Call[None]):
    """Entering.

    Attributes:
        opened: what is to be entered.
        was_closed: whether it was closed meanwhile, so that the start is abandoned.
        over: set in the loop when the start has ended, successfully or not.
    """

    __slots__ = ("opened", "over", "was_closed")

    def __init__(self, opened: Opened[Any]) -> None:
        super().__init__(opened.enter)
        self.opened = opened
        self.was_closed = False
        self.over = asyncio.Event()


class Lifetime(AsyncReopenable, Generic[T]):
    """Holds one object of the trio surface open in the portal, for one event loop.

    Args:
        inner: the object, not entered yet.
        bridge: to the loop in which it will be entered.
        needs: an object to keep a reference to, as it is closed when it is collected, such as a shared client.
    """

    def __init__(self, inner: T, bridge: Bridge, *, needs: object = None) -> None:
        self._inner = inner
        self._bridge = bridge
        self._needs = needs
        shared = getattr(needs, "owner", needs)
        bridge.needed = shared._bridge if isinstance(shared, Lifetime) else None
        self._starting: _Start | None = None
        self._at_end: list[Callable[[], object]] = []

    async def start(self) -> None:
        """Open it for the running loop, as `async with` does. Close it with `aclose`, in any task of that loop.

        Raises:
            ClientClosedError: it was started before, or was closed meanwhile.
            ConfigError: it or its client belongs to another loop.
        """
        bridge = self._bridge
        bound_here = bridge.bind()
        if self._starting is not None:
            raise ClientClosedError(f"{bridge.what} is being started by another task: start it once, and share it")
        when_ended = partial(bridge.inbox.deliver, partial(_call_all, self._at_end))
        self._starting = starting = _Start(Opened(bridge.portal, self._inner, when_ended))
        try:
            await bridge.run(starting)
            bridge.opened = starting.opened
        except BaseException as error:
            if starting.opened.entered and not isinstance(error, GeneratorExit):
                # Cancelled after it was entered: leave it again, as the caller does not have it.
                await bridge.run(_Leave(starting.opened, error))
            if bound_here:
                bridge.unbind()
            if starting.was_closed and isinstance(error, ClientClosedError):
                raise ClientClosedError(f"{bridge.what} was closed while it started") from None
            raise
        finally:
            self._starting = None
            starting.over.set()

    def reopen(self) -> Self:
        """Make it new in the child of a fork: ``await producer.reopen().start()``. Reopen a shared client first.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        self._make_again(crossed_fork=self._bridge.crossed_fork)
        return self

    async def aclose(self) -> None:
        """Close it. Does nothing if it is closed already, or was never started.

        Any task of its loop may call this, even while another one starts it. In one of its own listeners, this returns
        at once, and closing ends after the listener has returned.

        Raises:
            ConfigError: it belongs to another loop.
        """
        await self._close(None)

    async def __aenter__(self) -> Self:
        """Open it; see `start`."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; an exception from the block propagates unchanged."""
        await self._close(error)

    async def _close(self, error: BaseException | None) -> None:
        bridge, starting = self._bridge, self._starting
        if bridge.crossed_fork or (bridge.opened is None and starting is None):
            return  # in a child, the connections belong to the parent
        bridge.check()
        if self._is_waited_for:
            opened = bridge.opened if starting is None else starting.opened
            if opened is not None:
                bridge.portal.post(opened.leave, error)
            return
        if starting is not None:
            starting.was_closed = True
            bridge.portal.post(starting.cancel)
            await starting.over.wait()
        opened = bridge.opened
        if opened is None:
            return
        try:
            await bridge.run(_Leave(opened, error))
        except ClientClosedError:
            await self._wait_for_its_end()
        finally:
            bridge.opened = None
        opened.check_outcome()

    async def _wait_for_its_end(self) -> None:
        """Wait until its portal, which ends because its client was closed, has left what it holds."""
        left = asyncio.Event()
        with self._calling_at_end(left.set), suppress(TimeoutError):
            await asyncio.wait_for(left.wait(), _END_TIMEOUT)

    @property
    def _is_waited_for(self) -> bool:
        """Whether closing waits for the code that calls this."""
        return False

    # --- its end ----------------------------------------------------------------------------------------

    @contextmanager
    def _calling_at_end(self, function: Callable[[], object]) -> Iterator[None]:
        """Within a block, have a function called in the loop when this ends; at once if it has ended."""
        self._at_end.append(function)
        try:
            if self._bridge.opened is None or self._bridge.opened.ended.is_set():
                function()
            yield
        finally:
            self._at_end.remove(function)

    def __del__(self) -> None:
        """Warn if it was not closed, and close it in the background."""
        bridge: Bridge | None = getattr(self, "_bridge", None)
        opened = None if bridge is None else bridge.opened
        if bridge is None or opened is None or opened.ended.is_set() or bridge.crossed_fork:
            return
        text = f"{bridge.what} was not left: use it inside `async with`, or call aclose()"
        warnings.warn(text, ResourceWarning, stacklevel=1, source=self)
        with suppress(ClientClosedError):  # the process ends, and the portal with it
            bridge.portal.post(opened.leave)

    async def _call(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an async function of the inner object in the portal."""
        self._bridge.check()
        return await self._bridge.call(function, *args, **kwargs)

    async def _call_anyhow(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an async function of the inner object in the portal, even before the start."""
        bound_here = self._bridge.bind()
        try:
            return await self._bridge.call(function, *args, **kwargs)
        finally:
            if bound_here and self._bridge.opened is None and self._starting is None:
                self._bridge.unbind()

    def __repr__(self) -> str:
        """The repr of the inner object."""
        return repr(self._inner)


def _call_all(functions: list[Callable[[], object]]) -> None:
    """Call functions when an object has ended. In the loop. Not a method, which would prevent its collection."""
    for function in tuple(functions):
        function()
