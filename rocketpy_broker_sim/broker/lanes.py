"""Lanes: how much of each kind of business is done at once, how much may wait, and for how long.

RocketMQ runs requests on 1 acceptor, N selectors, M1 codec threads and M2 pools of business threads, one pool a kind.
Here one loop does it all, and a pool becomes a budget around plain functions: its threads are how many requests the
lane may run in a turn of the loop, its queue is a bounded queue, its wait limit an age counted from the arrival of the
frame. A request runs at once while its lane is idle and has budget left; else it waits for one of the next turns, which
one task works off: heartbeats first, then the lanes in rotation, so that a flood in one lane never delays another.
Plays the part of the executors of BrokerController, of RequestTask and of BrokerFastFailure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from rocketpy.errors import ConnectionLostError
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.turn import Turn

__all__ = ["Lane", "LaneStatistics", "Lanes", "Route"]

RUNS_PER_THREAD = 64
"""Requests that one "thread" of a lane stands for in a turn: what a connection hands over at once."""
RUNS_PER_TURN = 256
"""Waiting requests, of all lanes together, that are run before the loop sees to its connections again."""
SLICE = 8
"""Requests that a lane gets done before the next lane has its go."""
MOST_PENDING = 64 * 1024
"""Bytes of answers that gather before they are let go."""
_RENEW_AFTER = 32
"""Requests after which the budgets are renewed in the next turn, even when nothing waits."""


class Route(NamedTuple):
    """What a request code leads to."""

    processor: Processor
    lane: str


class _Job(NamedTuple):
    processor: Processor
    connection: Connection
    request: RemotingCommand
    arrived: float


@attrs.frozen(kw_only=True)
class LaneStatistics:
    """How full a lane is, and what it has done since the start."""

    waiting: int
    capacity: int
    """How many may wait."""
    oldest: float
    """Seconds that the first of those has waited."""
    done: int
    overloaded: int
    """Refused because the lane was full."""
    timed_out: int
    """Refused because they had waited too long."""


def _for_ever() -> float:
    return 0.0


@attrs.define(kw_only=True, eq=False)
class Lane:
    """One kind of business: its bounds and what waits in it."""

    name: str
    threads: int
    capacity: int
    max_age: Callable[[], float] = _for_ever
    """Seconds that a request may wait, asked each time because it can be changed; 0 is for ever."""
    budget: int = 0
    used: int = 0
    queue: deque[_Job] = attrs.Factory(deque)
    done: int = 0
    overloaded: int = 0
    timed_out: int = 0

    def __attrs_post_init__(self) -> None:
        """The threads as requests a turn."""
        self.budget = max(1, self.threads) * RUNS_PER_THREAD

    @property
    def is_free(self) -> bool:
        """Whether a request may run now."""
        return self.used < self.budget and not self.queue

    def statistics(self) -> LaneStatistics:
        """Counters of the lane."""
        return LaneStatistics(
            waiting=len(self.queue),
            capacity=self.capacity,
            oldest=trio.current_time() - self.queue[0].arrived if self.queue else 0.0,
            done=self.done,
            overloaded=self.overloaded,
            timed_out=self.timed_out,
        )


class Lanes:
    """The handler of every connection: sorts requests into lanes and works them off.

    Args:
        lanes: the first is worked off before all others.
        routes: request code to processor and lane.
        default: for the codes without a route.
        turn: runs processors and lets their answers go.
    """

    def __init__(self, lanes: Iterable[Lane], routes: Mapping[int, Route], default: Route, turn: Turn) -> None:
        self._lanes = {lane.name: lane for lane in lanes}
        self._first, *others = self._lanes.values()
        self._order = deque(others)
        self._routes = {code: (route.processor, self._lanes[route.lane]) for code, route in routes.items()}
        self._default = (default.processor, self._lanes[default.lane])
        self._turn = turn
        self._spent = 0
        self._waiting = 0
        self._lot = trio.lowlevel.ParkingLot()
        self._blocked: dict[Connection, list[tuple[Lane, _Job]]] = {}

    def statistics(self) -> dict[str, LaneStatistics]:
        """Counters by lane."""
        return {name: lane.statistics() for name, lane in self._lanes.items()}

    def replace(self, code: int, around: Callable[[Processor], Processor]) -> None:
        """Put another processor in the place of that of a code, in the same lane.

        Args:
            code: the request code; it has a route.
            around: makes the new processor of the present one.
        """
        processor, lane = self._routes[code]
        self._routes[code] = (around(processor), lane)

    # --- requests that come in -------------------------------------------------------------------------

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        """Take the requests of a received chunk, as long as the peer reads the answers."""
        routes, default, turn = self._routes, self._default, self._turn
        age = trio.current_time() - arrived
        taken = 0
        for request in requests:
            if turn.pending_bytes > MOST_PENDING:
                turn.finish()
            # Most answers are small and none has left yet: a look at the output is due only when some have.
            if taken and taken % SLICE == 0 and not connection.has_room():
                break
            taken += 1
            processor, lane = routes.get(request.code, default)
            if not lane.is_free:
                self._enqueue(lane, _Job(processor, connection, request, arrived))
            elif 0 < lane.max_age() <= age:
                self._refuse_old(lane, connection, request, age)
            else:
                lane.used += 1
                lane.done += 1
                turn.run(processor, connection, request)
        turn.finish()
        self._spent += taken
        if self._waiting or self._spent >= _RENEW_AFTER:
            self._lot.unpark()
        return taken

    def submit(self, lane_name: str, processor: Processor, connection: Connection, request: RemotingCommand) -> None:
        """Run a request that had been parked and is due now, within its lane's budget.

        It is never refused for a full lane: it was taken on long ago, and what may be parked is bounded. The caller
        finishes the turn.
        """
        lane = self._lanes[lane_name]
        if lane.is_free:
            lane.used += 1
            lane.done += 1
            self._turn.run(processor, connection, request)
            self._spent += 1
        else:
            lane.queue.append(_Job(processor, connection, request, trio.current_time()))
            self._waiting += 1
        if self._waiting or self._spent >= _RENEW_AFTER:
            self._lot.unpark()

    def _enqueue(self, lane: Lane, job: _Job) -> None:
        if len(lane.queue) < lane.capacity:
            lane.queue.append(job)
            self._waiting += 1
            return
        lane.overloaded += 1
        remark = f"[OVERLOAD]{len(lane.queue)} requests wait in the {lane.name} lane, slow down for a while"
        self._turn.answer(job.connection, job.request, job.request.answer(ResponseCode.SYSTEM_BUSY, remark))

    def _refuse_old(self, lane: Lane, connection: Connection, request: RemotingCommand, age: float) -> None:
        lane.timed_out += 1
        remark = (
            f"[TIMEOUT_CLEAN_QUEUE]broker busy, slow down for a while: the request waited {int(age * 1000)} ms "
            f"in the {lane.name} lane, {len(lane.queue)} wait behind it"
        )
        self._turn.answer(connection, request, request.answer(ResponseCode.SYSTEM_BUSY, remark))

    # --- requests that wait ----------------------------------------------------------------------------

    async def serve(self) -> None:
        """Work off what waits, a turn at a time, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                if self._waiting:
                    await trio.lowlevel.checkpoint()
                else:
                    await self._lot.park()
                self.take_turn()
                for connection in list(self._blocked):
                    nursery.start_soon(self._unblock, connection, self._blocked.pop(connection))

    def take_turn(self) -> None:
        """Renew the budgets and run what waits, within them."""
        self._spent = 0
        for lane in self._lanes.values():
            lane.used = 0
        if not self._waiting:
            return
        left = RUNS_PER_TURN
        while left > 0 and self._first.queue and self._first.used < self._first.budget:
            left -= self._run_slice(self._first, left)
        self._order.rotate(-1)
        worked = True
        while left > 0 and worked:
            worked = False
            for lane in self._order:
                if lane.queue and lane.used < lane.budget and left > 0:
                    left -= self._run_slice(lane, left)
                    worked = True
        self._turn.finish()

    def _run_slice(self, lane: Lane, left: int) -> int:
        """Run or refuse a few waiting requests of a lane. Returns how many."""
        now = trio.current_time()
        max_age = lane.max_age()
        count = min(SLICE, left, len(lane.queue), lane.budget - lane.used)
        for _ in range(count):
            job = lane.queue.popleft()
            self._waiting -= 1
            lane.used += 1
            if 0 < max_age <= now - job.arrived:
                self._refuse_old(lane, job.connection, job.request, now - job.arrived)
            elif job.connection.is_open and (job.connection in self._blocked or not job.connection.has_room()):
                self._blocked.setdefault(job.connection, []).append((lane, job))
            else:
                lane.done += 1
                self._turn.run(job.processor, job.connection, job.request)
        if self._turn.pending_bytes > MOST_PENDING:
            self._turn.finish()
        return count

    async def _unblock(self, connection: Connection, jobs: list[tuple[Lane, _Job]]) -> None:
        """Put requests back at the head of their lanes once their peer has read what it was sent."""
        try:
            await connection.wait_writable()
        except ConnectionLostError:
            # There is nobody left to answer, but a message may be among them that was sent without waiting.
            await trio.lowlevel.checkpoint()
        for lane, job in reversed(jobs):
            lane.queue.appendleft(job)
        self._waiting += len(jobs)
        self._lot.unpark()
