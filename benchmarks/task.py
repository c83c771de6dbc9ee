"""What a measured shape is told, and what it answers. Travels as JSON between the run and its worker processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.budget import Budget, Meter

BODY = bytes(range(48, 112)) * 2
"""128 bytes, the body of every message that is sent."""
LARGE_BODY = BODY * 8
"""1 KiB, the body of the messages that are consumed."""
WINDOW = 64
WARM_SENDS = 512
"""A client sends so many before it is measured: routes, connections and threads are there then, and code is warm."""
WARM_WITHIN = 30.0
BATCH = 100
BATCHES_IN_FLIGHT = 4


@dataclass(frozen=True)
class Task:
    """One measurement of one shape against one pair of servers."""

    shape: str
    namesrv: str
    broker: str
    """Address of the broker."""
    topic: str
    """To send to; it has `queues` queues."""
    filled_topic: str
    """Holds `filled` messages of 1 KiB, to be consumed by new groups."""
    filled: int
    queues: int
    run: str
    """Unique; for names of groups."""
    server_pid: int | None
    budget: Budget

    @property
    def warming(self) -> Budget:
        """What is sent before anything is measured; never more than what is measured."""
        return Budget(WARM_WITHIN, min(WARM_SENDS, self.budget.messages))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Task:
        """From plain values."""
        return cls(**{**values, "budget": Budget(**values["budget"])})


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        value: In the unit of the shape.
        messages: How many went through while it was measured.
        cpu: Seconds of CPU of the client for 100,000 messages.
        server_cpu: The same of the broker.
        notes: More figures, by name.
        round: In which it was taken, from 1; 0 where nothing else was measured beside it.
        sent: How many a peer has sent in all, with those that warmed it up; 0 where it does not say.
    """

    value: float
    messages: int
    cpu: float | None = None
    server_cpu: float | None = None
    notes: dict[str, float] = field(default_factory=dict)
    round: int = 0
    sent: int = 0

    @classmethod
    def rate(cls, messages: int, meter: Meter, **notes: float) -> Outcome:
        """So many messages in the time that was measured."""
        each = 100_000 / messages if messages else 0.0
        server = None if meter.server_cpu is None else meter.server_cpu * each
        return cls(messages / meter.seconds, messages, meter.cpu * each, server, notes)


@dataclass(frozen=True)
class Shape:
    """One way of using servers that is measured.

    Attributes:
        name: For the command line.
        title: For the table.
        measure: Does it, in a worker process.
        floor: Name of the raw loop that it is compared with; None for a raw loop.
        unit: Of the value.
        alone: Whether it brings its own servers, so that it is measured once a round and not once a pair of servers.
        long: Whether it takes so long that it is measured only where it is asked for, as `producing` says.
    """

    name: str
    title: str
    measure: Callable[[Task], Outcome]
    floor: str | None = None
    unit: str = "/s"
    alone: bool = False
    long: bool = False
