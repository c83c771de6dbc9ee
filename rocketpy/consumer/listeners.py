"""Listeners: which kind they are, and what they mean by what they return.

None is success. Later means: an exception, the timeout, `ConsumeResult.RETRY`, `RetryLater`. A batch listener may say
how many of its messages are done. Anything else is a mistake in the listener and counts as later, loudly. Plays the
part of ConsumeConcurrentlyStatus, ConsumeReturnType and of the ackIndex of ConsumeConcurrentlyContext.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from rocketpy.results import ConsumeResult, RetryLater

if TYPE_CHECKING:
    from rocketpy.consumer.subscription import Listener
    from rocketpy.logs import Seldom
    from rocketpy.message import MessageExt

__all__ = ["Raised", "Verdict", "is_async_listener", "judge", "must_pass"]

BROKER_DECIDES = 0
"""The delay level that leaves the time of the next try to the broker."""


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


def is_async_listener(listener: Listener) -> bool:
    """Whether calling it gives something to await."""
    while isinstance(listener, functools.partial):
        listener = listener.func
    if inspect.iscoroutinefunction(listener):
        return True
    return inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004  an object with async def __call__


def judge(outcome: object, messages: Sequence[MessageExt], *, batch: bool, seldom: Seldom) -> Verdict:
    """What a listener meant. Failures are logged here, one of a kind a second for each topic."""
    if outcome is None or outcome is ConsumeResult.SUCCESS:
        return Verdict(len(messages))
    if outcome is ConsumeResult.RETRY:
        return Verdict(0)
    if isinstance(outcome, RetryLater):
        return Verdict(0, outcome.delay_level)
    if batch and isinstance(outcome, int) and not isinstance(outcome, bool) and 0 <= outcome <= len(messages):
        return Verdict(outcome)
    _complain(outcome, messages, seldom)
    return Verdict(0)


def _complain(outcome: object, messages: Sequence[MessageExt], seldom: Seldom) -> None:
    topic = messages[0].topic
    what = f"{messages[0]!r}" + (f" and {len(messages) - 1} more" if len(messages) > 1 else "")
    if isinstance(outcome, Raised):
        cause = topic, type(outcome.error)
        seldom.warning(cause, "the listener failed with %s, it comes again later", what, exc_info=outcome.error)
        return
    advice = "return None, ConsumeResult or RetryLater"
    if inspect.iscoroutine(outcome):
        outcome.close()
        advice = "a listener that has to be awaited must be an `async def` function itself"
    seldom.error(
        (topic, type(outcome)),
        "the listener answered %.100r for %s, which counts as failed: %s",
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
