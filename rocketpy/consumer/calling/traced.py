"""Listeners whose calls are traced: a record before each call and one after it.

Java traces a listener inside of its hooks; here an exception of `before_consume` counts as the listener's own, so what
is traced is the call with its hooks. Calls that `dedupe` spares, and messages that an administrator has consumed
directly, are not traced. Plays the part of executeHookBefore and executeHookAfter in DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rocketpy.consumer.listeners import is_a, is_async_listener
from rocketpy.results import ConsumeResult
from rocketpy.trace.records import ContextCode

if TYPE_CHECKING:
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt
    from rocketpy.trace.consumes import ConsumeTracer, Ended

__all__ = ["Traced"]

_FAILURES = (Exception, SystemExit)


class Traced:
    """Wraps listeners for one consumer."""

    def __init__(self) -> None:
        self._tracer: ConsumeTracer | None = None

    def begin(self, tracer: ConsumeTracer) -> None:
        """The consumer is opened: calls are traced by this from here on."""
        self._tracer = tracer

    def wrap(self, listener: Listener) -> Listener:
        """A listener of the same kind, plain or async, whose calls are traced."""
        return self._wrap_async(listener) if is_async_listener(listener) else self._wrap_plain(listener)

    def _wrap_plain(self, listener: Listener) -> Listener:
        def traced(what: Any) -> object:
            ended = self._begin(what)
            try:
                outcome = listener(what)
            except _FAILURES:
                _failed(ended)
                raise
            _returned(ended, outcome, what)
            return outcome

        return traced

    def _wrap_async(self, listener: Listener) -> Listener:
        async def traced(what: Any) -> object:
            ended = self._begin(what)
            try:
                outcome = await listener(what)
            except _FAILURES:
                _failed(ended)
                raise
            _returned(ended, outcome, what)
            return outcome

        return traced

    def _begin(self, what: Any) -> Ended | None:
        return None if self._tracer is None else self._tracer.begin(_messages(what))


def _messages(what: Any) -> Sequence[MessageExt]:
    return what if isinstance(what, list) else [what]


def _failed(ended: Ended | None) -> None:
    if ended is not None:
        ended(ContextCode.EXCEPTION, False)


def _returned(ended: Ended | None, outcome: object, what: Any) -> None:
    if ended is None:
        return
    done = outcome is None or outcome is True or outcome is ConsumeResult.SUCCESS or outcome is ConsumeResult.COMMIT
    if not done and isinstance(what, list) and is_a(outcome, int) and not is_a(outcome, bool):
        done = outcome == len(what)
    ended(ContextCode.SUCCESS if done else ContextCode.FAILED, done)
