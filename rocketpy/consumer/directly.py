"""Consuming one message directly, because an administrator asked a broker for it. No offset changes.

The listener runs where listeners of its kind run, in a lane of its own that does not wait behind those of topics. Plays
the part of consumeMessageDirectly in ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.consumer.listeners import Raised, is_a, is_async_listener
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.logs import get_logger
from rocketpy.results import ConsumeResult, RetryLater, Suspend
from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult
from rocketpy.wire.enums import CMResult

if TYPE_CHECKING:
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["DirectCall", "listener_argument"]

logger = get_logger(__name__)


class DirectCall:
    """One call of a listener.

    Args:
        listener: the listener.
        queue: the queue that the message comes from.
        batch: whether the listener takes lists.
        orderly: whether the consumer is orderly.
        clock: the time in seconds, for any thread.
        in_loop: has a plain function called in the consumer's loop, from any thread.

    Attributes:
        listener: What a runner calls instead: it calls the listener and records the result.
        process_queue: A process queue for this call alone, which affects no offset.
    """

    def __init__(
        self,
        listener: Listener,
        queue: MessageQueue,
        *,
        batch: bool,
        orderly: bool = False,
        clock: Callable[[], float],
        in_loop: Callable[[Callable[[], object]], None],
    ) -> None:
        self.listener: Listener = self._call_async if is_async_listener(listener) else self._call
        self.process_queue = ProcessQueue(queue, 0)
        self._inner = listener
        self._batch = batch
        self._orderly = orderly
        self._clock = clock
        self._in_loop = in_loop
        self._ended = trio.Event()
        self._outcome: object = None
        self._seconds = 0.0

    def _call(self, what: Any) -> None:
        began = self._clock()
        try:
            outcome = self._inner(what)
        except BaseException as exc:  # noqa: BLE001  it is part of the answer to the broker
            outcome = Raised(exc)
        self._note(outcome, began)

    async def _call_async(self, what: Any) -> None:
        began = self._clock()
        try:
            outcome = await self._inner(what)
        except BaseException as exc:
            self._note(Raised(exc), began)
            if not isinstance(exc, Exception):
                raise  # the worker that makes the call decides whether to end
        else:
            self._note(outcome, began)

    def _note(self, outcome: object, began: float) -> None:
        """Record the result, and drop the process queue so that only `wait` acts on the result."""
        if isinstance(outcome, Raised):
            logger.warning("a listener failed that was called for a broker", exc_info=outcome.error)
        self._outcome, self._seconds = outcome, self._clock() - began
        self.process_queue.dropped = True
        self._in_loop(self._ended.set)

    async def wait(self) -> ConsumeMessageDirectlyResult:
        """Wait for the end of the call, and return its result as it travels to the broker."""
        await self._ended.wait()
        result, remark = _judged(self._outcome, batch=self._batch, orderly=self._orderly)
        return ConsumeMessageDirectlyResult(
            order=self._orderly, consume_result=result, remark=remark, spent_time_mills=round(self._seconds * 1000)
        )


def _judged(outcome: object, *, batch: bool, orderly: bool) -> tuple[CMResult, str | None]:
    """Translate a listener's result by the rules of `listeners`. Of an exception, only the type is sent."""
    if is_a(outcome, Raised):
        return CMResult.CR_THROW_EXCEPTION, f"{type(outcome.error).__name__}: the log of the consumer has the details"
    if outcome is None or outcome is True or outcome is ConsumeResult.SUCCESS:
        return CMResult.CR_SUCCESS, None
    if is_a(outcome, RetryLater) and outcome.done and batch:
        outcome = outcome.done
    if orderly and (outcome is ConsumeResult.COMMIT or outcome is ConsumeResult.ROLLBACK):
        return (CMResult.CR_COMMIT if outcome is ConsumeResult.COMMIT else CMResult.CR_ROLLBACK), None
    if outcome is False or outcome is ConsumeResult.RETRY or is_a(outcome, RetryLater) or is_a(outcome, Suspend):
        return CMResult.CR_LATER, None
    if batch and is_a(outcome, int) and not is_a(outcome, bool) and outcome in (0, 1):
        return (CMResult.CR_SUCCESS if outcome else CMResult.CR_LATER), None
    return CMResult.CR_LATER, f"the listener answered with a {type(outcome).__name__}, which counts as failed"


def listener_argument(message: MessageExt, *, batch: bool) -> MessageExt | list[MessageExt]:
    """The argument for a listener: the message, or a list of it."""
    return [message] if batch else message
