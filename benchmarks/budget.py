"""The length of a measurement, and what it took: time, CPU of this process, CPU of a server."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from benchmarks.processes import cpu_seconds


@dataclass(frozen=True)
class Budget:
    """A measurement ends when its time is over or its messages are used up, whichever comes first."""

    seconds: float
    messages: int

    def share(self, number: int, of: int) -> Budget:
        """Return the part of one of several senders that count separately; the first is number 0."""
        return Budget(self.seconds, self.messages // of + (number < self.messages % of))


@dataclass
class Meter:
    """Measures the block between `start` and `stop`."""

    server_pid: int | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    server_cpu: float | None = None
    _before: tuple[float, float, float | None] = field(default=(0.0, 0.0, None), repr=False)

    def start(self) -> float:
        """Begin, and return the time."""
        self._before = time.perf_counter(), time.process_time(), cpu_seconds(self.server_pid)
        return self._before[0]

    def stop(self) -> None:
        """End."""
        began, cpu, server_cpu = self._before
        self.seconds = time.perf_counter() - began
        self.cpu = time.process_time() - cpu
        now = cpu_seconds(self.server_pid)
        self.server_cpu = None if now is None or server_cpu is None else now - server_cpu


class Tickets:
    """Hands out permission to send until the budget is used up. For one loop, or for many tasks of one thread."""

    __slots__ = ("_clock", "_left", "deadline", "given")

    def __init__(self, budget: Budget) -> None:
        self._left = budget.messages
        self._clock = time.perf_counter
        self.deadline = self._clock() + budget.seconds
        self.given = 0

    def take(self, count: int = 1) -> bool:
        """Return whether `count` more may be sent."""
        return self.take_up_to(count) == count

    def take_up_to(self, count: int) -> int:
        """Return how many of `count` may be sent; 0 when the measurement is over."""
        if self._clock() > self.deadline:
            return 0
        count = min(count, self._left)
        self._left -= count
        self.given += count
        return count
