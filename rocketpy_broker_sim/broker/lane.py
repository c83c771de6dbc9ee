"""A lane: the bounds of one kind of business, and the requests that wait in it, in lines of connections.

Plays the part of one executor of BrokerController, with its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from rocketpy_broker_sim.broker.ranks import Ranks

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.wire.command import RemotingCommand

__all__ = ["Job", "Lane", "LaneStatistics", "Line"]

RUNS_PER_THREAD = 64
"""Requests that one "thread" of a lane stands for in a turn: what a connection hands over at once."""


class Job(NamedTuple):
    """A request that waits for its turn."""

    processor: Processor
    """What will carry it out."""
    lane: Lane
    """Where it waits."""
    connection: Connection
    """Who asks."""
    request: RemotingCommand
    """What is asked."""
    arrived: float
    """When its frame arrived, on the clock of the loop."""
    size: int
    """What is kept of it, in bytes."""
    is_due: bool = False
    """Whether it had been parked: it is not refused any more."""


class Line:
    """What a connection has waiting in the lanes of one order. It stands as a whole in the lane of its head.

    Attributes:
        key: The connection and the order.
        is_busy: Whether a sliced processor works for it: it stands nowhere until that ends.
        since: When it began to wait again; waiting for its own sliced work is not waiting for the lane.
    """

    __slots__ = ("is_busy", "jobs", "key", "since")

    def __init__(self, key: tuple[Connection, str]) -> None:
        self.key = key
        self.jobs: deque[Job] = deque()
        self.is_busy = False
        self.since = 0.0


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
    order: str = ""
    """Lanes of one order keep the order of a connection's requests among them; its own name when none is given."""
    budget: int = 0
    used: int = 0
    queue: deque[Line] = attrs.Factory(deque)
    waiting: int = 0
    """Requests, in the queue and in lines that stand still."""
    ranks: Ranks[Line] = attrs.Factory(Ranks)
    """Lines by how many of those they have."""
    done: int = 0
    overloaded: int = 0
    timed_out: int = 0

    def __attrs_post_init__(self) -> None:
        """The threads as requests a turn."""
        self.budget = max(1, self.threads) * RUNS_PER_THREAD
        self.order = self.order or self.name

    @property
    def is_free(self) -> bool:
        """Whether a request may run now."""
        return self.used < self.budget and not self.queue

    def note_in(self, line: Line) -> None:
        """A request waits in a line."""
        self.waiting += 1
        self.ranks.add(line)

    def note_out(self, line: Line) -> None:
        """A request of a line waits no more."""
        self.waiting -= 1
        self.ranks.remove(line)

    def statistics(self) -> LaneStatistics:
        """Counters of the lane."""
        now = trio.current_time()
        return LaneStatistics(
            waiting=self.waiting,
            capacity=self.capacity,
            oldest=max((now - line.jobs[0].arrived for line in self.queue), default=0.0),
            done=self.done,
            overloaded=self.overloaded,
            timed_out=self.timed_out,
        )
