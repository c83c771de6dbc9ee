"""Consuming one message directly, because an administrator asked a broker for it. No offset changes.

The listener runs where listeners of its kind run, in a lane of its own that does not wait behind those of topics. It
gets no message whose body cannot be unpacked; Java, too, decodes a message before it looks for the listener. The number
of such calls and the size of their messages are limited, because listeners may hang and brokers may be hostile.
Plays the part of consumeMessageDirectly in ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.consumer.listeners import Raised, is_a, is_async_listener
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.errors import BrokerError, MessageDecodeError
from rocketpy.logs import get_logger
from rocketpy.results import ConsumeResult, RetryLater, Suspend
from rocketpy.services import run_blocking
from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import CMResult
from rocketpy.wire.sysflag import COMPRESSED

if TYPE_CHECKING:
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["DirectCall", "DirectCalls", "listener_argument"]

logger = get_logger(__name__)

MOST_CALLS = 64
"""How many direct calls of one consumer may be running, including calls whose broker has stopped waiting."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of the unpacked bodies of their messages; a single message may have more."""


class DirectCalls:
    """The direct calls of one consumer.

    Args:
        clock: the time in seconds, for any thread.
        in_loop: calls a plain function in the consumer's loop, from any thread.
        orderly: whether the consumer is orderly.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        in_loop: Callable[[Callable[[], object]], None],
        orderly: bool,
    ) -> None:
        self._clock = clock
        self._in_loop = in_loop
        self._orderly = orderly
        self._unpacking = trio.Lock()
        self._calls = 0
        self._bytes = 0

    async def begin(self, listener: Listener, message: MessageExt, *, batch: bool) -> DirectCall:
        """Prepare a call with a message: unpack its body, and check the limits.

        Args:
            listener: the listener.
            message: the message.
            batch: whether the listener takes lists.

        Raises:
            BrokerError: the body cannot be unpacked, or too many calls are running.
        """
        async with self._unpacking:
            problem = await run_blocking(_unpack, message) if message.sys_flag & COMPRESSED else None
            if problem is not None:
                raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, f"the message is damaged: {problem}")
            size = len(message.body)
            if self._calls >= MOST_CALLS or (self._calls and self._bytes + size > MOST_BYTES):
                remark = f"{self._calls} messages are already being consumed directly: try again later"
                raise BrokerError.for_code(ResponseCode.SYSTEM_BUSY, remark)
            self._calls += 1
            self._bytes += size

        def ended() -> None:
            self._calls -= 1
            self._bytes -= size

        return DirectCall(
            listener,
            message.queue,
            batch=batch,
            orderly=self._orderly,
            clock=self._clock,
            in_loop=self._in_loop,
            on_end=ended,
        )


def _unpack(message: MessageExt) -> str | None:
    """Unpack the body of a message. Returns why it cannot be unpacked, or None.

    The exception itself is not returned, because its traceback holds the bytes unpacked so far.
    """
    try:
        _ = message.body
    except MessageDecodeError as exc:
        return str(exc)
    return None


class DirectCall:
    """One call of a listener.

    Args:
        listener: the listener.
        queue: the queue that the message comes from.
        batch: whether the listener takes lists.
        orderly: whether the consumer is orderly.
        clock: the time in seconds, for any thread.
        in_loop: has a plain function called in the consumer's loop, from any thread.
        on_end: called in the loop once the listener has returned.

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
        on_end: Callable[[], object],
    ) -> None:
        self.listener: Listener = self._call_async if is_async_listener(listener) else self._call
        self.process_queue = ProcessQueue(queue, 0)
        self._inner = listener
        self._batch = batch
        self._orderly = orderly
        self._clock = clock
        self._in_loop = in_loop
        self._on_end = on_end
        self._ended = trio.Event()
        self._abandoned = False
        self._outcome: object = None
        self._seconds = 0.0

    def _call(self, what: Any) -> None:
        began = self._clock()
        try:
            outcome = None if self._abandoned else self._inner(what)
        except BaseException as exc:  # noqa: BLE001  it is part of the answer to the broker
            outcome = Raised(exc)
        self._note(outcome, began)

    async def _call_async(self, what: Any) -> None:
        began = self._clock()
        try:
            outcome = None if self._abandoned else await self._inner(what)
        except BaseException as exc:
            self._note(Raised(exc), began)
            if not isinstance(exc, Exception):
                raise  # the worker that makes the call decides whether to end
        else:
            self._note(outcome, began)

    def _note(self, outcome: object, began: float) -> None:
        """Record the result, and drop the process queue so that only `wait` acts on the result."""
        if isinstance(outcome, Raised):
            logger.warning("a listener that a broker has called directly failed", exc_info=outcome.error)
        self._outcome, self._seconds = outcome, self._clock() - began
        self.process_queue.dropped = True
        self._in_loop(self._end)

    def _end(self) -> None:
        self._ended.set()
        self._on_end()

    async def wait(self) -> ConsumeMessageDirectlyResult:
        """Wait for the end of the call, and return its result as it travels to the broker.

        If this is cancelled before the listener is called, the listener is not called at all.
        """
        try:
            await self._ended.wait()
        finally:
            self._abandoned = not self._ended.is_set()
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
