"""Entering and leaving, for every class of the asyncio surface.

What is entered lives in a task of the portal. It is left in order also when the task that uses it is cancelled; when
nobody leaves it the portal does, and says so: of what was forgotten when it is collected, of what a closed loop has
left when the next thing is to be delivered to that loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from rocketpy.client.lifecycle import NotPicklable
from rocketpy.errors import ClientClosedError
from rocketpy.portal import Call, Opened, Portal

if TYPE_CHECKING:
    from rocketpy.aio.bridge import Bridge

__all__ = ["Lifetime"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class _Leave(Call[None]):
    """Leaving, which is never given up: whoever is cancelled while it waits only makes it quicker.

    Args:
        opened: what to leave.
        error: what ended the body. One that is no error but the end of its task is a cancellation in the portal, too.
    """

    __slots__ = ("_body_error", "_opened")

    def __init__(self, opened: Opened[Any], error: BaseException | None) -> None:
        super().__init__(opened.wait_left)
        self._opened = opened
        self._body_error = error

    def begin(self, home: Portal) -> None:
        """Begin to leave, and wait for the end of it."""
        if self._body_error is None or isinstance(self._body_error, Exception | SystemExit | KeyboardInterrupt):
            self._opened.leave(self._body_error)
        else:
            self._opened.cancel()
        super().begin(home)

    def cancel(self) -> None:
        """Leave in order, without what may take long."""
        self._opened.cancel()


class Lifetime(NotPicklable, Generic[T]):
    """Holds one object of the trio surface open in the portal, for one event loop.

    Args:
        inner: the object, not entered yet.
        bridge: to the loop in which it will be entered.
        needs: what has to stay open as long: nobody else may have kept it, and what is forgotten is closed.
    """

    def __init__(self, inner: T, bridge: Bridge, *, needs: object = None) -> None:
        self._inner = inner
        self._bridge = bridge
        self._needs = needs

    async def __aenter__(self) -> Self:
        """Open it, for the running loop.

        Raises:
            ClientClosedError: it was started before, or is closed.
            ConfigError: it belongs to another loop.
        """
        bridge = self._bridge
        bound_here = bridge.bind()
        opened = Opened(bridge.portal, self._inner)
        try:
            await bridge.call(opened.enter)
        except BaseException as error:
            if opened.entered:
                # Cancelled a moment too late: it is left again, and nobody has seen it.
                await bridge.run(_Leave(opened, error))
            if bound_here:
                bridge.unbind()
            raise
        bridge.opened = opened
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; an error of the block comes out as it is."""
        bridge = self._bridge
        if bridge.opened is None or bridge.crossed_fork:
            return  # in a child, what it held belongs to the parent
        bridge.check()
        opened, bridge.opened = bridge.opened, None
        await bridge.run(_Leave(opened, error))
        opened.check_outcome()

    def __del__(self) -> None:
        """Say so when it was forgotten, and close it in the background."""
        bridge: Bridge | None = getattr(self, "_bridge", None)
        opened = None if bridge is None else bridge.opened
        if bridge is None or opened is None or opened.ended.is_set() or bridge.crossed_fork:
            return
        text = f"{bridge.what} was not left: use it inside `async with`"
        warnings.warn(text, ResourceWarning, stacklevel=1, source=self)
        with suppress(ClientClosedError):  # the process ends, and the portal with it
            bridge.portal.post(opened.leave)

    async def _call(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an async function of what it holds where that lives."""
        self._bridge.check()
        return await self._bridge.call(function, *args, **kwargs)

    def __repr__(self) -> str:
        """That of what it holds."""
        return repr(self._inner)
