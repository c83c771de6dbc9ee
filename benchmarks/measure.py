"""What one measure is: its rows, how it takes their figures, and the ground that it stands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.task import Outcome, Task

if TYPE_CHECKING:
    from benchmarks.budget import Budget
    from benchmarks.peers.peer import Peer
    from benchmarks.servers import Servers, Site

QUEUES = 4
SEND_TOPIC = "BenchSend"
FILLED_TOPIC = "BenchFilled"


@dataclass(frozen=True)
class Size:
    """How much is done for one figure.

    Attributes:
        budget: Of every worker.
        filled: Messages of 1 KiB that wait to be consumed.
        idle_seconds: How long idle servers are watched.
        warm_seconds: How long servers are driven before anything is measured; a JVM needs it.
        isolated: Whether workers are processes of their own; within this one they are faster to start.
    """

    budget: Budget
    filled: int = 40_000
    idle_seconds: float = 3.0
    warm_seconds: float = 2.0
    isolated: bool = True


@dataclass(frozen=True)
class Row:
    """One figure of the table: `floor` names the one it is divided by."""

    name: str
    title: str
    unit: str
    floor: str | None = None
    kind: str = "client"
    """Which table it stands in: "client" (and raw loops), "server", "start", "store" or "spark"."""
    goal: float | None = None
    """What is wished for on any machine: shown beside the figure, while the bar is a ratio."""


@dataclass(frozen=True)
class Ground:
    """What a measure stands on.

    Attributes:
        make: Of the servers.
        site: The pair that is up.
        size: How much is done.
        run: A name that is used once.
        peer: The client of another make, for a measure that wants it.
        tree: Whose packages are measured; None for this one, as it is installed.
    """

    make: Servers
    site: Site
    size: Size
    run: str
    peer: Peer | None = None
    tree: Path | None = None


@dataclass(frozen=True)
class Measure:
    """Takes the figures of some rows together.

    Attributes:
        alone: Whether no servers of another make could give another figure.
        once: Whether it is taken in the first round only, because it takes long and varies little.
        brings: The servers that it starts for itself, under whose name its figures are kept.
        peer: Name of the client of another make that it wants; measured on Apache's servers only.
        of_tree: Whether another tree than this one can be measured the same way.
        turns: How often it is taken for one sample where trees are compared: what is short varies much.
    """

    rows: tuple[Row, ...]
    take: Callable[[Ground], Mapping[str, Outcome]]
    alone: bool = False
    peer: str = ""
    of_tree: bool = False
    turns: int = 1
    brings: Servers | None = None
    once: bool = False


def task_of(shape: str, ground: Ground) -> Task:
    """What a worker is told."""
    site, size = ground.site, ground.size
    return Task(
        shape,
        site.namesrv,
        site.broker,
        SEND_TOPIC,
        FILLED_TOPIC,
        size.filled,
        QUEUES,
        ground.run,
        site.broker_pid,
        size.budget,
    )
