"""The bridge between an event loop of asyncio and the portal.

Work is passed to the portal with `Portal.post`, and results come back through an inbox of the loop. Both ways are
batched, with one wake-up for everything that has gathered since the other side looked last. Nothing here starts or
blocks a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from rocketpy.client.homes import home_of
from rocketpy.client.lifecycle import forks
from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.logs import get_logger
from rocketpy.portal import Call, Opened, Pending, Portal

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance

__all__ = ["Bridge", "Inbox"]

logger = get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Inbox:
    """Plain functions from other threads, to be called in a loop in the order in which they arrived.

    Args:
        loop: calls them.
        on_closed: called once, in the thread that finds the loop closed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_closed: Callable[[], object]) -> None:
        self._loop = loop
        self._on_closed = on_closed
        self._jobs: deque[Callable[[], object]] = deque()
        self._awake = False
        self._closed = False

    def deliver(self, job: Callable[[], object]) -> bool:
        """Have a function called soon; it must not raise. False if the loop is closed."""
        self._jobs.append(job)
        # A loop that was closed never processes a wake-up that it got before.
        return True if self._awake and not self._loop.is_closed() else self._wake()

    def _wake(self) -> bool:
        self._awake = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            return self._found_closed()
        return True

    def _found_closed(self) -> bool:
        self._awake = False
        self._jobs.clear()
        if not self._closed:
            self._closed = True
            self._on_closed()
        return False

    def _drain(self) -> None:
        # Cleared first, so that deliveries from here on request another wake-up.
        self._awake = False
        jobs = self._jobs
        try:
            for _ in range(len(jobs)):
                jobs.popleft()()
        except BaseException:
            if jobs:  # Ctrl-C: call the other functions all the same
                self._wake()
            raise


class _Waiter:
    """Lets a task of a loop wait for the end of something in the portal.

    Attributes:
        future: wakes the task. It holds no result, because an error in it might never be retrieved.
    """

    __slots__ = ("_inbox", "_is_over", "_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, inbox: Inbox) -> None:
        self._loop = loop
        self._inbox = inbox
        self._is_over = False
        self.future: asyncio.Future[None] = loop.create_future()

    def __call__(self) -> None:
        """Report the end. In the portal."""
        self._inbox.deliver(self._wake)

    def _wake(self) -> None:
        self._is_over = True
        if not self.future.done():
            self.future.set_result(None)

    async def wait_end(self) -> None:
        """Wait until it has ended, however often the task is cancelled meanwhile. In the loop."""
        with _shielded():
            while not self._is_over:
                self.future = self._loop.create_future()
                try:
                    await self.future
                except asyncio.CancelledError:
                    continue  # the first cancellation propagates afterwards anyway


def _shielded() -> AbstractContextManager[object]:
    """A shield against anyio's cancel scopes, which cancel a task in every turn of the loop until it has left them.

    It is not needed unless anyio has been imported.
    """
    anyio = sys.modules.get("anyio")
    scope = getattr(anyio, "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)


class Bridge:
    """Binds one object to the loop that uses it.

    Args:
        what: how error texts name the object.
        client: the object's client, or the object itself if it is one.
    """

    loop: asyncio.AbstractEventLoop
    portal: Portal
    inbox: Inbox
    context: contextvars.Context
    """A copy of the context of the task that bound it."""

    def __init__(self, what: str, client: MQClientInstance | None = None) -> None:
        self.what = what
        self.client = client
        """The object's client, or the object itself if it is one."""
        self.opened: Opened[Any] | None = None
        """What is held open in the portal for the object."""
        self.needed: Bridge | None = None
        """The bridge of a shared client."""
        self._forks = forks()
        self._thread = 0
        self.is_bound = False

    def bind(self) -> bool:
        """Bind it to the running loop. False if it was bound before.

        Raises:
            ConfigError: it or its shared client belongs to another loop, no loop of asyncio runs here, or this is the
                portal's thread.
            ClientClosedError: it was made before a fork.
        """
        if self.is_bound or self.crossed_fork:
            self.check()
            return False
        loop = self._running_loop()
        if self.needed is not None and self.needed.opened is not None and not self.needed.crossed_fork:
            self.needed.check()
        home = home_of(self.client)
        home.check_not_here()
        self.loop, self.portal = loop, home
        self.inbox = Inbox(self.loop, self._abandon)
        self.context = contextvars.copy_context()
        self._thread = threading.get_ident()
        self.is_bound = True
        return True

    def check_place(self) -> None:
        """Refuse use from another loop; before it is bound, refuse use where no loop of asyncio runs.

        Raises:
            ConfigError: this is another loop or another thread, or no loop of asyncio runs here.
            ClientClosedError: this is a child process after a fork.
        """
        if self.is_bound:
            self.check()
        else:
            self._running_loop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        try:
            return asyncio.get_running_loop()
        except RuntimeError as exc:
            raise ConfigError(
                f"{self.what} of rocketpy.aio runs on asyncio, and no asyncio loop runs here: use the class of that "
                "name from rocketpy in trio, from rocketpy.sync in blocking code"
            ) from exc

    def unbind(self) -> None:
        """Release it from its loop."""
        self.is_bound = False

    def check(self) -> None:
        """Refuse use from another loop or thread.

        Raises:
            ConfigError: this is another loop or another thread.
            ClientClosedError: it was not entered, or this is a child process after a fork.
        """
        try:
            if asyncio.get_running_loop() is self.loop:
                return
        except (RuntimeError, AttributeError):
            pass
        self._refuse()

    def _refuse(self) -> NoReturn:
        if self.crossed_fork:
            raise ClientClosedError(
                f"{self.what} was made before a fork: sockets, loops and background threads do not cross it; make a "
                "new one in the child from the same config, or reopen() this one there"
            )
        if not self.is_bound:
            raise ClientClosedError(f"{self.what} is not started: use it inside `async with`, or await start() first")
        if threading.get_ident() != self._thread:
            advice = "hand the work over with `asyncio.run_coroutine_threadsafe`, or use `rocketpy.sync` from threads"
        else:
            advice = "make one in each loop, inside `async with` there"
        raise ConfigError(f"{self.what} belongs to the event loop in which it was entered: {advice}")

    @property
    def crossed_fork(self) -> bool:
        """Whether this is a copy in a child process."""
        return self._forks != forks()

    def _abandon(self) -> None:
        """Close in the background what was entered in a loop that is closed now."""
        opened = self.opened
        if opened is not None and not opened.ended.is_set():
            logger.warning(
                "the event loop of %s was closed before it was left: it is closed in the background now", self.what
            )
            self.portal.post(opened.leave)

    # --- work ------------------------------------------------------------------------------------------

    async def run(self, pending: Pending[T]) -> T:
        """Run work in the portal, and return its result.

        A task that is cancelled meanwhile cancels the work, and continues only when that has ended.
        """
        waiter = _Waiter(self.loop, self.inbox)
        self.portal.post(pending.start, self.portal.start_soon, waiter)
        try:
            await waiter.future
        except GeneratorExit:
            self._cancel(pending)  # awaiting is not possible any more
            raise
        except BaseException:
            # A cancellation or Ctrl-C: either way, the work must not outlive the task.
            if self._cancel(pending):
                await waiter.wait_end()
            raise
        return pending.result()

    def _cancel(self, pending: Pending[Any]) -> bool:
        """Cancel work in the portal. False if the portal has ended, and the work with it."""
        try:
            self.portal.post(pending.cancel)
        except ClientClosedError:
            return False
        return True

    async def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function in the portal, and return its result."""
        return await self.run(Call(lambda: function(*args, **kwargs)))
