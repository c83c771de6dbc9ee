"""Listeners: which kind they are, and what they mean by what they return.

None is success. Later means: an exception, the timeout, `ConsumeResult.RETRY`, `RetryLater`. A batch listener may say
how many of its messages are done, with the delay of the others in `RetryLater`. Where order counts, `Suspend` says how
much later; and where nothing is committed unless a listener says so, COMMIT and ROLLBACK say it. Anything else is a
mistake in the listener and counts as later, loudly. Plays the part of ConsumeConcurrentlyStatus, ConsumeOrderlyStatus,
ConsumeReturnType, of the ackIndex of ConsumeConcurrentlyContext and of ConsumeOrderlyContext.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import trio

from rocketpy.results import ConsumeResult, RetryLater, Suspend

if TYPE_CHECKING:
    from rocketpy.logs import Seldom
    from rocketpy.message import MessageExt

__all__ = ["A_COPY", "OrderVerdict", "Raised", "Verdict", "is_async_listener", "judge", "judge_in_order", "must_pass"]

BROKER_DECIDES = 0
"""The delay level that leaves the time of the next try to the broker."""
A_COPY: Final = object()
"""Where listeners commit: what comes of a call for which no listener was needed, since all of it was consumed already.
It is committed with what waits to be committed, at once when nothing does."""


@attrs.frozen
class Raised:
    """What a listener raised instead of returning."""

    error: BaseException


class Verdict(NamedTuple):
    """What becomes of the messages that a listener got."""

    done: int
    """So many of them, from the first on, are dealt with."""
    delay_level: int = BROKER_DECIDES
    """When the others come again."""


def is_async_listener(listener: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    while isinstance(listener, functools.partial):
        listener = listener.func
    if inspect.iscoroutinefunction(listener):
        return True
    return inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004  an object with async def __call__


def judge(
    outcome: object, messages: Sequence[MessageExt], *, batch: bool, seldom: Seldom, again: bool = True
) -> Verdict:
    """What a listener meant. Failures are logged here, one of a kind a second for each topic.

    What does not come `again` is told of elsewhere.
    """
    if outcome is None or outcome is ConsumeResult.SUCCESS:
        return Verdict(len(messages))
    if outcome is ConsumeResult.RETRY:
        return Verdict(0)
    if isinstance(outcome, RetryLater) and outcome.done <= (len(messages) if batch else 0):
        return Verdict(outcome.done, outcome.delay_level)
    if batch and isinstance(outcome, int) and not isinstance(outcome, bool) and 0 <= outcome <= len(messages):
        return Verdict(outcome)
    _complain(outcome, messages, seldom, again=again)
    return Verdict(0)


class OrderVerdict(NamedTuple):
    """What becomes of messages that a listener got in order."""

    done: int
    """So many of them, from the first on, are consumed."""
    pause: float = 0.0
    """Seconds until the others come again."""
    dead: bool = False
    """The others become dead letters instead."""
    commit: bool = False
    """Everything that is consumed of the queue is committed."""
    rollback: bool = False
    """Everything of the queue since the last commit comes again after the pause."""


_DELAYS = (1.0, 5.0, 10.0)
"""Seconds of the first delay levels as brokers are set up; all others are as long as a queue may be suspended."""
_LONGEST_PAUSE = 30.0


def judge_in_order(
    outcome: object, messages: Sequence[MessageExt], *, batch: bool, auto_commit: bool, pause: float, seldom: Seldom
) -> OrderVerdict:
    """What a listener meant that consumes in order. Failures are logged here, as in `judge`."""
    if isinstance(outcome, Suspend):
        return OrderVerdict(0, outcome.seconds)
    if outcome is ConsumeResult.COMMIT or outcome is ConsumeResult.ROLLBACK:
        commit = outcome is ConsumeResult.COMMIT
        if auto_commit:
            _complain(outcome, messages, seldom, "only a consumer with auto_commit=False leaves that to its listeners")
            return OrderVerdict(len(messages)) if commit else OrderVerdict(0, pause)
        return OrderVerdict(len(messages), commit=True) if commit else OrderVerdict(0, pause, rollback=True)
    done, level = judge(outcome, messages, batch=batch, seldom=seldom)
    if level == BROKER_DECIDES or done == len(messages):
        return OrderVerdict(done, pause)
    return OrderVerdict(done, _DELAYS[level - 1] if 0 < level <= len(_DELAYS) else _LONGEST_PAUSE, dead=level < 0)


def _complain(
    outcome: object, messages: Sequence[MessageExt], seldom: Seldom, advice: str | None = None, *, again: bool = True
) -> None:
    topic = messages[0].topic
    what = f"{messages[0]!r}" + (f" and {len(messages) - 1} more" if len(messages) > 1 else "")
    if isinstance(outcome, Raised):
        cause = topic, type(outcome.error)
        later = ", it comes again later" if again else ""
        seldom.warning(cause, "the listener failed with %s%s", what, later, exc_info=outcome.error)
        return
    if advice is None:
        advice = "return None, ConsumeResult.SUCCESS, ConsumeResult.RETRY or RetryLater"
    if isinstance(outcome, RetryLater):
        advice = (
            f"`done` counts messages of the list that it got, here {len(messages)}; who gets no lists leaves it out"
        )
    if inspect.iscoroutine(outcome):
        outcome.close()
        advice = "a listener that has to be awaited must be an `async def` function itself"
    seldom.error(
        (topic, type(outcome)),
        "the listener returned %.100r for %s, which means nothing here: %s",
        outcome,
        what,
        advice,
    )


def must_pass(error: BaseException) -> bool:
    """Whether what was raised in a trio task is not the listener's own: cancellation, and Ctrl-C.

    Ctrl-C strikes in the main thread alone; elsewhere a listener has raised KeyboardInterrupt itself.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(must_pass(inner) for inner in error.exceptions)
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return isinstance(error, trio.Cancelled | GeneratorExit)
