"""What waits for answers on a data connection, and how bytes become answers. Pure.

Shared by the connections of threads and of asyncio. A slot is completed by the code that takes it out of the table, so
nothing is completed twice. Taking out is one step of a dictionary, which needs no lock in any thread. Plays the part of
ResponseFuture and of the responseTable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rocketpy.wire.codes import RESPONSE_FLAG
from rocketpy.wire.fast_answer import SendAnswer, peek, sent_answer
from rocketpy.wire.frame import Frame, FrameDecoder
from rocketpy.wire.serialize import decode_command

if TYPE_CHECKING:
    from rocketpy.errors import RocketMQError
    from rocketpy.remoting.rounds import Slice
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.limits import WireLimits

__all__ = ["Answer", "WaitingRequest", "WaitingRequests"]

_MAX_OPAQUE = 0x7FFFFFFF
_ALL = 0x7FFFFFFF
_PIECE = 32 * 1024
"""Frames that begin within this many bytes are taken without looking at the clock in between."""


Answer: TypeAlias = "Frame | SendAnswer"
"""The frame of an answer; of a send that went well, what it says."""


class WaitingRequest(Protocol):
    """One request that waits.

    Attributes:
        deadline: on the clock of the client.
    """

    deadline: float

    def complete(self, result: Answer | RocketMQError) -> None:
        """Take the answer, or the error in the place of it; must not raise, must not run users' code.

        Called once, and again with the same when an exception of a signal handler has struck in the first call.
        """


class WaitingRequests:
    """The requests that wait on one connection, by opaque.

    Args:
        limits: bounds inside a frame.
        scan: whether a plain successful answer to a send is taken apart at once; hooks want to see its frame.

    Attributes:
        slots: those that wait. Code that adds one lowers `earliest` to its deadline.
        received_bytes: from the peer, since the beginning.
        answers: that somebody waited for.
        unknown_answers: that nobody waited for any more.
        earliest: a lower bound on the deadlines.
        has_more: whether `take` has left frames for the next turn.
    """

    def __init__(self, limits: WireLimits, *, scan: bool = True) -> None:
        self.slots: dict[int, WaitingRequest] = {}
        self.received_bytes = 0
        self.answers = 0
        self.unknown_answers = 0
        self.earliest = math.inf
        self._limits = limits
        self._scan = scan
        self._decoder = FrameDecoder(limits)
        self._opaques = itertools.count()
        self.has_more = False

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self.slots)

    def next_opaque(self) -> int:
        """A number for the next request; the same one comes again after 2**31 others."""
        return next(self._opaques) & _MAX_OPAQUE

    def forget(self, opaque: int) -> bool:
        """Let nobody wait for an answer any more; False when nobody did."""
        return self.slots.pop(opaque, None) is not None

    def take(self, data: bytes, turn: Slice | None = None) -> list[RemotingCommand]:
        """Complete those whose answers came; gives the requests of the peer that came with them.

        Args:
            data: the received bytes.
            turn: limits the time, so that a peer that sends many requests does not hold up others. `has_more` tells
                whether frames are left; another call without data takes them.

        Raises:
            RemoteProtocolError: these are no valid bytes; the connection is of no more use.
        """
        self.received_bytes += len(data)
        self._decoder.receive_data(data)
        requests: list[RemotingCommand] = []
        self.has_more = False
        while frames := self._decoder.frames(within=_ALL if turn is None else _PIECE):
            self._sort(frames, requests)
            if not self._decoder.buffered:
                break
            if turn is not None and requests and not turn.has_time():
                self.has_more = True
                break
        return requests

    def _sort(self, frames: list[Frame], requests: list[RemotingCommand]) -> None:
        """Complete the requests that these frames answer, and append frames that are requests to `requests`."""
        slots = self.slots
        scan, answers = self._scan, 0
        slot: WaitingRequest | None = None
        opaque: int
        answer: Answer
        try:
            for frame in frames:
                if scan and (sent := sent_answer(frame)) is not None:
                    opaque, answer = sent
                else:
                    opaque, flag, _ = peek(frame)
                    answer = frame
                    if not flag & RESPONSE_FLAG:
                        requests.append(decode_command(frame, limits=self._limits))
                        continue
                slot = slots.get(opaque)
                if slot is None or slots.pop(opaque, None) is None:
                    self.unknown_answers += 1
                else:
                    answers += 1
                    slot.complete(answer)
                slot = None
        except BaseException:
            # Ctrl-C may strike between the two steps, and nobody else would ever complete what is out of the table.
            if slot is not None and opaque not in slots:
                slot.complete(answer)
            raise
        self.answers += answers

    def sweep(self, now: float, error: Callable[[], RocketMQError]) -> int:
        """Fail what is due, each with an error of its own; how many those were."""
        if now < self.earliest:
            return 0
        self.earliest = math.inf  # before looking: what is entered meanwhile says so by itself
        due, rest = [], math.inf
        for opaque, slot in list(self.slots.items()):
            if slot.deadline <= now:
                due.append(opaque)
            elif slot.deadline < rest:
                rest = slot.deadline
        self.earliest = min(self.earliest, rest)
        return sum(self._fail(opaque, error) for opaque in due)

    def fail_all(self, error: Callable[[], RocketMQError]) -> None:
        """End every request with an error of its own."""
        while self.slots:
            try:
                slot = self.slots.popitem()[1]
            except KeyError:
                return  # another thread took the last one
            slot.complete(error())

    def _fail(self, opaque: int, error: Callable[[], RocketMQError]) -> bool:
        slot = self.slots.pop(opaque, None)
        if slot is not None:
            slot.complete(error())
        return slot is not None
