"""The table of held requests, called waiters: pulls today, other kinds later.

A waiter is run again exactly once, for one reason, which is counted: a message that it wants has arrived, its time is
up, or waiting cannot help any more. It is removed from every index before anything else is done with it. The table runs
nothing itself: it returns the waiters that are due, and the caller runs them again. The number and the bytes of waiters
are bounded, in all and for each connection. If the table is full, the newest waiter of the connection that has the most
is answered to make room, so that one connection never displaces the others.

A few waiters are run again at once and the others in slices, between which the loop visits its connections, so that a
message for which ten thousand wait delays nothing else. Plays the part of PullRequestHoldService, ManyPullRequest and
PopLongPollingService.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy_broker_sim.broker.held_requests.waiter_index import Reason, Waiter, WaiterIndex
from rocketpy_broker_sim.serving.memory import Uncounted
from rocketpy_broker_sim.store.filtering import distinct, joined

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.serving.memory import Account
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Bounds", "Reason", "Waiter", "Waiters"]

TICK = 0.05
"""Seconds. Deadlines are rounded up to ticks, so that thousands of waiters share one alarm."""
SLICE = 32
"""How many waiters are judged or run again before the loop visits its connections."""
_MIB = 1 << 20


class Bounds(NamedTuple):
    """The bounds on waiters."""

    number: int
    """Waiters in all."""
    number_of_connection: int
    """Waiters of one connection."""
    size_of_connection: int = 32 * _MIB
    """Bytes kept for a connection's waiters. Those of all waiters count towards the memory budget of the broker."""


class _Walk:
    """The waiters that are still to be judged for one event.

    Attributes:
        place: The topic and queue id, if the event is an arrival.
        later: What arrived there meanwhile, for which another walk follows.
    """

    __slots__ = ("judge", "later", "place", "waiters")

    def __init__(
        self, waiters: deque[Waiter], judge: Callable[[Waiter], Reason | None], place: tuple[str, int] | None = None
    ) -> None:
        self.waiters = waiters
        self.judge = judge
        self.place = place
        self.later: list[Arrival] = []


class Waiters:
    """All waiters of a broker.

    Args:
        bounds: the bounds on waiters.
        account: the memory that waiters keep is counted there.

    Attributes:
        counts: How many waiters were run again or refused, by reason.
        size: Bytes kept for waiters.
    """

    def __init__(self, bounds: Bounds, account: Account | None = None) -> None:
        self._kept = Uncounted() if account is None else account
        self.counts: Counter[Reason] = Counter()
        self.size = 0
        self._bounds = bounds
        self._index = WaiterIndex()
        self._ticks: dict[int, dict[Waiter, None]] = {}
        self._alarms: list[int] = []
        self._closed = False
        self._due: deque[Waiter] = deque()
        """Waiters removed but not run again yet, because their wait ended while a request was being carried out."""
        self._walks: deque[_Walk] = deque()
        self._walked: dict[tuple[str, int], _Walk] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self._emptied = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """The number of waiters."""
        return self._index.count

    # --- in --------------------------------------------------------------------------------------------

    def hold(self, waiter: Waiter, seconds: float) -> bool:
        """Hold a request for up to `seconds`. False if it cannot be held, so that it must be answered now."""
        if not waiter.connection.is_open:
            return False
        older = self._index.queue(waiter.topic, waiter.queue_id).get(waiter.key)
        if older is not None:
            self._end_soon(older, Reason.REPLACED)
        if self._closed or not self._make_room(waiter):
            self.counts[Reason.SHUT_DOWN if self._closed else Reason.OVER_BOUND] += 1
            return False
        # A consumer of many queues has a held pull for each. They are bounded here, and must not stop its connection
        # from being read, which carries heartbeats and sends too.
        waiter.connection.forget_request(waiter.request)
        self.size += waiter.size
        waiter.is_counted = True
        if self._index.add(waiter):
            waiter.connection.add_close_callback(self._forget)
        self._set_alarm(waiter, seconds)
        return True

    def _make_room(self, waiter: Waiter) -> bool:
        """Whether there is room, perhaps after a waiter of a connection that has more was answered."""
        bounds, held = self._bounds, self._index.held_of(waiter.connection)
        number, size = (len(held.waiters), held.size) if held is not None else (0, 0)
        if number >= bounds.number_of_connection or size + waiter.size > bounds.size_of_connection:
            return False
        is_full = self._index.count >= bounds.number
        if is_full and self._index.most <= number + 1:
            return False
        if not self._kept.charge(waiter.connection, waiter.size):
            return False
        if self._index.count >= bounds.number:  # still full: `charge` has closed no connection
            self._end_soon(self._index.newest_of_greediest(), Reason.OVER_BOUND)
        return True

    def _set_alarm(self, waiter: Waiter, seconds: float) -> None:
        waiter.tick = int((trio.current_time() + seconds) / TICK) + 1
        waiters = self._ticks.get(waiter.tick)
        if waiters is None:
            waiters = self._ticks[waiter.tick] = {}
            heapq.heappush(self._alarms, waiter.tick)
            if self._alarms[0] == waiter.tick:
                self._changed.unpark()
        waiters[waiter] = None

    # --- what ends the waiting -------------------------------------------------------------------------

    def arrived(self, arrival: Arrival) -> Sequence[Waiter]:
        """Messages have become readable. Returns the first few waiters that want them, for the caller to run again."""
        queue = self._index.queue(arrival.topic, arrival.queue_id)
        if not queue:
            return ()
        place = (arrival.topic, arrival.queue_id)
        walk = self._walked.get(place)
        if walk is not None:
            walk.later.append(arrival)
            return ()
        return self._start(_Walk(deque(queue.values()), _judge_of(arrival), place))

    def recall(self, group: str, topic: str | None = None, queue_ids: Collection[int] = ()) -> None:
        """Run the waiters of a group again soon: in these queues of a topic, or all of them if there is no topic."""
        held = self._index.of_group(group)
        if topic is not None:
            held = [waiter for waiter in held if waiter.topic == topic and waiter.queue_id in queue_ids]
        self._start_soon(held, lambda _: Reason.RECALLED)

    def waited_for(self, topics: Iterable[str]) -> list[str]:
        """The topics among these that have waiters, sorted."""
        return sorted(self._index.waited_for(topics))

    def queues_gone(self, queues: Mapping[str, int]) -> None:
        """Topics have fewer queues: run the waiters of the removed queues again soon.

        Args:
            queues: by topic, how many queues it has from now on.
        """
        places = [place for topic in queues for place in self._index.of_topic(topic).values()]
        self._start_soon(
            (waiter for place in places for waiter in place.values()),
            lambda waiter: Reason.QUEUE_GONE if waiter.queue_id >= queues[waiter.topic] else None,
        )

    def expire(self, now: float) -> list[Waiter]:
        """The waiters whose time is up, the first few of each tick, for the caller to run again."""
        due: list[Waiter] = []
        while self._alarms and self._alarms[0] * TICK <= now:
            waiters = self._ticks.pop(heapq.heappop(self._alarms), {})
            if waiters:
                due += self._start(_Walk(deque(waiters), lambda _: Reason.TIMED_OUT))
        return due

    def close(self) -> None:
        """Hold no more requests, as the broker stops, and run all waiters again soon."""
        self._closed = True
        self._start_soon(self._index.all(), lambda _: Reason.SHUT_DOWN)

    async def wait_none(self) -> None:
        """Wait until all waiters have been run again."""
        while self._index.count or self._due:
            await self._emptied.park()

    # --- in slices -------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def serve(self, run: Callable[[Waiter], object], finish: Callable[[], object]) -> None:
        """Run waiters again when their time is up, and those left over from earlier events, until cancelled.

        Args:
            run: runs a waiter again, if its connection is still open.
            finish: called after each slice, to send the answers.
        """
        while True:
            if self._due or self._walks:
                for waiter in (*self._take_slice(), *self.expire(trio.current_time())):
                    run(waiter)
                finish()
                await trio.lowlevel.checkpoint()
            elif self._alarms:
                with trio.move_on_at(self._alarms[0] * TICK):
                    await self._changed.park()
                for waiter in self.expire(trio.current_time()):
                    run(waiter)
                finish()
            else:
                await self._changed.park()

    def _take_slice(self) -> list[Waiter]:
        """The waiters to run again in about a millisecond; the walks take turns."""
        due = [self._due.popleft() for _ in range(min(SLICE, len(self._due)))]
        self._note_empty()
        if self._walks:
            due += self._go_on(self._walks.popleft())
        return due

    def _start(self, walk: _Walk) -> list[Waiter]:
        if walk.place is not None:
            self._walked[walk.place] = walk
        due = self._go_on(walk)
        if self._walks:
            self._changed.unpark()
        return due

    def _start_soon(self, waiters: Iterable[Waiter], judge: Callable[[Waiter], Reason | None]) -> None:
        """As `_start`, but not within this call, because a request is being carried out."""
        some = deque(waiters)
        if some:
            self._walks.append(_Walk(some, judge))
            self._changed.unpark()

    def _go_on(self, walk: _Walk) -> list[Waiter]:
        """Judge the next few waiters of a walk, and put the walk at the end if some are left. Those to run again."""
        due: list[Waiter] = []
        waiters, judge = walk.waiters, walk.judge
        for _ in range(min(SLICE, len(waiters))):
            waiter = waiters.popleft()
            # It may have left since it was listed.
            reason = judge(waiter) if waiter.is_waiting else None
            if reason is not None:
                self._take(waiter, reason)
                due.append(waiter)
        self._note_empty()
        if waiters or self._begin_again(walk):
            self._walks.append(walk)
        return due

    def _begin_again(self, walk: _Walk) -> bool:
        """Restart a finished walk for messages that arrived meanwhile. Returns whether there were any."""
        if walk.place is None:
            return False
        if not walk.later:
            del self._walked[walk.place]
            return False
        walk.waiters.extend(self._index.queue(*walk.place).values())
        walk.judge = _judge_of(joined(walk.later))
        walk.later = []
        return True

    # --- one waiter ------------------------------------------------------------------------------------

    def _end_soon(self, waiter: Waiter, reason: Reason) -> None:
        self._take(waiter, reason)
        self._due.append(waiter)
        self._changed.unpark()

    def _note_empty(self) -> None:
        """Wake those who wait for this; they go on when the last ones have been run again."""
        if not self._index.count and not self._due:
            self._emptied.unpark_all()

    def _take(self, waiter: Waiter, reason: Reason) -> None:
        """Remove a waiter from every index, so that it cannot be run or answered a second time."""
        self._index.remove(waiter)
        self.counts[reason] += 1
        self._let_go(waiter)
        # An emptied tick stays until its time: there are few of them, and its alarm is already set.
        waiters = self._ticks.get(waiter.tick)
        if waiters is not None:
            waiters.pop(waiter, None)

    def _let_go(self, waiter: Waiter) -> None:
        if waiter.is_counted:
            waiter.is_counted = False
            self.size -= waiter.size
            self._kept.release(waiter.connection, waiter.size)

    def _forget(self, connection: Connection) -> None:
        held = self._index.held_of(connection)
        if held is not None:
            for waiter in held.waiters:  # all at once: the connection may have been closed to make room
                self._let_go(waiter)
            self._start(_Walk(deque(held.waiters), lambda _: Reason.CONNECTION_CLOSED))
            self._index.forget(connection)


def _judge_of(arrival: Arrival) -> Callable[[Waiter], Reason | None]:
    codes = distinct(arrival.tags_codes)
    return lambda waiter: waiter.judge(arrival, codes)
