"""Listeners: which kind they are, and what their results mean.

None and True mean success. An exception, the timeout, False, `ConsumeResult.RETRY` and `RetryLater` mean that the
message comes again later. A batch listener may return how many messages are done, or pass that to `RetryLater` with the
delay of the others. In an orderly consumer, `Suspend` sets the pause; with `auto_commit=False`, COMMIT and ROLLBACK
commit or redeliver what was consumed. Any other result is a mistake in the listener: the message comes again later, and
an error is logged once for each listener, because one that returns such a thing does so every time. Plays the part of
ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, ConsumeReturnType, ConsumeOrderlyContext, and of the ackIndex of
ConsumeConcurrentlyContext.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, TypeVar

import attrs
import trio

from rocketpy.logs import error_text, get_logger, shown
from rocketpy.results import ConsumeResult, RetryLater, Suspend

if TYPE_CHECKING:
    from rocketpy.logs import Seldom
    from rocketpy.message import MessageExt

__all__ = [
    "A_COPY",
    "LoggedListeners",
    "OrderVerdict",
    "Raised",
    "Verdict",
    "is_a",
    "is_async_listener",
    "is_ctrl_c",
    "judge",
    "judge_in_order",
    "let_pass",
]

logger = get_logger(__name__)

BROKER_DECIDES = 0
"""The delay level that leaves the time of the next attempt to the broker."""
A_COPY: Final = object()
"""The result of a call that needed no listener, because all of its messages are duplicates, where listeners commit by
hand. Its messages are committed together with uncommitted ones, at once if there are none."""


@attrs.frozen
class Raised:
    """The exception that a listener raised instead of returning.

    Attributes:
        error: the exception.
        cut_off: whether the call was cancelled from outside, so that the listener is not to blame.
    """

    error: BaseException
    cut_off: bool = False


class Verdict(NamedTuple):
    """What happens to the messages of a listener call."""

    done: int
    """How many of them are done, from the first one on."""
    delay_level: int = BROKER_DECIDES
    """The delay level with which the others come again."""


def is_async_listener(listener: Callable[..., Any]) -> bool:
    """Whether calling a function returns something to await."""
    while isinstance(listener, functools.partial):
        listener = listener.func
    if inspect.iscoroutinefunction(listener):
        return True
    return inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004  an object with async def __call__


T = TypeVar("T")


def is_a(outcome: object, kind: type[T]) -> TypeGuard[T]:
    """`isinstance` that runs no code of the object, for what a listener returned: a proxy's `__class__` may raise."""
    return issubclass(type(outcome), kind)


_SINGLE = (
    "return None, True or ConsumeResult.SUCCESS if it is done, and False, ConsumeResult.RETRY{} if it is to be tried "
    "again"
)
_LATER = " or a RetryLater"
_LATER_IN_ORDER = ", a RetryLater or a Suspend"
_LISTS = "; or an int, how many of the {} messages are done, counted from the front"
_NO_LOOP = "no running event loop"
"""What asyncio says where none of its loops runs."""
_ON_TRIO = (
    "; async listeners of rocketpy.sync run on trio, as those of rocketpy do: await trio's functions in them, or use "
    "rocketpy.aio, which is for asyncio"
)
_MOST_LOGGED = 64


class LoggedListeners:
    """The listeners of one consumer whose mistakes are logged already. One that returns junk does so every time."""

    def __init__(self) -> None:
        self._listeners: deque[object] = deque(maxlen=_MOST_LOGGED)

    def is_first(self, listener: object) -> bool:
        """Note a mistake of a listener. Returns whether it is its first."""
        if any(each is listener for each in self._listeners):
            return False
        self._listeners.append(listener)
        return True


def judge(
    outcome: object,
    messages: Sequence[MessageExt],
    *,
    batch: bool,
    seldom: Seldom,
    again: bool = True,
    in_order: bool = False,
    listener: object = None,
    logged: LoggedListeners | None = None,
) -> Verdict:
    """Interpret the result of a call, a `Raised` included. Failures are logged, one of a kind a second for each topic.

    Args:
        outcome: what the listener returned, or a `Raised`.
        messages: the messages of the call.
        batch: whether the listener takes lists.
        seldom: the logger, which limits repetitions.
        again: whether the log should say that failed messages come again.
        in_order: whether a listener may return a Suspend, for the log.
        listener: the listener.
        logged: the listeners whose mistakes are logged already; None to log every one.
    """
    if outcome is None or outcome is True or outcome is ConsumeResult.SUCCESS:
        return Verdict(len(messages))
    if outcome is False or outcome is ConsumeResult.RETRY:
        return Verdict(0)
    if is_a(outcome, RetryLater) and outcome.done <= (len(messages) if batch else 0):
        return Verdict(outcome.done, outcome.delay_level)
    if batch and is_a(outcome, int) and not is_a(outcome, bool) and 0 <= outcome <= len(messages):
        return Verdict(outcome)
    if is_a(outcome, Raised):
        _log_failure(outcome.error, messages, seldom, listener, again=again)
        return Verdict(0)
    advice = _advice(outcome, messages, batch=batch, in_order=in_order)
    if logged is None or logged.is_first(listener):
        _log_mistake(outcome, messages, advice, again=again)
    return Verdict(0)


class OrderVerdict(NamedTuple):
    """What happens to the messages of a listener call in an orderly consumer."""

    done: int
    """How many of them are consumed, from the first one on."""
    pause: float = 0.0
    """Seconds until the others come again."""
    dead: bool = False
    """The others become dead letters instead."""
    commit: bool = False
    """Everything that is consumed of the queue is committed."""
    rollback: bool = False
    """Everything of the queue since the last commit comes again after the pause."""


_DELAYS = (1.0, 5.0, 10.0)
"""Seconds of the first delay levels, by the brokers' default; all others count as the longest pause of a queue."""
_LONGEST_PAUSE = 30.0
_NO_COMMITS = "only a consumer with auto_commit=False leaves that to its listeners"


def judge_in_order(
    outcome: object,
    messages: Sequence[MessageExt],
    *,
    batch: bool,
    auto_commit: bool,
    pause: float,
    seldom: Seldom,
    listener: object = None,
    logged: LoggedListeners | None = None,
) -> OrderVerdict:
    """Interpret the result of a call in an orderly consumer. Failures are logged as in `judge`.

    Args:
        outcome: what the listener returned, or a `Raised`.
        messages: the messages of the call.
        batch: whether the listener takes lists.
        auto_commit: whether success commits.
        pause: seconds until failed messages come again, unless the result says otherwise.
        seldom: the logger, which limits repetitions.
        listener: the listener.
        logged: the listeners whose mistakes are logged already; None to log every one.
    """
    if is_a(outcome, Suspend):
        return OrderVerdict(0, outcome.seconds)
    if outcome is ConsumeResult.COMMIT or outcome is ConsumeResult.ROLLBACK:
        commit = outcome is ConsumeResult.COMMIT
        if auto_commit:
            if logged is None or logged.is_first(listener):
                _log_mistake(outcome, messages, _NO_COMMITS, again=not commit)
            return OrderVerdict(len(messages)) if commit else OrderVerdict(0, pause)
        return OrderVerdict(len(messages), commit=True) if commit else OrderVerdict(0, pause, rollback=True)
    done, level = judge(outcome, messages, batch=batch, seldom=seldom, in_order=True, listener=listener, logged=logged)
    if level == BROKER_DECIDES or done == len(messages):
        return OrderVerdict(done, pause)
    return OrderVerdict(done, _DELAYS[level - 1] if 0 < level <= len(_DELAYS) else _LONGEST_PAUSE, dead=level < 0)


def _log_failure(
    error: BaseException, messages: Sequence[MessageExt], seldom: Seldom, listener: object, *, again: bool
) -> None:
    later = f"; the {'message' if len(messages) == 1 else 'messages'} will be retried" if again else ""
    is_async = callable(listener) and is_async_listener(listener)
    if is_async and is_a(error, RuntimeError) and _NO_LOOP in error_text(error):
        later += _ON_TRIO
    cause = messages[0].topic, type(error)
    seldom.warning(cause, "the listener raised an exception for %s%s", _what(messages), later, exc_info=error)


def _advice(outcome: object, messages: Sequence[MessageExt], *, batch: bool, in_order: bool) -> str:
    """What a listener should have returned."""
    if is_a(outcome, RetryLater):
        return f"`done` is a number of messages in its list, here at most {len(messages)}; without lists, leave it out"
    if is_a(outcome, CoroutineType):
        with suppress(Exception):  # a coroutine that has started may raise anything
            outcome.close()
        return "a listener that has to be awaited must be an `async def` function itself"
    single = _SINGLE.format(_LATER_IN_ORDER if in_order else _LATER)
    return single + _LISTS.format(len(messages)) if batch else single


def _log_mistake(outcome: object, messages: Sequence[MessageExt], advice: str, *, again: bool) -> None:
    logger.error(
        "the listener returned %s for %s, which has no meaning here: %s. %s (This is logged once for each listener.)",
        shown(outcome),
        _what(messages),
        advice,
        "It is tried again." if again else "It is not tried again.",
    )


def _what(messages: Sequence[MessageExt]) -> str:
    return f"{messages[0]!r}" + (f" and {len(messages) - 1} more" if len(messages) > 1 else "")


def is_ctrl_c(error: BaseException) -> bool:
    """Whether this is Ctrl-C, alone or in a group.

    Ctrl-C arrives in the main thread only; in another thread, the function has raised KeyboardInterrupt itself.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(is_ctrl_c(inner) for inner in error.exceptions)
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def let_pass(error: BaseException, task: trio.lowlevel.Task) -> None:
    """Raise what is no failure of the user's function that raised it: Ctrl-C, cancellation, and the end of its task.

    All else is that function's failure, whatever its type: SystemExit, an exception derived from BaseException, and a
    GeneratorExit of its own. The interpreter throws a GeneratorExit into a task that it takes down, from outside.

    Args:
        error: what was raised.
        task: awaited the function.
    """
    if is_ctrl_c(error) or (not _is_running(task) and _is_or_holds(error, GeneratorExit)):
        raise error
    if isinstance(error, trio.Cancelled):
        raise error
    if isinstance(error, BaseExceptionGroup):
        cancelled, failed = error.split(trio.Cancelled)
        if cancelled is not None:
            if failed is not None:
                logger.warning("a function of the application failed while it was cancelled", exc_info=failed)
            raise cancelled


def _is_running(task: trio.lowlevel.Task) -> bool:
    try:
        return trio.lowlevel.current_task() is task
    except RuntimeError:  # no trio runs in this thread
        return False


def _is_or_holds(error: BaseException, kind: type[BaseException]) -> bool:
    return error.split(kind)[0] is not None if isinstance(error, BaseExceptionGroup) else isinstance(error, kind)
