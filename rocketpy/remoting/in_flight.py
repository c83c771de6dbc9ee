"""The in-flight table: requests of ours that wait for an answer, on one connection.

A request has a slot from the moment it is written until exactly one thing ends it: its answer, its deadline, the
cancellation of its caller, or the end of the connection. The code that takes the slot out of the table completes it, so
nothing is completed twice. Plays the part of ResponseFuture and of the responseTable, which Java has once per
process; ours is per connection, so that no server answers for another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import LocalProtocolError, RocketMQError, TooManyRequestsError
from rocketpy.logs import get_logger
from rocketpy.wire.frame import Frame

if TYPE_CHECKING:
    from rocketpy.wire.fast_answer import SendAnswer

__all__ = ["Done", "InFlight", "RequestSlot"]

_logger = get_logger(__name__)
_MAX_OPAQUE = 0x7FFFFFFF

Done = Callable[[Frame | RocketMQError], None]


class RequestSlot:
    """One request: a parked task, or a function to call.

    Attributes:
        is_send: whether the task takes the fields of a plain success to a send in place of its frame.
    """

    __slots__ = ("deadline", "done", "is_send", "opaque", "result", "table", "task")

    def __init__(
        self,
        table: dict[int, RequestSlot],
        opaque: int,
        deadline: float,
        task: trio.lowlevel.Task | None,
        done: Done | None,
    ) -> None:
        self.table = table
        self.opaque = opaque
        self.deadline = deadline
        self.task = task
        self.done = done
        self.is_send = False
        self.result: Frame | SendAnswer | RocketMQError | None = None

    def __call__(self, _: Callable[[], None]) -> trio.lowlevel.Abort:
        """What trio calls when the parked task is cancelled: forget the opaque, and nothing else."""
        del self.table[self.opaque]
        return trio.lowlevel.Abort.SUCCEEDED

    def complete(self, result: Frame | RocketMQError) -> None:
        """Hand over the answer or the error; the slot is out of the table by now."""
        if self.task is not None:
            self.result = result
            trio.lowlevel.reschedule(self.task)
            return
        assert self.done is not None
        try:
            self.done(result)
        except Exception:
            # The function has a bug; the other requests on this connection are not to blame.
            _logger.exception("the function that takes the answer to request %d failed", self.opaque)


class InFlight:
    """Requests by opaque. `earliest` is a lower bound on their deadlines.

    Attributes:
        has_sends: whether there was a send whose task takes fields: answers are looked at accordingly from then on.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.has_sends = False
        self._slots: dict[int, RequestSlot] = {}
        self._next = 0

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._slots)

    def next_opaque(self) -> int:
        """A number that no waiting request has; counts on from 0 and wraps at 2**31."""
        opaque = self._next
        while opaque in self._slots:
            opaque = (opaque + 1) & _MAX_OPAQUE
        self._next = (opaque + 1) & _MAX_OPAQUE
        return opaque

    def check(self, opaque: int) -> int:
        """Refuse what could not be registered, before a byte is written. How many requests wait.

        Raises:
            TooManyRequestsError: the table is full.
            LocalProtocolError: a request with this opaque waits already.
        """
        waiting = len(self._slots)
        if waiting >= self.limit:
            raise TooManyRequestsError(f"{waiting} requests wait for answers on this connection: send more slowly")
        if opaque in self._slots:
            raise LocalProtocolError(f"a request with opaque {opaque} waits already: take it from next_opaque()")
        return waiting

    def enter(self, opaque: int, deadline: float) -> RequestSlot:
        """A slot for the calling task, which parks next with the slot as its abort function.

        When it goes on, `RequestSlot.result` is its answer, or the error that takes the place of it.
        """
        slot = self._slots[opaque] = RequestSlot(self._slots, opaque, deadline, trio.lowlevel.current_task(), None)
        return slot

    def add(self, opaque: int, deadline: float, done: Done) -> None:
        """Let `done` be called with the answer, or with the error that takes the place of it."""
        self._slots[opaque] = RequestSlot(self._slots, opaque, deadline, None, done)

    def forget(self, opaque: int) -> bool:
        """Let nobody wait for this answer any more; False when nobody did."""
        return self._slots.pop(opaque, None) is not None

    def answer(self, opaque: int, frame: Frame) -> bool:
        """Complete the request of an answer; False when nobody waits for it."""
        slot = self._slots.pop(opaque, None)
        if slot is None:
            return False
        if slot.task is not None:
            slot.result = frame
            trio.lowlevel.reschedule(slot.task)
        else:
            slot.complete(frame)
        return True

    def answer_send(self, opaque: int, frame: Frame, fields: SendAnswer) -> bool:
        """The same for an answer that is plain success to a send, with its fields."""
        slot = self._slots.pop(opaque, None)
        if slot is None:
            return False
        if slot.is_send and slot.task is not None:
            slot.result = fields
            trio.lowlevel.reschedule(slot.task)
        else:
            slot.complete(frame)
        return True

    def sweep(self, now: float, error: Callable[[], RocketMQError]) -> int:
        """Fail what is due, each with an error of its own; how many that were."""
        due = [slot for slot in self._slots.values() if slot.deadline <= now]
        for slot in due:
            # A function that was called for an earlier slot may have ended this one.
            if self._slots.pop(slot.opaque, None) is slot:
                slot.complete(error())
        return len(due)

    def next_deadline(self) -> float:
        """The earliest deadline of all, infinity when nothing waits."""
        return min((slot.deadline for slot in self._slots.values()), default=math.inf)

    def fail_all(self, error: Callable[[], RocketMQError]) -> None:
        """End every request with an error of its own."""
        while self._slots:
            self._slots.popitem()[1].complete(error())
