"""Slices: work that grows with a request is done a little at a time, so that no peer stops the loop for the others.

A sliced processor is a generator function. It yields often, after far less than a millisecond of work, and returns
its answer, or None as any processor that answers later. What is not done at once goes on in later turns of the
loop, a slice of processor time each, and several such works take turns. The time is that of this thread: waiting for a
processor that is busy elsewhere does not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import lru_cache, partial
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, cast

import trio

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.remoting.answers import answer_for_error
from rocketpy.remoting.rounds import WORK_SECONDS, Steadily, clock_here, in_slices
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.serving.memory import WORK, MemoryBudget, size_of

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.wire.command import RemotingCommand

__all__ = [
    "MUST_END",
    "PAUSE",
    "SLICE_SECONDS",
    "SlicedProcessor",
    "Slices",
    "Steadily",
    "Steps",
    "in_slices",
    "is_sliced",
    "kept_for",
]

log = get_logger(__name__)

Steps = Generator[Any, None, "RemotingCommand | None"]
"""Work that is done step by step. It yields nothing, `MUST_END` once, or `PAUSE`."""
SlicedProcessor = Callable[["Connection", "RemotingCommand"], Steps]
Done = Callable[["RemotingCommand | None", "Exception | None"], None]

MUST_END = True
"""Yielded by work that shall be done to its end from now on, though the connection that asked for it may close."""
PAUSE = "pause"
"""Yielded before a step that takes longer than a slice: it gets a turn for itself if anything was done before it."""
SLICE_SECONDS = WORK_SECONDS
"""Processor time that all work together gets in a turn of the loop."""
MOST_SECONDS = 2 * SLICE_SECONDS
"""Seconds after which a slice ends though it took less processor time: its steps wait for the disk."""
_RENEW_AFTER = 0.001
"""Seconds spent at once after which the allowance is renewed in the next turn."""
_GROWTH = 4
"""How many times its size a request takes while it is carried out: what was read from it, and what is made of that."""
_TOO_MUCH = "[OVERLOAD]the server keeps as much for its peers as it may (maxKeptBytes), slow down for a while"


def kept_for(request: RemotingCommand, growth: int = _GROWTH) -> int:
    """Bytes that are kept while a request is carried out: it, and what is made of it."""
    return growth * size_of(request)


def is_sliced(processor: Callable[..., object]) -> bool:
    """Whether a processor is a generator function, bound to arguments or not."""
    if isinstance(processor, partial):
        return _is_generator_function(processor.func)
    return isgeneratorfunction(processor)


@lru_cache(maxsize=256)  # each broker that starts asks of the same functions
def _is_generator_function(function: Callable[..., object]) -> bool:
    return isgeneratorfunction(function)


class _Work:
    __slots__ = ("connection", "done", "must_end", "size", "steps")

    def __init__(self, steps: Steps, connection: Connection | None, done: Done, size: int = 0) -> None:
        self.steps = steps
        self.connection = connection
        self.done = done
        self.size = size
        self.must_end = False

    @property
    def is_wanted(self) -> bool:
        return self.must_end or self.connection is None or self.connection.is_open


class Slices:
    """Does work in slices. `serve` is the task that goes on with it.

    Args:
        clock: processor time in seconds; None is that of this thread, and a steady one under a mock clock.
        memory: what the works keep counts against it; a budget of its own when None.
    """

    def __init__(self, clock: Callable[[], float] | None = None, memory: MemoryBudget | None = None) -> None:
        memory = MemoryBudget() if memory is None else memory
        memory.on_gave_way(self._drop)
        self._kept = memory.account(WORK)
        self._clock = clock
        self._works: deque[_Work] = deque()
        self._spent = 0.0
        self._lot = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """How many works are under way."""
        return len(self._works)

    def clock(self) -> float:
        """Processor time of this thread in seconds, or what stands for it under a mock clock."""
        if self._clock is None:
            self._clock = clock_here()
        return self._clock()

    # --- beginning -------------------------------------------------------------------------------------

    def begin(
        self,
        steps: Steps,
        connection: Connection | None,
        done: Done,
        *,
        size: int = 0,
    ) -> None:
        """Do as much of some work as this turn has time for, now; the rest follows.

        Args:
            steps: the work.
            connection: who wants it: when that has closed the work is dropped. None is the server itself.
            done: called once, now or later, with what the work returned or raised; with neither when it was dropped.
                It hears SYSTEM_BUSY when the work is not begun, as too much is kept already.
            size: bytes that it keeps; not looked at without a connection.
        """
        if connection is None:
            size = 0
        elif size and not self._kept.charge(connection, size):
            steps.close()
            done(None, BrokerError.for_code(ResponseCode.SYSTEM_BUSY, _TOO_MUCH))
            return
        work = _Work(steps, connection, done, size)
        left = SLICE_SECONDS - self._spent
        if left <= 0 or not self._go_on(work, left, trio.current_time() + MOST_SECONDS):
            self._works.append(work)
        if self._works or self._spent >= _RENEW_AFTER:
            self._lot.unpark()

    def spawn(self, steps: Generator[object, None, object], what: str) -> None:
        """Do work that nobody waits for, from the next turn on. What it raises is logged.

        Args:
            steps: the work; what it returns is not looked at.
            what: what it is, for the log.
        """

        def done(_: RemotingCommand | None, error: Exception | None) -> None:
            if error is not None:
                log.error("%s failed", what, exc_info=error)

        self._works.append(_Work(cast("Steps", steps), None, done))
        self._lot.unpark()

    def sliced(self, function: SlicedProcessor, *, growth: int = _GROWTH) -> Processor:
        """A processor for a RequestDispatcher that carries out a generator function in slices.

        While it is under way its connection hands over no other request, so that their order is kept.

        Args:
            function: the sliced processor.
            growth: how many times its size a request takes while it is carried out.
        """

        def process(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            at_once: list[RemotingCommand | None] = []
            is_held = False

            def done(answer: RemotingCommand | None, error: Exception | None) -> None:
                if error is not None:
                    answer = answer_for_error(request, error, connection.address)
                if not is_held:
                    at_once.append(answer)
                    return
                connection.release_requests()
                if answer is not None:
                    connection.send_answer(request, answer)

            self.begin(function(connection, request), connection, done, size=kept_for(request, growth))
            if at_once:
                return at_once[0]
            is_held = True
            connection.hold_requests()
            return None

        return process

    # --- going on --------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Go on with what is under way, a slice in each turn of the loop, until cancelled."""
        try:
            while True:
                if self._works:
                    await trio.lowlevel.checkpoint()
                else:
                    await self._lot.park()
                self.take_turn()
        finally:
            while self._works:
                work = self._works.popleft()
                self._let_go(work)
                work.steps.close()

    def take_turn(self) -> None:
        """Go on with each work in its turn, for the time of one slice in all."""
        self._spent = 0.0
        latest = trio.current_time() + MOST_SECONDS
        while self._works and self._spent < SLICE_SECONDS and trio.current_time() < latest:
            work = self._works.popleft()
            if not self._go_on(work, SLICE_SECONDS - self._spent, latest):
                self._works.append(work)
        self._spent = 0.0  # what comes in during this turn of the loop has time of its own

    def _go_on(self, work: _Work, allowance: float, latest: float) -> bool:
        """Do steps for so many seconds of processor time. Returns whether the work has ended.

        Args:
            work: the work.
            allowance: seconds.
            latest: when to leave off in any case, on the loop's clock.
        """
        clock, steps = self.clock, work.steps
        began = now = clock()
        end = began + allowance
        answer: RemotingCommand | None = None
        error: Exception | None = None
        try:
            while work.is_wanted:
                told = next(steps)
                if told is MUST_END:
                    work.must_end = True
                now = clock()
                if told is PAUSE and self._spent + now - began >= _RENEW_AFTER:
                    return False
                if now >= end or trio.current_time() >= latest:
                    return False
            steps.close()
        except StopIteration as stop:
            answer = stop.value
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the answer to this request alone
            error = exc
        finally:
            self._spent += clock() - began
        self._let_go(work)
        try:
            work.done(answer, error)
        finally:
            error = None  # it holds this frame by its traceback, and with it all that the work had in hand
        return True

    def _let_go(self, work: _Work) -> None:
        if work.size and work.connection is not None:
            self._kept.release(work.connection, work.size)

    def _drop(self, connection: Connection) -> None:
        """A connection kept too much and was closed: drop what it wanted now, and not in the next turns."""
        dropped = [work for work in self._works if work.connection is connection and not work.must_end]
        for work in dropped:
            self._works.remove(work)
            self._let_go(work)
            work.steps.close()
            work.done(None, None)
