"""The local half of a transaction: users' executors and checkers, how they are called, and what they say.

What a function returns or raises becomes a state here and nowhere else: only LocalTransactionState.COMMIT is a commit.
Plays the part of TransactionListener.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import trio

from rocketpy.errors import ConfigError
from rocketpy.results import LocalTransactionState
from rocketpy.services import run_blocking, runs_blocking_in_place

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageExt

__all__ = [
    "EXECUTOR",
    "NOT_OK",
    "AsyncCaller",
    "Checker",
    "CheckerCalls",
    "Executor",
    "Outcome",
    "call_in_this_loop",
    "checked_function",
    "is_async",
    "judged",
    "raised",
    "run_here",
]

State: TypeAlias = LocalTransactionState
Executor: TypeAlias = "Callable[[Message, Any], State | Awaitable[State]]"
"""Does the local half of a transaction, given the message and the `arg` of the send."""
Checker: TypeAlias = "Callable[[MessageExt], State | Awaitable[State]]"
"""Says how the local half of a transaction has ended, given its message."""

AsyncCaller: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...]], Awaitable[Any]]
"""Calls an async function of the user's where such code runs, given it and its arguments."""
EXECUTOR = "executor"
"""How texts name one."""


class Outcome(NamedTuple):
    """What came of a call of such a function.

    Attributes:
        state: what it said, UNKNOWN where it said nothing of use.
        error: what it raised.
        problem: why the state is not what it returned, for logs and for the broker; None when it is.
    """

    state: LocalTransactionState
    error: BaseException | None = None
    problem: str | None = None


NOT_OK = Outcome(LocalTransactionState.ROLLBACK)
"""What follows when the first half was not stored as safely as it is to be: nothing is done locally."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of it has to be awaited."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  an object with async def __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def checked_function(what: str, function: Any, arguments: int) -> Any:
    """A function of the user's that can be called with so many arguments.

    Raises:
        ConfigError: it cannot.
    """
    if not callable(function):
        raise ConfigError(f"the {what} must be a function, not {function!r:.100}")
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError as exc:
        takes = "the message and arg" if arguments > 1 else "the message"
        raise ConfigError(f"the {what} {function!r:.100} must take {takes}: {exc}") from exc
    except ValueError:
        pass  # it does not say what it takes
    return function


def judged(what: str, returned: object) -> Outcome:
    """What a function has said."""
    if isinstance(returned, LocalTransactionState):
        return Outcome(returned)
    problem = f"the {what} returned {type(returned).__name__}, which is no LocalTransactionState"
    return Outcome(LocalTransactionState.UNKNOWN, None, problem)


def raised(what: str, error: BaseException) -> Outcome:
    """What it says that a function has raised: nothing. The broker only hears which kind of error it was."""
    return Outcome(LocalTransactionState.UNKNOWN, error, f"the {what} raised {type(error).__name__}")


async def call_in_this_loop(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an async function in the loop that runs here."""
    return await function(*arguments)


async def run_here(function: Callable[..., Any], *arguments: Any) -> object:
    """Call such a function from a trio loop: in it if it is async, otherwise in a thread. Returns what it returns.

    A thread is waited for, even when this is cancelled.
    """
    return await (function(*arguments) if is_async(function) else run_blocking(function, *arguments))


class CheckerCalls:
    """Calls checkers: async ones in their loop, plain ones in threads that are left alone when nobody waits any more.

    `on_statistics` is called in the same way.

    Args:
        group: of the producer, for the names of the threads.
        most: how many threads there may be.
        async_caller: calls async checkers.
        what: what the threads do.
    """

    def __init__(self, group: str, most: int, async_caller: AsyncCaller, *, what: str = "checks") -> None:
        self._name = f"rocketpy-{what}-{group}"
        self._limiter = trio.CapacityLimiter(most)
        self._async_caller = async_caller

    async def __call__(self, checker: Checker, message: Any) -> object:
        """Call one, and return what it returns."""
        if is_async(checker):
            return await self._async_caller(self._inside_async, (checker, message))
        if runs_blocking_in_place():
            return await run_blocking(checker, message)
        return await trio.to_thread.run_sync(
            self._inside, checker, message, thread_name=self._name, abandon_on_cancel=True, limiter=self._limiter
        )

    @property
    def is_here(self) -> bool:
        """Whether the code that runs was called by a checker of this."""
        return _checking.get() is self

    def _inside(self, checker: Checker, message: Any) -> object:
        _checking.set(self)
        return checker(message)

    async def _inside_async(self, checker: Callable[[MessageExt], Awaitable[object]], message: Any) -> object:
        token = _checking.set(self)
        try:
            return await checker(message)
        finally:
            _checking.reset(token)


_checking: ContextVar[CheckerCalls | None] = ContextVar("rocketpy_checker", default=None)
"""What has called the code that runs, and whatever that has started; closing a producer does not wait for those."""
