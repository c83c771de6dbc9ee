"""Rounds: how much processor time all connections of a server get together before the loop sees to all else.

A connection by itself leaves off after a slice, and that is enough while few send much. Hundreds that pipeline without
end would each take their slice in every round of the loop, and one that asks for little would wait for all of them. So
they share what a round has. When that is used up, a connection that sent little still has one request carried out in
every round, and one that sent much waits in a line for its next turn, before anything more is read from it. The time is
that of this thread. Plays the part of the fair share that a selector gives to its channels in Netty (the ratio of input
and output, and the reads of one channel at a time).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TypeVar, cast

import trio

from rocketpy.services import runs_blocking_in_place

__all__ = [
    "LITTLE",
    "ROUND_SECONDS",
    "SLICE_SECONDS",
    "WORK_SECONDS",
    "ConnectionShare",
    "RoundShare",
    "Slice",
    "Steadily",
    "clock_here",
    "in_slices",
    "thread_clock",
]

ROUND_SECONDS = 0.02
"""Processor time of a round that all connections share, with whatever else the loop does meanwhile. It is renewed by a
task, which has no fixed place in a round: what one round holds is at most twice as much."""
SLICE_SECONDS = 0.002
"""Processor time after which no other request of a connection is begun; half of it may go into decoding. It counts from
the first look at the clock, so a connection that sends one request at a time is charged nothing."""
LITTLE = 4096
"""A connection that delivered no more bytes than these has its next request carried out in this round in any case."""
WORK_SECONDS = 0.005
"""Seconds of processor time that work in slices gets in a turn of the loop."""
_RENEW_AFTER = ROUND_SECONDS / 4
_STEP_SECONDS = 0.000_01
"""What a look at the clock counts for where time is virtual."""
_UNCHECKED_SECONDS = 0.000_25
"""A thread cannot have worked for longer than the clock on the wall says: so long the system is not asked again."""

T = TypeVar("T")


class Steadily:
    """A clock that advances by the same step at each look: what a slice holds is the same in every run.

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


def thread_clock() -> Callable[[], float]:
    """A clock of the processor time of the thread that asks it, in seconds, for one thread.

    It never goes back, and is ahead by a quarter of a millisecond at most. To ask the system takes microseconds on a
    virtual machine, so it is asked after that time only; until then the thread is taken to have worked all the time.
    """
    asked, at, latest = time.perf_counter(), time.thread_time(), 0.0

    def now() -> float:
        nonlocal asked, at, latest
        wall = time.perf_counter()
        since = wall - asked
        if since > _UNCHECKED_SECONDS:
            asked, at, since = wall, time.thread_time(), 0.0
        if at + since > latest:
            latest = at + since
        return latest

    return now


def clock_here() -> Callable[[], float]:
    """The processor time of this thread in seconds, or what stands for it under a mock clock."""
    return Steadily() if runs_blocking_in_place() else thread_clock()


async def in_slices(steps: Generator[object, None, T]) -> T:
    """Do work in the running task, let other tasks run after each slice, and return the result. Always a checkpoint."""
    clock = clock_here()
    while True:
        await trio.lowlevel.checkpoint()
        # A slice also ends after twice its time on the wall clock, because its steps may wait for the disk.
        end, latest = clock() + WORK_SECONDS, trio.current_time() + 2 * WORK_SECONDS
        try:
            while clock() < end and trio.current_time() < latest:
                next(steps)
        except StopIteration as stop:
            return cast("T", stop.value)


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
        self._began = self.clock()
        self._went = 0
        self._line = trio.lowlevel.ParkingLot()
        self._late = trio.lowlevel.ParkingLot()  # those who were called up and found no time left: they come first
        self._renewal = trio.lowlevel.ParkingLot()

    def _spent(self) -> float:
        return self.clock() - self._began

    def note(self) -> None:
        """A connection has had a turn."""
        spent = self._spent()
        if spent >= _RENEW_AFTER:
            self._renewal.unpark()
            if spent >= ROUND_SECONDS:
                self.is_short = True

    async def wait(self) -> None:
        """Wait for a turn, behind those who wait already."""
        self._ask_for_another_round()
        await self._line.park()
        # One goes in every round, even when those who asked for little have used it up.
        while self._went and self._spent() >= ROUND_SECONDS:
            self._ask_for_another_round()  # who has used this one up need not have had a turn, and so not noted it
            await self._late.park()
        self._went += 1

    def _ask_for_another_round(self) -> None:
        self.is_short = True
        self._renewal.unpark()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Renew the time once in every round in which it is short or some of it was used, until cancelled."""
        while True:
            if self.is_short:
                await trio.lowlevel.checkpoint()
            else:
                await self._renewal.park()
            self.renew()

    def renew(self) -> None:
        """Begin with the time of another round, and call up some who wait.

        What their turns will cost is not known, and calling up all of them would cost too much: twice as many as found
        time in the last round are enough. Those who are late are called up alone, so that nobody overtakes them.
        """
        lot = self._late or self._line
        lot.unpark(count=2 * self._went + 1)
        self._began = self.clock()
        self._went = 0
        self.is_short = bool(self._line or self._late)


class ConnectionShare:
    """What one connection has of a round, turn by turn.

    Args:
        share: what there is for all connections.
    """

    __slots__ = ("_end", "_is_little", "_share")

    def __init__(self, share: RoundShare) -> None:
        self._share = share
        self._is_little = True
        self._end: float | None = None

    @property
    def is_short(self) -> bool:
        """Whether time is short for all connections."""
        return self._share.is_short

    @property
    def must_wait(self) -> bool:
        """Whether the next turn has to be waited for."""
        return self._share.is_short and not self._is_little

    async def wait(self) -> None:
        """Wait for the next turn."""
        await self._share.wait()

    def begin(self) -> None:
        """Begin a turn."""
        self._end = None

    def note_delivered(self, size: int) -> bool:
        """So many bytes are there in the turn that has begun; whether it should have been waited for."""
        was_little, self._is_little = self._is_little, size <= LITTLE
        return was_little and self.must_wait

    def _left(self) -> float:
        """Seconds of this turn. While time is short, a connection that need not wait has time for one request."""
        share = self._share
        now = share.clock()
        if self._end is None:
            self._end = now if self._is_little and share.is_short else now + SLICE_SECONDS
        return self._end - now

    def has_time(self) -> bool:
        """Whether there is time to start another request."""
        return self._left() > 0

    def has_time_to_decode(self) -> bool:
        """Whether there is time to decode more before the decoded requests are processed."""
        return self._left() > SLICE_SECONDS / 2

    def end(self) -> None:
        """End the turn. After one of a single small request nobody looks at the clock: a later turn sees its time."""
        if self._end is not None or not self._is_little:
            self._share.note()


class Slice:
    """The turns of a connection that shares no rounds with others, such as a client's, whose servers send few requests.

    A turn never waits for other connections, and has a time limit of its own.
    """

    __slots__ = ("_clock", "_end")

    is_short = False
    must_wait = False

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or clock_here()
        self._end: float | None = None

    async def wait(self) -> None:
        """Do nothing: there is no queue to wait in."""

    def begin(self) -> None:
        """Begin a turn."""
        self._end = None

    end = begin

    def note_delivered(self, size: int) -> bool:
        """Return False: a turn never has to wait, however many bytes have arrived."""
        return False

    def _left(self) -> float:
        now = self._clock()
        if self._end is None:
            self._end = now + SLICE_SECONDS
        return self._end - now

    def has_time(self) -> bool:
        """Whether there is time to start another request."""
        return self._left() > 0

    def has_time_to_decode(self) -> bool:
        """Whether there is time to decode more before the decoded requests are processed."""
        return self._left() > SLICE_SECONDS / 2
