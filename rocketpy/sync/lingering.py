"""Sends of threads that wait for company: messages are dropped into the portal, where batches are formed and sent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rocketpy.errors import TooManyRequestsError
from rocketpy.portal.waiting import acquire
from rocketpy.producer.company import no_room
from rocketpy.results import SendResult
from rocketpy.sync.future import SendFuture

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.accumulator import Accumulator
    from rocketpy.producer.items import Entry, Head, Outcome
    from rocketpy.sync.direct import DirectSends
    from rocketpy.sync.future import Surroundings
    from rocketpy.sync.gate import Gate

__all__ = ["ThreadSends"]


class _CompanyFuture(SendFuture[SendResult]):
    """The future of a message that waits for company; takes its place in the gate, and hears of its batch.

    Args:
        surroundings: of its producer.
        gate: where it takes room.

    Attributes:
        beginner: the ident of the thread that is handing the message over, 0 afterwards, as in `Soon`.
    """

    is_gone = False

    def __init__(self, surroundings: Surroundings, gate: Gate) -> None:
        super().__init__(surroundings)
        self._gate = gate
        self.beginner = threading.get_ident()

    def hear(self, outcome: Outcome) -> None:
        """This became of it."""
        self.complete(outcome)
        self._gate.leave(self)  # last: those who wait until nobody is inside find the callbacks due


class _Sender:
    """A thread that waits for what becomes of its message.

    Attributes:
        beginner: the ident of the thread while it hands the message over, 0 afterwards, as in `Soon`.
        is_gone: whether it waits no longer.
        outcome: what became of the message.
    """

    __slots__ = ("_gate", "_lock", "beginner", "is_gone", "outcome")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.beginner = threading.get_ident()
        self._lock = threading.Lock()
        self._lock.acquire()
        self.is_gone = False
        self.outcome: Outcome | None = None

    def hear(self, outcome: Outcome) -> None:
        """This became of it."""
        self.outcome = outcome
        self._gate.leave(self)
        self._lock.release()

    def wait(self) -> SendResult:
        """Wait until it has heard."""
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
    """The sends of one blocking producer whose messages wait for company.

    Args:
        direct: Its other sends.
        gate: Where its messages take room.
        surroundings: Of its futures.
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
        """Somebody waits for what waits for company, or for the room that it takes."""
        self._accumulator.hurry()

    def send(
        self, message: Message, head: Head, queue: MessageQueue | None, seconds: float, retries: int
    ) -> SendResult:
        """Send a message and wait for the answer.

        Raises:
            ConfigError: this thread may not wait.
            TooManyRequestsError: too much waited already, for the whole time.
            RocketMQError: it was not acknowledged.
        """
        self._direct.home.check_not_here()
        outside, sender = self._direct.outside, _Sender(self._gate)
        deadline = outside.core.clock() + seconds
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
        self, message: Message, head: Head, queue: MessageQueue | None, seconds: float, retries: int
    ) -> SendFuture[SendResult]:
        """Send a message; the future holds the answer. Raises as `send`, of what is known at once."""
        outside, future = self._direct.outside, _CompanyFuture(self._surroundings, self._gate)
        deadline = outside.core.clock() + seconds
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

    def _enter(self, ticket: object, entry: Entry) -> None:
        """Take room, and wait for it as long as the message has time."""
        gate, size = self._gate, len(entry.body)
        if gate.enter(ticket, size, wait=False):
            return
        self.hurry()
        if self._direct.is_ours:
            raise TooManyRequestsError(
                "too much is under way, and a background thread of rocketpy must not wait for room: hand the message "
                "to a thread of yours, or raise back_pressure_for_async_send_num or total_batch_max_bytes"
            )
        core = self._direct.core
        if not gate.enter(ticket, size, timeout=entry.deadline - core.clock()):
            raise no_room(entry.topic, entry.timeout, core.config.total_batch_max_bytes)
