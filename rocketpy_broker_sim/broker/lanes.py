"""Lanes: how much of each kind of business is done at once, how much may wait, and for how long.

RocketMQ runs requests on 1 acceptor, N selectors, M1 codec threads and M2 pools of business threads, one pool a kind.
Here one loop does it all, and a pool becomes a budget around plain functions: its threads are how many requests the
lane may run in a turn of the loop, its queue is a bounded queue, its wait limit an age counted from the arrival of the
frame. A request runs at once while its lane is idle and has budget left; else it waits for one of the next turns, which
one task works off: heartbeats first, then the lanes in rotation, so that a flood in one lane never delays another.

What waits stands in lines, one for each connection and lane: connections take turns, and what one of them asked for
later comes later. A line stands still while a sliced processor works for it. Lanes of one order share their lines: a
client that leaves is not brought back by a heartbeat from before.

A turn ends here: what can be read after it is handed to its readers, and the held requests among them are run again.
Plays the part of the executors of BrokerController, of RequestTask and of BrokerFastFailure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import trio

from rocketpy.errors import ConnectionLostError
from rocketpy.remoting.answers import answer_for_error
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.lane import RUNS_PER_THREAD, Job, Lane, LaneStatistics, Line
from rocketpy_broker_sim.broker.readers import Readers
from rocketpy_broker_sim.serving.memory import WAITING_REQUESTS, MemoryBudget, size_of
from rocketpy_broker_sim.serving.slices import SLICE_SECONDS, Slices, is_sliced, kept_for

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.held_requests.waiter_index import Waiter
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.serving.slices import SlicedProcessor, Steps
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Lanes", "Route"]

RUNS_PER_TURN = 256
"""Waiting requests, of all lanes together, that are run before the loop sees to its connections again."""
SLICE = 8
"""Requests that a lane gets done before the next lane has its go."""
LARGE = 16 * 1024
"""Bytes of a body after which the processor time is looked at before the next request."""
MOST_PENDING = 64 * 1024
"""Bytes of answers that gather before they are let go."""
_RENEW_AFTER = 32
"""Requests after which the budgets are renewed in the next turn, even when nothing waits."""


class Route(NamedTuple):
    """What a request code leads to."""

    processor: Callable[[Connection, RemotingCommand], RemotingCommand | Steps | None]
    """Answers the request: at once, in steps, or with None if the answer comes later or never."""
    lane: str
    """Name of the lane that its requests wait in."""


class Lanes:
    """The handler of every connection: sorts requests into lanes and works them off.

    Args:
        lanes: the first is worked off before all others.
        routes: request code to processor and lane.
        default: for the codes without a route.
        turn: runs processors and lets their answers go.
        slices: goes on with the work of sliced processors, which put no messages; one of its own when None.
        memory: what waits counts against it; a budget of its own when None.
        readers: who wait for what a turn makes readable.
        again: what a held request leads to when it is run again; the default when None.

    Attributes:
        slices: The same. `serve` serves it too.
    """

    def __init__(
        self,
        lanes: Iterable[Lane],
        routes: Mapping[int, Route],
        default: Route,
        turn: Turn,
        slices: Slices | None = None,
        memory: MemoryBudget | None = None,
        readers: Readers | None = None,
        again: Route | None = None,
    ) -> None:
        memory = MemoryBudget() if memory is None else memory
        memory.on_gave_way(self._drop)
        self._kept = memory.account(WAITING_REQUESTS)
        self.slices = Slices() if slices is None else slices
        self._lanes = {lane.name: lane for lane in lanes}
        self._first, *others = self._lanes.values()
        self._orders = {lane.order for lane in self._lanes.values()}
        self._order = deque(others)
        self._unbound = routes
        self._routes: dict[int, tuple[Processor, Lane]] = {}  # of the codes that have come
        self._default = self._bind(default)
        self._turn = turn
        self._readers = Readers() if readers is None else readers
        self._again = again or default
        self._spent = 0
        self._lines: dict[tuple[Connection, str], Line] = {}
        self._standing = 0  # lines in the queues of lanes
        self._lot = trio.lowlevel.ParkingLot()
        self._blocked: dict[Connection, list[Line]] = {}

    def _bind(self, route: Route) -> tuple[Processor, Lane]:
        lane = self._lanes[route.lane]
        if is_sliced(route.processor):
            return partial(self._begin, cast("SlicedProcessor", route.processor), lane), lane
        return cast("Processor", route.processor), lane

    def _route(self, code: int) -> tuple[Processor, Lane]:
        """Bind a route when its first request comes: most codes never come, and brokers start often in tests."""
        route = self._unbound.get(code)
        if route is None:
            return self._default
        bound = self._routes[code] = self._bind(route)
        return bound

    def statistics(self) -> dict[str, LaneStatistics]:
        """Counters by lane."""
        return {name: lane.statistics() for name, lane in self._lanes.items()}

    def replace(self, code: int, around: Callable[[Processor], Processor]) -> None:
        """Put another processor in the place of that of a code, in the same lane.

        Args:
            code: the request code; it has a route.
            around: makes the new processor of the present one.
        """
        processor, lane = self._routes.get(code) or self._bind(self._unbound[code])
        self._routes[code] = (around(processor), lane)

    # --- requests that come in -------------------------------------------------------------------------

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        """Take the requests of a received chunk, as long as the peer reads the answers and the turn has time."""
        routes, turn, lines = self._routes, self._turn, self._lines
        age = trio.current_time() - arrived
        look_after = SLICE if len(requests) > 1 and connection.has_time() else 1
        taken = 0
        is_large = False
        for request in requests:
            if turn.pending_bytes > MOST_PENDING:
                self.finish()
            # Most answers are small and none has left yet: a look at the output is due only when some have.
            if (
                taken
                and (is_large or taken % look_after == 0)
                and not (connection.has_time() and connection.has_room())
            ):
                break
            taken += 1
            is_large = len(request.body) > LARGE
            processor, lane = routes.get(request.code) or self._route(request.code)
            if not lane.is_free or (lines and (connection, lane.order) in lines):
                self._enqueue(Job(processor, lane, connection, request, arrived, size_of(request)))
            elif 0 < lane.max_age() <= age:
                self._refuse_old(lane, connection, request, age)
            else:
                lane.used += 1
                lane.done += 1
                turn.run(processor, connection, request)
        arrivals = turn.end()
        if arrivals:
            self._hand_out(arrivals)
        self._spent += taken
        self._wake()
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
            job = Job(processor, lane, connection, request, trio.current_time(), size_of(request), is_due=True)
            self._line_up(job)
            self._kept.note(connection, job.size)
        self._wake()

    def run_again(self, waiter: Waiter) -> None:
        """Run a held request again that is due, unless its connection has closed. The caller finishes the turn."""
        connection = waiter.connection
        if not connection.is_open:
            return
        connection.recall_request(waiter.request)
        self.submit(self._again.lane, cast("Processor", self._again.processor), connection, waiter.request)
        if self._turn.pending_bytes > MOST_PENDING:
            # A thousand groups may wait for the same messages: their answers must not gather.
            self.finish()

    def finish(self) -> None:
        """End the turn: write what was put, let the answers go, and hand out what can be read now."""
        arrivals = self._turn.end()
        if arrivals:
            self._hand_out(arrivals)

    def _hand_out(self, arrivals: Sequence[Arrival]) -> None:
        while arrivals:
            due = self._readers.arrived(arrivals)
            if not due:
                return
            for waiter in due:
                self.run_again(waiter)
            arrivals = self._turn.end()

    @trio.lowlevel.enable_ki_protection
    async def _serve_arrivals(self) -> None:
        """Hand out what services have put, or made readable, until cancelled."""
        while True:
            await self._turn.wait_arrivals()
            self.finish()

    def _wake(self) -> None:
        if self._standing or self._spent >= _RENEW_AFTER:
            self._lot.unpark()

    def _enqueue(self, job: Job) -> None:
        lane = job.lane
        if lane.waiting >= lane.capacity and not self._make_place(lane, job.connection):
            self._refuse_full(job)
            return
        if not self._kept.charge(job.connection, job.size):
            self._overloaded(job, "the broker keeps as much for its peers as it may (maxKeptBytes)")
        else:
            self._line_up(job)

    def _make_place(self, lane: Lane, connection: Connection) -> bool:
        """Whether there is a place in a full lane: the connection that has most gives one up, if it has more by two."""
        line = self._lines.get((connection, lane.order))
        if lane.ranks.most <= (0 if line is None else lane.ranks.of(line)) + 1:
            return False
        greediest = lane.ranks.greediest()
        jobs = greediest.jobs
        # One of the newest; never the first of all, which may be under way.
        newest = range(len(jobs) - 1, max(0, len(jobs) - 1 - RUNS_PER_THREAD), -1)
        number = next((n for n in newest if jobs[n].lane is lane and not jobs[n].is_due), None)
        if number is None:
            return False
        job = jobs[number]
        del jobs[number]
        self._refuse_full(job)
        lane.note_out(greediest)
        self._kept.release(job.connection, job.size)
        return True

    def _refuse_full(self, job: Job) -> None:
        self._overloaded(job, f"{job.lane.waiting} requests wait in the {job.lane.name} lane")

    def _overloaded(self, job: Job, why: str) -> None:
        job.lane.overloaded += 1
        answer = job.request.answer(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD]{why}, slow down for a while")
        self._turn.answer(job.connection, job.request, answer)

    def _refuse_old(self, lane: Lane, connection: Connection, request: RemotingCommand, age: float) -> None:
        lane.timed_out += 1
        remark = (
            f"[TIMEOUT_CLEAN_QUEUE]broker busy, slow down for a while: the request waited {int(age * 1000)} ms "
            f"in the {lane.name} lane, {lane.waiting} wait behind it"
        )
        self._turn.answer(connection, request, request.answer(ResponseCode.SYSTEM_BUSY, remark))

    # --- sliced work -----------------------------------------------------------------------------------

    def _begin(
        self, function: SlicedProcessor, lane: Lane, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Begin a sliced processor. Its answer when that ends at once; else its line stands still until it does."""
        answers: list[RemotingCommand | None] = []
        line: Line | None = None

        def done(answer: RemotingCommand | None, error: Exception | None) -> None:
            if error is not None:
                answer = answer_for_error(request, error, connection.address)
            if line is None:
                answers.append(answer)
                return
            if answer is not None:
                connection.send_answer(request, answer)
            line.is_busy = False
            line.since = trio.current_time()
            self._move_on(line)
            self._wake()

        self.slices.begin(function(connection, request), connection, done, size=kept_for(request))
        if answers:
            return answers[0]
        line = self._line(connection, lane)
        line.is_busy = True
        return None

    # --- requests that wait ----------------------------------------------------------------------------

    def _line(self, connection: Connection, lane: Lane) -> Line:
        key = connection, lane.order
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key)
        return line

    def _line_up(self, job: Job) -> None:
        line = self._line(job.connection, job.lane)
        job.lane.note_in(line)
        line.jobs.append(job)
        if len(line.jobs) == 1 and not line.is_busy:
            self._move_on(line)

    def _move_on(self, line: Line) -> None:
        """Let a line stand where its head belongs; one in which nothing waits is gone."""
        if line.is_busy:
            return
        if line.jobs:
            line.jobs[0].lane.queue.append(line)
            self._standing += 1
        else:
            del self._lines[line.key]

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Work off what waits, a turn at a time, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.slices.serve)
            nursery.start_soon(self._serve_arrivals)
            while True:
                if self._standing:
                    await trio.lowlevel.checkpoint()
                else:
                    await self._lot.park()
                self.take_turn()
                for connection in list(self._blocked):
                    nursery.start_soon(self._unblock, connection, self._blocked.pop(connection))

    def take_turn(self) -> None:
        """Renew the budgets and run what waits, within them and within the time of one slice."""
        self._spent = 0
        for lane in self._lanes.values():
            lane.used = 0
        if not self._standing:
            return
        left = RUNS_PER_TURN
        end = self.slices.clock() + SLICE_SECONDS
        while left > 0 and self._first.queue and self._first.used < self._first.budget:
            left = self._run_slice(self._first, left, end)
        self._order.rotate(-1)
        worked = True
        while left > 0 and worked:
            worked = False
            for lane in self._order:
                if lane.queue and lane.used < lane.budget and left > 0:
                    left = self._run_slice(lane, left, end)
                    worked = True
        self.finish()

    def _run_slice(self, lane: Lane, left: int, end: float) -> int:
        """Run or refuse a few waiting requests of a lane.

        Args:
            lane: has some waiting.
            left: how many may be run in this turn.
            end: until when, in processor time.

        Returns:
            How many may still be run.
        """
        now, max_age, clock = trio.current_time(), lane.max_age(), self.slices.clock
        for _ in range(min(SLICE, left, lane.budget - lane.used)):
            if not lane.queue:
                break
            line = lane.queue.popleft()
            self._standing -= 1
            lane.used += 1
            left -= 1
            self._run_head(line, now, max_age)
            if clock() >= end:
                left = 0
                break
        if self._turn.pending_bytes > MOST_PENDING:
            self.finish()
        return left

    def _run_head(self, line: Line, now: float, max_age: float) -> None:
        """Run or refuse the first request of a line that has just been taken out of its lane."""
        _, lane, connection, request, arrived, size, _ = job = line.jobs[0]
        age = now - max(arrived, line.since)
        if 0 < max_age <= age:
            self._refuse_old(lane, connection, request, age)
        elif connection.is_open and (connection in self._blocked or not connection.has_room()):
            self._blocked.setdefault(connection, []).append(line)
            return
        else:
            lane.done += 1
            self._turn.run(job.processor, connection, request)
        if line.jobs and line.jobs[0] is job:  # else its connection had to give way meanwhile
            line.jobs.popleft()
            lane.note_out(line)
            self._kept.release(connection, size)
        self._move_on(line)

    @trio.lowlevel.enable_ki_protection
    async def _unblock(self, connection: Connection, lines: list[Line]) -> None:
        """Put lines back at the front of their lanes once their peer has read what it was sent."""
        try:
            await connection.wait_writable()
        except ConnectionLostError:
            # There is nobody left to answer, but a message may be among them that was sent without waiting.
            await trio.lowlevel.checkpoint()
        for line in reversed(lines):
            if line.jobs:
                line.jobs[0].lane.queue.appendleft(line)
                self._standing += 1
            else:
                self._move_on(line)
        self._lot.unpark()

    def _drop(self, connection: Connection) -> None:
        """A connection kept too much and was closed: forget what waits for it, one-way requests too."""
        for order in self._orders:
            line = self._lines.get((connection, order))
            if line is None or not line.jobs:
                continue
            queue = line.jobs[0].lane.queue
            for job in line.jobs:
                job.lane.note_out(line)
                self._kept.release(connection, job.size)
            line.jobs.clear()
            if line in queue:
                queue.remove(line)
                self._standing -= 1
                self._move_on(line)
            # Else it is at work, being run, or waits for its peer to read: who has it sees to it that it ends.
