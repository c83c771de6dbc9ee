"""The portal: one background trio thread for a process, through which threads use what runs on trio.

`call` runs an async function there and waits; `post` runs a plain function there soon; `open` enters an async context
manager there and leaves it later. Wake-ups are batched: however many threads submit, trio wakes once for all that has
gathered. The thread starts on first use and ends with the process; a fork leaves it behind, and the child starts one of
its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

import trio

from rocketpy.errors import ClientClosedError, ConfigError

__all__ = ["Opened", "Portal", "Waiting", "portal"]

P = ParamSpec("P")
T = TypeVar("T")

_START_TIMEOUT = 10.0
_EXIT_TIMEOUT = 5.0


class Portal:
    """A trio loop in a thread of its own. Get the one of this process from `portal`."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._jobs: deque[Callable[[], object]] = deque()
        self._awake = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread.

        Raises:
            ClientClosedError: it does not run within ten seconds.
        """
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._main, ready), name="rocketpy-portal", daemon=True)
        self._thread.start()
        if not ready.wait(_START_TIMEOUT):
            raise ClientClosedError(
                f"the background thread of rocketpy did not start within {_START_TIMEOUT:.0f} s: uWSGI needs "
                "--enable-threads, and gevent must not patch threading"
            )

    async def _main(self, ready: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            ready.set()
            await trio.sleep_forever()

    @property
    def is_usable(self) -> bool:
        """Whether its thread runs, in this process."""
        return self._pid == os.getpid() and self._thread is not None and self._thread.is_alive()

    def close(self) -> None:
        """Cancel what still runs and wait a moment for the thread to end."""
        if not self.is_usable or self._nursery is None or self._thread is None:
            return
        self.post(self._nursery.cancel_scope.cancel)
        self._thread.join(_EXIT_TIMEOUT)

    # --- work ------------------------------------------------------------------------------------------

    def post(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run a plain function in the trio thread soon; in the order of the posts. It must not raise.

        Raises:
            ClientClosedError: there is no such thread any more.
        """
        self._jobs.append(partial(function, *args, **kwargs) if args or kwargs else function)
        if self._awake and self._pid == os.getpid():
            return
        if self._token is None or self._pid != os.getpid():
            raise ClientClosedError("the background thread of rocketpy does not cross a fork: make a new client here")
        try:
            self._awake = True
            self._token.run_sync_soon(self._drain)
        except BaseException as exc:
            self._awake = False  # Ctrl-C may strike right here: the next post must wake the loop all the same
            if isinstance(exc, trio.RunFinishedError):
                raise ClientClosedError("the background thread of rocketpy has ended with the process") from exc
            self._token.run_sync_soon(self._drain)  # for other threads, which may have relied on this one meanwhile
            raise

    def _drain(self) -> None:
        # Cleared first: whoever appends from here on asks for another wake-up.
        self._awake = False
        jobs = self._jobs
        for _ in range(len(jobs)):
            jobs.popleft()()

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function in the trio thread and wait for it.

        An exception in the waiting thread, such as Ctrl-C, cancels the function and waits until it has ended.

        Raises:
            ClientClosedError: the portal ended before the function did.
        """
        return self.wait(_Call(lambda: function(*args, **kwargs)))

    def wait(self, pending: Waiting[T]) -> T:
        """Have something done in the trio thread and wait until it has ended; what `call` stands on.

        Raises:
            ClientClosedError: the portal ended before that did.
        """
        if threading.current_thread() is self._thread:
            raise ConfigError("a blocking call from the thread of rocketpy's own tasks would wait for itself for ever")
        try:
            self.post(self._begin, pending)
            pending.done.acquire()
        except ClientClosedError:
            raise
        except BaseException:
            # It may have struck before the post was complete; either way nothing is left behind when this returns.
            self.post(self._abandon, pending)
            pending.done.acquire()
            raise
        return pending.result()

    @staticmethod
    def _abandon(pending: Waiting[Any]) -> None:
        if pending.ended:
            if pending.done.locked():  # its end was noticed already, by the very wait that was interrupted
                pending.done.release()
        elif pending.begun:
            pending.cancel()
        else:
            pending.begun = True
            pending.end(None, ClientClosedError("the call was given up before it began"))

    def _begin(self, pending: Waiting[Any]) -> None:
        if pending.begun:
            return
        pending.begun = True
        try:
            pending.begin(self)
        except ClientClosedError as error:
            pending.end(None, error)

    def open(self, manager: AbstractAsyncContextManager[T]) -> Opened[T]:
        """Enter an async context manager in a task of the portal; `Opened.close` leaves it in the same task."""
        opened = Opened(self, manager)
        try:
            self.call(opened.enter)
        except BaseException:
            # Ctrl-C may have struck when it was entered already, and nobody else has it to close it.
            if self.is_usable:
                self.post(opened.leave)
            raise
        return opened

    # --- in the trio thread -----------------------------------------------------------------------------

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run an async function in a task of the portal; it must not raise.

        Raises:
            ClientClosedError: the process ends, nothing is begun any more.
        """
        self._open_nursery().start_soon(function)

    async def hold(self, function: Callable[[trio.TaskStatus[None]], Awaitable[object]]) -> None:
        """Run an async function in a task of the portal, and return when it says that it has started."""
        await self._open_nursery().start(_Started(function))

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None or self._nursery.cancel_scope.cancel_called:
            raise ClientClosedError("rocketpy is closing with the process")
        return self._nursery


class _Started:
    """Gives a started function the signature that trio wants."""

    def __init__(self, function: Callable[[trio.TaskStatus[None]], Awaitable[object]]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", "opened")

    def __call__(self, *, task_status: trio.TaskStatus[None]) -> Awaitable[object]:
        return self._function(task_status)


class Waiting(ABC, Generic[T]):
    """Something that is done in the trio thread while another thread waits for it, in `Portal.wait`. Used once.

    Attributes:
        done: held until it has ended.
    """

    __slots__ = ("_error", "_value", "begun", "done", "ended")

    def __init__(self) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        self.begun = False
        self.ended = False
        self.done = threading.Lock()
        self.done.acquire()

    @abstractmethod
    def begin(self, home: Portal) -> None:
        """In the trio thread: begin. A ClientClosedError is its end; it must not raise anything else."""

    @abstractmethod
    def cancel(self) -> None:
        """In the trio thread: end it soon."""

    def end(self, value: T | None, error: BaseException | None = None) -> None:
        """In the trio thread, once: this came of it."""
        self._value = value
        self._error = error
        self.ended = True
        self.done.release()

    def result(self) -> T:
        """What came of it."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # the traceback refers to this frame: no cycle may stay behind
        return self._value  # type: ignore[return-value]  # set, as there was no error


class _Call(Waiting[T]):
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
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - raised again where it was called
            error = exc
        finally:
            self.end(value, error)


class Opened(Generic[T]):
    """An async context manager that is entered, held by one task of the portal.

    `enter`, `leave`, `cancel` and `wait_left` are for the trio thread, `close` is for all others.

    Attributes:
        value: what entering gave.
        entered: whether it was entered.
        ended: set when it is left, or has ended by itself because something in it crashed.
        on_end: called in the trio thread then.
    """

    value: T

    def __init__(self, home: Portal, manager: AbstractAsyncContextManager[T]) -> None:
        self._portal = home
        self._manager = manager
        self.entered = False
        self.ended = threading.Event()
        self.on_end: Callable[[], object] | None = None
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        self._left = trio.Event()
        self._body_error: BaseException | None = None
        self._outcome: BaseException | None = None

    async def enter(self) -> None:
        """Start the task that holds the manager; returns when it is entered."""
        await self._portal.hold(self._hold)

    async def _hold(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    self.value = await stack.enter_async_context(self._manager)
                    self.entered = True
                    task_status.started()
                    await self._leave.wait()
                    if self._body_error is not None:
                        raise self._body_error
        except (Exception, SystemExit, KeyboardInterrupt) as exc:
            if not self.entered:
                raise
            self._outcome = exc
        finally:
            self._left.set()
            self.ended.set()
            if self.on_end is not None:
                self.on_end()

    def close(self, error: BaseException | None = None) -> None:
        """Leave it, with the error that the body ended with; returns when it is left.

        Raises:
            RocketMQError: leaving found another error than that of the body.
        """
        if not self._portal.is_usable:
            return  # after a fork what it held belongs to the parent
        try:
            self._portal.call(self._finish, error)
        except BaseException:
            # Ctrl-C may have struck before it began, and whoever closes does so once.
            if self._portal.is_usable:
                self._portal.post(self.leave, error)
            raise
        self.check_outcome(error)

    async def _finish(self, error: BaseException | None) -> None:
        self.leave(error)
        await self.wait_left()

    def leave(self, error: BaseException | None = None) -> None:
        """Have it left, with the error that the body ended with; without waiting."""
        self._body_error = error
        self._leave.set()

    def cancel(self) -> None:
        """Have it left as one is whose body was cancelled: in order, but without waiting for what may be long."""
        self._scope.cancel()

    async def wait_left(self) -> None:
        """Wait until it is left."""
        await self._left.wait()

    def check_outcome(self, error: BaseException | None) -> None:
        """When it is left: raise what leaving found, unless that is the error of the body, which is on its way."""
        outcome, self._outcome = self._outcome, None
        self._body_error = None
        if outcome is not None and outcome is not error:
            raise outcome


# --- the one of this process ---------------------------------------------------------------------------

_current: Portal | None = None
_lock = threading.Lock()


def portal() -> Portal:
    """The portal of this process, started when it is not there yet."""
    global _current
    with _lock:
        if _current is None or not _current.is_usable:
            made = Portal()
            made.start()
            _current = made
        return _current


def _forget_after_fork() -> None:
    global _current, _lock
    _current = None
    _lock = threading.Lock()


def _close_at_exit() -> None:
    if _current is not None:
        _current.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_close_at_exit)
