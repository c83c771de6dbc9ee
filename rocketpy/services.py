"""Nurseries of background services, and what every service needs: ticks, and a place for calls that block.

This is the only module that takes exception groups apart. A service is an async function that runs until it is
cancelled; what it raises is a bug, and ends the client or server that it belongs to. Plays the part of ServiceThread
and of ScheduledExecutorService, without their polling.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import trio

from rocketpy.errors import RocketMQError, ServiceCrashedError
from rocketpy.logs import get_logger

__all__ = [
    "Ticks",
    "heard",
    "in_service",
    "is_from_outside",
    "is_in_service",
    "is_telling_loop",
    "only_cancelled",
    "open_services",
    "outliving",
    "run_blocking",
    "runs_blocking_in_place",
    "side_by_side",
    "start_whole",
    "tell_loop",
    "ticks",
]

logger = get_logger(__name__)

T = TypeVar("T")


# --- nurseries -----------------------------------------------------------------------------------------


@asynccontextmanager
async def open_services() -> AsyncIterator[trio.Nursery]:
    """A nursery for background services, which are cancelled when the body is done.

    An error of the body comes out as it is. When a service raises, the body is cancelled and ServiceCrashedError
    comes out, with the group of what was raised as its cause. When both happen the body's error comes out, with a
    note about the services. Ctrl-C that struck a service comes out in any case.
    """
    body_error: BaseException | None = None
    group: BaseExceptionGroup[BaseException] | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except BaseException as exc:
                body_error = exc
                raise
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as exc:
        group = exc
    if group is not None:
        raise _verdict(group, body_error)


def _verdict(group: BaseExceptionGroup[BaseException], body_error: BaseException | None) -> BaseException:
    """The one exception to raise for what came out of the nursery."""
    crashed = _crashes(group, body_error)
    interrupt = None if crashed is None else _interrupt_in(crashed)
    if interrupt is not None:  # if the body failed, then most likely because its services ended
        if body_error is not None and interrupt.__context__ is None and not only_cancelled(body_error):
            interrupt.__context__ = body_error
        return interrupt
    if body_error is not None and not only_cancelled(body_error):
        if crashed is not None:
            body_error.add_note(f"A background service failed as well: {crashed.exceptions!r}")
        return body_error
    if crashed is None:
        return group
    first = next(_leaves(crashed))
    if isinstance(first, ServiceCrashedError):
        return first  # of services within a service: said once is enough
    error = ServiceCrashedError(f"a background service met a bug: {first!r}")
    error.__cause__ = crashed
    return error


_is_in_service: ContextVar[bool] = ContextVar("rocketpy_is_in_service", default=False)


@contextmanager
def in_service() -> Iterator[None]:
    """Around code that no call of the user's waits for, and around the tasks that it starts."""
    token = _is_in_service.set(True)
    try:
        yield
    finally:
        _is_in_service.reset(token)


def is_in_service() -> bool:
    """Whether an exception that is raised here would end a service, and reach no caller."""
    return _is_in_service.get()


@contextmanager
def heard(what: str, on_crash: Callable[[ServiceCrashedError], object]) -> Iterator[None]:
    """For the code of a service: a bug in it is logged, once and at once, told to `on_crash`, and ends the block.

    Who waits for what the service does may be far away, and the code that is to get the exception may be busy for long.

    Raises:
        ServiceCrashedError: there was a bug, or one in a service within the service.
    """
    try:
        with in_service():
            yield
    except BaseException as exc:
        bugs = [each for each in _leaves(exc) if not isinstance(each, trio.Cancelled)]
        if not bugs or any(isinstance(each, KeyboardInterrupt | SystemExit) for each in bugs):
            raise
        first = bugs[0]
        if isinstance(first, ServiceCrashedError):
            crash = first
        else:
            crash = ServiceCrashedError(f"a background service of {what} met a bug: {first!r}")
            crash.__cause__ = exc
            logger.error("%s ends because of a bug in a background service: %r", what, first, exc_info=exc)
        on_crash(crash)
        raise crash from crash.__cause__


@trio.lowlevel.enable_ki_protection
def start_whole(nursery: trio.Nursery, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
    """Start a task so that Ctrl-C is raised before it or after it.

    Raised in between, it would leave a coroutine that no task runs, and Python warns of those.
    """
    nursery.start_soon(function, *arguments)


async def side_by_side(function: Callable[[T], Awaitable[object]], items: Iterable[T], *, at_once: int = 64) -> None:
    """Call an async function with each item, so many at a time. It handles the errors it expects by itself.

    Ctrl-C comes out as what it is, not in a group, which `except KeyboardInterrupt` would not catch.
    """
    limiter = trio.CapacityLimiter(at_once)

    @trio.lowlevel.enable_ki_protection
    async def call(item: T) -> None:
        async with limiter:
            await function(item)

    try:
        async with trio.open_nursery() as nursery:
            for item in items:
                start_whole(nursery, call, item)
    except BaseExceptionGroup as group:
        interrupt = _interrupt_in(group)
        if interrupt is None:
            raise
        raise interrupt from None


def _crashes(
    group: BaseExceptionGroup[BaseException], body_error: BaseException | None
) -> BaseExceptionGroup[BaseException] | None:
    """What services raised, without the body's own error and without cancellations.

    Compared leaf by leaf: a nursery that was cancelled rebuilds the groups which pass through it.
    """
    own = {id(leaf) for leaf in _leaves(body_error)}
    return group.split(lambda exc: isinstance(exc, trio.Cancelled) or id(exc) in own)[1]


def _leaves(exc: BaseException | None) -> Iterator[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        for inner in exc.exceptions:
            yield from _leaves(inner)
    elif exc is not None:
        yield exc


def only_cancelled(exc: BaseException) -> bool:
    """Whether this is a cancellation on its way, or a group of such: for those who catch everything else."""
    if isinstance(exc, BaseExceptionGroup):
        return exc.split(trio.Cancelled)[1] is None
    return isinstance(exc, trio.Cancelled)


def is_from_outside(exc: BaseException) -> bool:
    """Whether what came out of a function of the user's is Ctrl-C or a cancellation, or a group with one of these.

    All else is a failure of that function, whatever its type: SystemExit, the CancelledError of another event loop, or
    a KeyboardInterrupt in a thread where Ctrl-C never strikes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    outside = (KeyboardInterrupt, trio.Cancelled) if is_main else trio.Cancelled
    return exc.split(outside)[0] is not None if isinstance(exc, BaseExceptionGroup) else isinstance(exc, outside)


def _interrupt_in(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Ctrl-C and SystemExit stay what they are, wherever they struck."""
    found = group.split((KeyboardInterrupt, SystemExit))[0]
    return None if found is None else next(_leaves(found))


@asynccontextmanager
async def outliving(manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Hold a context manager that has tasks of its own, and leave it in good order even when the body is cancelled.

    A cancellation from outside would end those tasks first, and leave the closing code without connections to
    unregister over. So they live in a task behind a shield, which that closing code ends: it must have a deadline. A
    start that is cancelled comes to the checkpoint before the shield. An error of the closing code comes out as it is,
    when the body had none.
    """
    hang_up = trio.Event()
    failure: RocketMQError | None = None
    body_failed = False

    @trio.lowlevel.enable_ki_protection
    async def hold(*, task_status: trio.TaskStatus[T] = trio.TASK_STATUS_IGNORED) -> None:
        nonlocal failure
        try:
            with trio.CancelScope() as scope:
                async with manager as value:
                    task_status.started(value)
                    await trio.lowlevel.checkpoint_if_cancelled()
                    scope.shield = True
                    await hang_up.wait()
        except RocketMQError as exc:
            if body_failed or not hang_up.is_set():
                raise
            failure = exc

    async with open_services() as nursery:
        value: T = await nursery.start(hold)
        try:
            yield value
        except BaseException:
            body_failed = True
            raise
        finally:
            hang_up.set()
    if failure is not None:
        raise failure


# --- time ----------------------------------------------------------------------------------------------


class Ticks:
    """``async for _ in ticks(30):`` goes round every 30 seconds of trio's clock.

    The rate is fixed; turns that were missed because one took too long are left out, not made up for.
    """

    def __init__(self, interval: float, initial_delay: float | None = None) -> None:
        self.interval = interval
        self._next = trio.current_time() + (interval if initial_delay is None else initial_delay)
        self._hurry = trio.Event()

    def now(self) -> None:
        """Let the next tick come at once, and the one after it a whole interval later."""
        self._hurry.set()

    def __aiter__(self) -> Ticks:
        """Ticks are their own iterator."""
        return self

    async def __anext__(self) -> None:
        """Wait for the next tick."""
        with trio.move_on_at(self._next):
            await self._hurry.wait()
        now = trio.current_time()
        if self._hurry.is_set():
            self._hurry = trio.Event()
            self._next = now
        missed = math.floor((now - self._next) / self.interval)
        self._next += (missed + 1) * self.interval


def ticks(interval: float, *, initial_delay: float | None = None) -> Ticks:
    """Ticks every `interval` seconds; the first after `initial_delay`, or after one interval."""
    if interval <= 0:
        raise ValueError(f"the interval of ticks is {interval}: it must be more than 0")
    return Ticks(interval, initial_delay)


# --- calls that block ----------------------------------------------------------------------------------


def runs_blocking_in_place() -> bool:
    """Whether functions that block run in the loop, because its clock is not of this world."""
    return type(trio.lowlevel.current_clock()).__name__ == "MockClock"


async def run_blocking(function: Callable[..., T], *args: object) -> T:
    """Run a function that blocks (a flush, a scan of files) in a thread.

    Under a mock clock it runs in place: such a clock jumps while threads work, so that seconds of virtual time would
    pass during each call.
    """
    if runs_blocking_in_place():
        await trio.lowlevel.checkpoint()
        return function(*args)
    return await trio.to_thread.run_sync(function, *args)


# --- from other threads --------------------------------------------------------------------------------

_telling: set[int] = set()
"""The idents of threads that are inside `tell_loop`."""


def tell_loop(token: trio.lowlevel.TrioToken, function: Callable[[], object], *, idempotent: bool = False) -> None:
    """Call a plain function soon in a loop, from any thread; with `idempotent`, once for several such calls.

    Raises:
        trio.RunFinishedError: the loop has ended.
    """
    me = threading.get_ident()
    struck = me in _telling
    _telling.add(me)
    try:
        token.run_sync_soon(function, idempotent=idempotent)
    finally:
        if not struck:
            _telling.discard(me)


def is_telling_loop() -> bool:
    """Whether the caller is a finalizer or a signal handler that has interrupted its thread inside `tell_loop`.

    That thread then holds a lock of trio's which every worker thread needs in order to end. Waiting for such a thread
    here would deadlock.
    """
    return bool(_telling) and threading.get_ident() in _telling
