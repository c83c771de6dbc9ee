"""Local transactions: how the user's executors and checkers are called, and which state their outcome means.

Only this module turns what a function returns or raises into a state, and only LocalTransactionState.COMMIT, or its
name, means commit. Plays the part of TransactionListener.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial, wraps
from types import CoroutineType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, ParamSpec, TypeAlias

import trio

from rocketpy.config import TransactionProducerConfig
from rocketpy.config.client import check_names
from rocketpy.errors import ConfigError
from rocketpy.forked import ChildEnds
from rocketpy.results import LocalTransactionState
from rocketpy.services import run_blocking, runs_blocking_in_place

if TYPE_CHECKING:
    from rocketpy.client.user_loop import AsyncCaller
    from rocketpy.message import Message, MessageExt

__all__ = [
    "EXECUTOR",
    "NOT_OK",
    "Checker",
    "CheckerCalls",
    "Executor",
    "LocalFunctions",
    "Outcome",
    "checked_function",
    "in_thread",
    "is_async",
    "judged",
    "names_first",
    "raised",
    "run_here",
]

P = ParamSpec("P")

State: TypeAlias = LocalTransactionState | Literal["commit", "rollback", "unknown", "COMMIT", "ROLLBACK", "UNKNOWN"]
Executor: TypeAlias = "Callable[[Message, Any], State | Awaitable[State]]"
"""Runs the local transaction, given the message and the `arg` of the send."""
Checker: TypeAlias = "Callable[[MessageExt], State | Awaitable[State]]"
"""Returns how a local transaction has ended, given its message."""

_STATES = "return LocalTransactionState.COMMIT, ROLLBACK or UNKNOWN, or 'commit', 'rollback' or 'unknown'"
_ARGUMENTS: Final = {"group", "executor", "config", "client", "network", "_surface"}
"""Of a transaction producer, besides its settings and the checker."""
EXECUTOR = "executor"
"""The name of an executor in errors and logs."""


class Outcome(NamedTuple):
    """The outcome of calling an executor or a checker.

    Attributes:
        state: the state that the function returned; UNKNOWN if it raised, or returned anything else.
        error: the exception that it raised, or a ConfigError if it returned anything else.
        problem: why the state is not what the function returned, for logs and for the broker; None if it is.
    """

    state: LocalTransactionState
    error: BaseException | None = None
    problem: str | None = None

    @property
    def line(self) -> str | None:
        """The problem for logs, with what to do about it. An error that was raised says that itself."""
        return self.problem if self.raised is not None else str(self.error)

    @property
    def raised(self) -> BaseException | None:
        """The exception that the function raised, for its traceback; None if it returned."""
        return self.error if self.error is not None and self.error.__traceback__ is not None else None


NOT_OK = Outcome(LocalTransactionState.ROLLBACK)
"""The outcome if the half message was stored less safely than configured: the executor is not called."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of the function must be awaited."""
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # as it is said below, in a tenth of the time: every transaction asks
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  an object with async def __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def checked_function(what: str, function: Any, arguments: int) -> Any:
    """Return a function of the user's that can be called with `arguments` arguments.

    Raises:
        ConfigError: it cannot be called so.
    """
    if not callable(function):
        raise ConfigError(f"the {what} must be a function, not {function!r:.100}")
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError as exc:
        takes = "the message and arg" if arguments > 1 else "the message"
        raise ConfigError(f"the {what} {function!r:.100} must take {takes}: {exc}") from exc
    except ValueError:
        pass  # it has no signature to look at
    return function


class LocalFunctions:
    """The user's functions of a transaction producer.

    Args:
        checker: answers checks of brokers.
        executor: runs the local transactions of sends that have no executor of their own; None if all have one.
    """

    __slots__ = ("checker", "executor")

    def __init__(self, checker: Checker, executor: Executor | None) -> None:
        self.checker = checker
        self.executor = executor

    def check(self) -> None:
        """Refuse functions that cannot be called.

        Raises:
            ConfigError: one of them cannot be.
        """
        checked_function("checker", self.checker, 1)
        if self.executor is not None:
            checked_function(EXECUTOR, self.executor, 2)


def names_first(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate the constructor of a transaction producer, so that it refuses unknown settings, such as a
    `transactionListener`, with advice on each, before Python misses the checker that stands for one.
    """

    @wraps(init)
    def checked(*args: P.args, **fields: P.kwargs) -> None:
        if "checker" not in fields:
            check_names(TransactionProducerConfig, fields.keys() - _ARGUMENTS)
        init(*args, **fields)

    return checked


class NotAwaited(TypeError):
    """A plain function returned a coroutine, which is closed now, as nothing will await it."""


def no_coroutine(returned: object) -> object:
    """Return what a plain function returned.

    Raises:
        NotAwaited: it is a coroutine.
    """
    if isinstance(returned, CoroutineType):
        with suppress(Exception):  # a coroutine that has started may raise anything
            returned.close()
        raise NotAwaited("it returned a coroutine: make it an `async def` function itself")
    return returned


def judged(what: str, returned: object) -> Outcome:
    """The outcome if a function returned this object."""
    if isinstance(returned, LocalTransactionState):
        return Outcome(returned)
    if isinstance(returned, str) and str.isascii(returned):  # other letters become these, too, in capitals
        state = LocalTransactionState.__members__.get(str.upper(returned))
        if state is not None:
            return Outcome(state)
    try:
        no_coroutine(returned)
    except NotAwaited as exc:
        return raised(what, exc)
    shown = repr(returned)[:100] if isinstance(returned, str) else type(returned).__name__
    return _mistaken(f"the {what} returned {shown}, which is not a LocalTransactionState", _STATES)


def raised(what: str, error: BaseException) -> Outcome:
    """The outcome if a function raised this error. The broker gets only the type of the error."""
    if isinstance(error, NotAwaited):
        return _mistaken(f"the {what} returned a coroutine", f"make the {what} an `async def` function itself")
    return Outcome(LocalTransactionState.UNKNOWN, error, f"the {what} raised {type(error).__name__}")


def _mistaken(problem: str, advice: str) -> Outcome:
    return Outcome(LocalTransactionState.UNKNOWN, ConfigError(f"{problem}: {advice}"), problem)


async def run_here(function: Callable[..., Any], *arguments: Any) -> object:
    """Call a function from a trio loop, and return what it returns. A plain function runs in a thread.

    The thread is waited for, even if this is cancelled.
    """
    if is_async(function):
        return await function(*arguments)
    return await run_blocking(function if runs_blocking_in_place() else partial(in_thread, function), *arguments)


def in_thread(function: Callable[..., Any], *arguments: Any) -> object:
    """Call a function in a thread that is not the user's, and return what it returns. A child that it forks ends.

    Raises:
        NotAwaited: it returned a coroutine. Trio's threads take none, and say so in words of their own.
        BaseException: whatever it raises.
    """
    with ChildEnds(everywhere=True):
        return no_coroutine(function(*arguments))


class CheckerCalls:
    """Calls checkers: async ones in their loop, plain ones in threads, which are abandoned on cancellation.

    `on_statistics` is called in the same way.

    Args:
        group: the group of the producer, for the names of the threads.
        most: the largest number of threads.
        async_caller: calls async checkers.
        what: what the threads do.
    """

    def __init__(self, group: str, most: int, async_caller: AsyncCaller, *, what: str = "checks") -> None:
        self._name = f"rocketpy-{what}-{group}"
        self._limiter = trio.CapacityLimiter(most)
        self._async_caller = async_caller

    async def __call__(self, checker: Checker, message: Any) -> object:
        """Call a checker, and return what it returns."""
        if is_async(checker):
            return await self._async_caller(self._inside_async, (checker, message))
        if runs_blocking_in_place():
            return await run_blocking(checker, message)
        return await trio.to_thread.run_sync(
            self._inside, checker, message, thread_name=self._name, abandon_on_cancel=True, limiter=self._limiter
        )

    @property
    def is_here(self) -> bool:
        """Whether the current code was called by a checker of this producer."""
        return _checking.get() is self

    def _inside(self, checker: Checker, message: Any) -> object:
        _checking.set(self)
        return in_thread(checker, message)

    async def _inside_async(self, checker: Callable[[MessageExt], Awaitable[object]], message: Any) -> object:
        token = _checking.set(self)
        try:
            return await checker(message)
        finally:
            _checking.reset(token)


_checking: ContextVar[CheckerCalls | None] = ContextVar("rocketpy_checker", default=None)
"""The caller of the checker that the current code, or the code that started it, belongs to. Closing a producer there
does not wait for checkers."""
