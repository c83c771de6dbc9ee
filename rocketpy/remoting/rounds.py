"""Rounds: how much processor time all connections of a server get together before the loop sees to all else.

A connection by itself leaves off after a slice, and that is enough while few send much. Hundreds that pipeline without
end would each take their slice in every round of the loop, and one that asks for little would wait for all of them. So
they share what a round has. When that is used up, a connection that sent little still has one request carried out in
every round, and one that sent much waits in a line: as many are let go in each round as it has time for, by what such
turns have cost so far. The time is that of this thread. Plays the part of the fair share that a selector gives to its
channels in Netty (the ratio of input and output, and the reads of one channel at a time).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from rocketpy.services import runs_blocking_in_place

__all__ = ["LITTLE", "ROUND_SECONDS", "SLICE_SECONDS", "RoundShare", "Steadily", "clock_here"]

ROUND_SECONDS = 0.02
"""Processor time that all connections share. It is renewed by a task, which has no fixed place in a round: what one
round holds is at most twice as much."""
SLICE_SECONDS = 0.002
"""Processor time after which one connection decodes no more before what it has is carried out, and after twice of which
no other request of it is begun."""
LITTLE = 4096
"""Bytes that a connection may have delivered for its next request to be carried out in this round in any case."""
_LEAST_TURN = 0.000_05
"""What a turn counts for at least: it bounds how many are let go at a time."""
_WEIGHT = 1 / 8
"""What the cost of the last turn counts for among those before it."""
_STEP_SECONDS = 0.000_01
"""What a look at the clock counts for where time is virtual."""


class Steadily:
    """A clock that goes on by the same at each look: what a slice holds is the same in every run.

    Args:
        step: seconds.
    """

    def __init__(self, step: float = _STEP_SECONDS) -> None:
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        self._now += self._step
        return self._now


def clock_here() -> Callable[[], float]:
    """The processor time of this thread in seconds, or what stands for it under a mock clock."""
    return Steadily() if runs_blocking_in_place() else time.thread_time


class RoundShare:
    """What the connections of one server have of a round. The server runs `run` in a task.

    Args:
        clock: processor time in seconds; that of this thread when None.

    Attributes:
        clock: The same.
        is_short: Whether the time of this round is used up, or somebody waits for that of the next.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or clock_here()
        self.is_short = False
        self._spent = 0.0
        self._usual = SLICE_SECONDS
        self._line = trio.lowlevel.ParkingLot()
        self._renewal = trio.lowlevel.ParkingLot()

    def note(self, seconds: float) -> None:
        """A connection has had so much."""
        self._spent += seconds
        if self._spent >= SLICE_SECONDS:
            self._renewal.unpark()
            if self._spent >= ROUND_SECONDS:
                self.is_short = True

    def note_let_go(self, seconds: float) -> None:
        """A connection that had waited has had so much: what it was expected to take is counted already."""
        self._usual += (max(seconds, _LEAST_TURN) - self._usual) * _WEIGHT

    async def wait(self) -> None:
        """Wait for a turn, behind those who wait already."""
        self._renewal.unpark()
        await self._line.park()

    async def run(self) -> None:
        """Renew what there is once in every round in which some was used, until cancelled."""
        while True:
            if self._line:
                await trio.lowlevel.checkpoint()
            else:
                await self._renewal.park()
            self.renew()

    def renew(self) -> None:
        """Begin with the time of another round, and let those go for whom it suffices, one at least."""
        count = min(len(self._line), max(1, int(ROUND_SECONDS / self._usual)))
        self._line.unpark(count=count)
        self._spent = count * self._usual
        self.is_short = bool(self._line) or self._spent >= ROUND_SECONDS
