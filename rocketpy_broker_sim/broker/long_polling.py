"""Pulls that found nothing and wait: until a message arrives that they want, or their time is up.

A held pull is run again exactly once, then with holding switched off, so it is answered once and never held twice. It
leaves by arrival, by time, by a newer pull of the same client for the same queue, or because its connection closed; it
is taken out of every index before anything is done with it. Plays the part of PullRequestHoldService and PullRequest.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.remoting.connection import Connection
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.filtering import Match

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["HeldPull", "HeldPulls"]

TICK = 0.05
"""Seconds: deadlines are rounded up to ticks, so that thousands of pulls share one alarm."""


@attrs.define(eq=False)
class HeldPull:
    """One pull that waits."""

    connection: Connection
    request: RemotingCommand
    group: str
    topic: str
    queue_id: int
    offset: int
    match: Match | None
    """Says by a tag hash whether the consumer wants a message; None wants all."""
    tick: int = 0


class HeldPulls:
    """All held pulls of a broker.

    Args:
        resume: runs a pull again, with holding switched off; called once for every pull that was held and whose
            connection is open.
        capacity: how many may wait at once.
    """

    def __init__(self, resume: Callable[[HeldPull], None], capacity: int) -> None:
        self._resume = resume
        self._capacity = capacity
        self._queues: dict[tuple[str, int], dict[tuple[Connection, str], HeldPull]] = {}
        self._ticks: dict[int, dict[HeldPull, None]] = {}
        self._alarms: list[int] = []
        self._connections: dict[Connection, dict[HeldPull, None]] = {}
        self._count = 0
        self._closed = False
        self._changed = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """How many pulls wait."""
        return self._count

    def hold(self, pull: HeldPull, seconds: float) -> bool:
        """Keep a pull for up to so many seconds. False when no more can be kept: answer it now."""
        key = (pull.connection, pull.group)
        queue = self._queues.get((pull.topic, pull.queue_id))
        older = queue.get(key) if queue else None
        if older is not None:
            self._take(older)
            self._run_again(older)
        # Answering the older one may have shown that the connection is gone.
        if self._count >= self._capacity or self._closed or not pull.connection.is_open:
            return False
        self._count += 1
        # A consumer of many queues holds a pull on each. They are bounded here, and must not keep its connection from
        # being read: heartbeats and sends come through it, too.
        pull.connection.forget_request(pull.request)
        self._queues.setdefault((pull.topic, pull.queue_id), {})[key] = pull
        self._set_alarm(pull, seconds)
        self._of_connection(pull.connection)[pull] = None
        return True

    def arrived(self, arrival: Arrival) -> None:
        """Run the pulls again that wait for one of the messages that arrived."""
        queue = self._queues.get((arrival.topic, arrival.queue_id))
        if not queue:
            return
        codes, max_offset = set(arrival.tags_codes), arrival.max_offset
        self._run_all_again([pull for pull in queue.values() if pull.offset < max_offset and _wants(pull.match, codes)])

    def release(self, group: str) -> None:
        """Run the pulls of a group again now, so that it pulls anew and says where it stands; the caller finishes."""
        held = [pull for queue in self._queues.values() for pull in queue.values()]
        self._run_all_again([pull for pull in held if pull.group == group])

    async def serve(self, finish: Callable[[], None]) -> None:
        """Run pulls again whose time is up, until cancelled.

        Args:
            finish: called after each round, to let the answers go.
        """
        while True:
            if not self._alarms:
                await self._changed.park()
                continue
            due = self._alarms[0] * TICK
            with trio.move_on_at(due):
                await self._changed.park()
            self.expire(trio.current_time())
            finish()

    def expire(self, now: float) -> None:
        """Run the pulls again whose time is up."""
        while self._alarms and self._alarms[0] * TICK <= now:
            tick = heapq.heappop(self._alarms)
            self._run_all_again(list(self._ticks.get(tick, ())))
            self._ticks.pop(tick, None)

    def close(self) -> None:
        """Run all pulls again and hold none any more: the broker stops."""
        self._closed = True
        self._run_all_again([pull for queue in self._queues.values() for pull in queue.values()])

    def _run_all_again(self, pulls: list[HeldPull]) -> None:
        # All are taken before the first is run: its answer may close a connection, which takes what that one holds.
        for pull in pulls:
            self._take(pull)
        for pull in pulls:
            self._run_again(pull)

    def _run_again(self, pull: HeldPull) -> None:
        pull.connection.recall_request(pull.request)
        self._resume(pull)

    # --- indexes ---

    def _set_alarm(self, pull: HeldPull, seconds: float) -> None:
        pull.tick = int((trio.current_time() + seconds) / TICK) + 1
        pulls = self._ticks.get(pull.tick)
        if pulls is None:
            pulls = self._ticks[pull.tick] = {}
            heapq.heappush(self._alarms, pull.tick)
            if self._alarms[0] == pull.tick:
                self._changed.unpark()
        pulls[pull] = None

    def _of_connection(self, connection: Connection) -> dict[HeldPull, None]:
        pulls = self._connections.get(connection)
        if pulls is None:
            pulls = self._connections[connection] = {}
            connection.add_close_callback(self._forget)
        return pulls

    def _take(self, pull: HeldPull) -> None:
        """Out of every index: from here on nobody else can run or answer it."""
        self._count -= 1
        place = (pull.topic, pull.queue_id)
        queue = self._queues[place]
        del queue[pull.connection, pull.group]
        if not queue:
            del self._queues[place]
        # An emptied tick stays until its time: there are few of them, and its alarm is already set.
        del self._ticks[pull.tick][pull]
        del self._connections[pull.connection][pull]

    def _forget(self, connection: Connection) -> None:
        for pull in list(self._connections.get(connection, ())):
            self._take(pull)
        self._connections.pop(connection, None)


def _wants(match: Match | None, codes: set[int]) -> bool:
    return match is None or any(map(match, codes))
