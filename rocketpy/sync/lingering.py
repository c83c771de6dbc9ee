"""Sends of threads whose messages linger: they are handed to the portal, which forms and sends batches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING

from rocketpy.errors import TooManyRequestsError
from rocketpy.portal.waiting import acquire
from rocketpy.producer.lingering import no_room
from rocketpy.results import SendResult
from rocketpy.sync.future import SendFuture, complete_all

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.accumulator import Accumulator
    from rocketpy.producer.items import Head, LingeringMessage, Outcome
    from rocketpy.sync.direct import DirectSends
    from rocketpy.sync.future import Surroundings
    from rocketpy.sync.gate import Gate

__all__ = ["ThreadSends"]


class _LingeringFuture(SendFuture[SendResult]):
    """The future of a message that lingers; it is also the ticket of the message in the gate, and its sink.

    Args:
        surroundings: of its producer.
        gate: where it takes room.
        topic: the topic of the message.

    Attributes:
        beginner: the ident of the thread that is handing the message over, 0 afterwards, as in `Soon`.
    """

    is_gone = False

    def __init__(self, surroundings: Surroundings, gate: Gate, topic: str) -> None:
        self._surroundings, self._topic = surroundings, topic  # all that the base class's own __init__ does
        self._gate = gate
        self.beginner = get_ident()

    def hear(self, outcome: Outcome) -> None:
        """Complete the future."""
        self.complete(outcome)
        self._gate.leave(self)  # last: those who wait until the gate is empty find the callbacks due

    @staticmethod
    def hear_all(sinks: Sequence[_LingeringFuture], results: Sequence[SendResult]) -> None:
        """Complete each with its result."""
        complete_all(sinks, results)
        sinks[0]._gate.leave_all(sinks)


class _Sender:
    """A thread that waits for the outcome of its message.

    Attributes:
        beginner: the ident of the thread while it hands the message over, 0 afterwards, as in `Soon`.
        is_gone: whether it waits no longer.
        outcome: the outcome of the message.
    """

    __slots__ = ("_gate", "_lock", "beginner", "is_gone", "outcome")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.beginner = get_ident()
        self._lock = threading.Lock()
        self._lock.acquire()
        self.is_gone = False
        self.outcome: Outcome | None = None

    def hear(self, outcome: Outcome) -> None:
        """Take the outcome, and wake the thread."""
        self.outcome = outcome
        self._gate.leave(self)
        self._lock.release()

    @staticmethod
    def hear_all(sinks: Sequence[_Sender], results: Sequence[SendResult]) -> None:
        """Have each take its result, and wake all threads."""
        for sink, result in zip(sinks, results, strict=True):
            sink.outcome = result
        sinks[0]._gate.leave_all(sinks)
        for sink in sinks:
            sink._lock.release()

    def wait(self) -> SendResult:
        """Wait for the outcome, and return or raise it."""
        try:
            acquire(self._lock)
        except BaseException:
            self.is_gone = True
            raise
        outcome, self.outcome = self.outcome, None
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                del outcome  # its traceback refers to this frame: no cycle may stay behind
        assert outcome is not None
        return outcome


class ThreadSends:
    """The sends of one blocking producer whose messages linger.

    Args:
        direct: The other sends of the producer.
        gate: Bounds the messages under way.
        surroundings: What the futures of the producer share.
    """

    def __init__(self, direct: DirectSends, gate: Gate, surroundings: Surroundings) -> None:
        self._direct = direct
        self._gate = gate
        self._surroundings = surroundings

    @property
    def _accumulator(self) -> Accumulator:
        found = self._direct.outside.accumulator
        assert found is not None
        return found

    def hurry(self) -> None:
        """Send the batches soon, because a caller waits for a message in them or for room."""
        self._accumulator.hurry()

    def send(
        self, message: Message, head: Head, queue: MessageQueue | None, seconds: float, deadline: float, retries: int
    ) -> SendResult:
        """Send a message and wait for the answer.

        Raises:
            ConfigError: this thread may not wait.
            TooManyRequestsError: too many bytes were waiting, for the whole time.
            RocketMQError: it was not acknowledged.
        """
        self._direct.home.check_not_here()
        outside, sender = self._direct.outside, _Sender(self._gate)
        entry = outside.items.entry(message, head, sender, queue, seconds, 1 + retries, deadline, waits=True)
        try:
            self._enter(sender, entry)
            self._accumulator.drop_in(entry)
            sender.beginner = 0
            return sender.wait()
        except BaseException:
            self._gate.leave(sender)
            raise

    def send_soon(
        self, message: Message, head: Head, queue: MessageQueue | None, seconds: float, deadline: float, retries: int
    ) -> SendFuture[SendResult]:
        """Send a message; the future will hold the answer. Raises what `send` raises before it waits for the answer."""
        outside, future = self._direct.outside, _LingeringFuture(self._surroundings, self._gate, message.topic)
        entry = outside.items.entry(message, head, future, queue, seconds, 1 + retries, deadline, waits=False)
        try:
            if not self._gate.enter(future, len(entry.body), wait=False):
                self._enter(future, entry)
            self._accumulator.drop_in(entry)
        except BaseException:
            self._gate.leave(future)
            raise
        future.beginner = 0
        return future

    def _enter(self, ticket: object, entry: LingeringMessage) -> None:
        """Take room in the gate, waiting for it until the deadline of the message."""
        gate, size = self._gate, len(entry.body)
        if gate.enter(ticket, size, wait=False):
            return
        self.hurry()
        if self._direct.is_ours:
            raise TooManyRequestsError(
                "too many messages are in flight, and a background thread of rocketpy must not wait for room: send in "
                "a thread of yours, or raise back_pressure_for_async_send_num or total_batch_max_bytes"
            )
        core = self._direct.core
        if not gate.enter(ticket, size, timeout=entry.deadline - core.clock()):
            raise no_room(entry.topic, entry.timeout, core.config.total_batch_max_bytes)
