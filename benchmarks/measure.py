"""What a measure is: its rows, how it takes their figures, and what it needs for that."""

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
    """How much work is done for one figure.

    Attributes:
        budget: The budget of each worker.
        filled: Messages of 1 KiB that wait to be consumed.
        idle_seconds: How long idle servers are watched.
        warm_seconds: How long servers are driven before anything is measured; a JVM needs it.
        isolated: Whether workers are processes of their own; in this process, they start faster.
    """

    budget: Budget
    filled: int = 40_000
    idle_seconds: float = 3.0
    warm_seconds: float = 2.0
    isolated: bool = True


@dataclass(frozen=True)
class Row:
    """One figure of a table; `floor` names the figure by which it is divided."""

    name: str
    title: str
    unit: str
    floor: str | None = None
    kind: str = "client"
    """The table that it is in: "client" (and raw loops), "server", "start", "store" or "spark"."""
    goal: float | None = None
    """What any current machine should reach. It is shown beside the figure; the bar is a ratio."""


@dataclass(frozen=True)
class Ground:
    """What a measure uses.

    Attributes:
        make: The kind of servers.
        site: The running servers.
        size: How much work is done.
        run: A unique name.
        peer: Another client, for a measure that needs one.
        tree: The tree whose packages are measured; None for this one, as installed.
    """

    make: Servers
    site: Site
    size: Size
    run: str
    peer: Peer | None = None
    tree: Path | None = None


@dataclass(frozen=True)
class Measure:
    """Measures the figures of some rows together.

    Attributes:
        alone: Whether the figure does not depend on the kind of servers.
        once: Whether it is taken in the first round only, because it takes long and varies little.
        brings: The servers that it starts itself, under whose name its figures are kept.
        peer: The name of the other client that it needs; measured on Apache's servers only.
        of_tree: Whether other trees can be measured in the same way.
        turns: How often it is taken for one sample when trees are compared, because short measures vary a lot.
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
    """Return the task for a worker."""
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
