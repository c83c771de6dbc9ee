"""The tasks of peers, the task of ours that each is compared with, and the figure by which it is divided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.arrivals import Arrivals
from benchmarks.bars import NAMES, PEERS
from benchmarks.measure import SEND_TOPIC, Ground, Measure, Row, task_of
from benchmarks.peers.java import SHAPES as OF_JAVA
from benchmarks.peers.java import java
from benchmarks.peers.javascript import SHAPES as OF_JAVASCRIPT
from benchmarks.peers.javascript import javascript

if TYPE_CHECKING:
    from benchmarks.peers.peer import PeerMake
    from benchmarks.task import Outcome

FRESH_SENDS = 30_000
ONE_BY_ONE = 15_000
"""The same if one message is in flight at a time, which takes longer."""
SHAPES = {"java": OF_JAVA, "javascript": OF_JAVASCRIPT}


def available(name: str) -> PeerMake | str:
    """Return a peer by name, or the reason why it is not available."""
    return {"java": java, "javascript": javascript}[name]()


@dataclass(frozen=True)
class Work:
    """One kind of task.

    Attributes:
        shape: Its name in drivers.
        title: Its title in the table, after the name of the peer.
        ours: Our row, which those of the peers follow in the table.
        floor: The raw loop that it is compared with.
        unit: The unit of its figure.
        fresh: If not 0, a new process does it, like ours, after this many sends to warm it up. If 0, it is done by the
            driver that runs for the whole benchmark, whose code is fully compiled. Consumers send nothing.
        counted: Whether the messages are counted at the broker, to check that all have arrived.
    """

    shape: str
    title: str
    ours: str
    floor: str | None
    unit: str = "/s"
    fresh: int = 0
    counted: bool = False

    def row_of(self, peer: str) -> str:
        """Return the name of the row of a peer."""
        return f"{peer}-{self.shape}"

    def measures(self) -> Iterator[Measure]:
        """Return one row for each peer that can do it."""
        for name in PEERS:
            if self.shape in SHAPES[name]:
                row = Row(self.row_of(name), f"{NAMES[name]} {self.title}", self.unit, self.floor)
                yield Measure((row,), partial(self._named, row.name), peer=name)

    def take(self, ground: Ground) -> Outcome:
        """Let the peer do it."""
        assert ground.peer is not None, "the run gives one to measures that name one"
        if self.shape == "start":
            return ground.peer.first_send(ground.site.namesrv, SEND_TOPIC)
        run = f"{ground.run}_{ground.peer.name}_{self.shape}"
        task = replace(task_of(self.shape, ground), run=run)
        if self.shape == "latency":
            task = replace(task, topic=f"Idle_{run}")
            ground.site.create_topic(task.topic, 1)
        arrived = Arrivals(task) if self.counted else None
        if self.fresh:
            outcome = ground.peer.measure_fresh(self.shape, task, self.fresh)
        else:
            outcome = ground.peer.measure(self.shape, task)
        if arrived is not None:
            arrived.check(outcome.sent)
        return outcome

    def _named(self, row: str, ground: Ground) -> Mapping[str, Outcome]:
        return {row: self.take(ground)}


def works() -> tuple[Work, ...]:
    """All kinds of tasks, in the order of the table."""
    return (
        Work("one", "send, one in flight", "aio-one", "raw-one"),
        Work("64", "send, 64 in flight", "send-soon-64", "raw-64"),
        Work("threads-64", "send, 64 threads", "threads-64", "raw-64", fresh=FRESH_SENDS),
        Work("hot-64", "send, 64 threads, compiled for long", "threads-64", "raw-64"),
        Work("threads-8", "send, 8 threads", "threads-8", "raw-64", fresh=FRESH_SENDS),
        Work("hot-8", "send, 8 threads, compiled for long", "threads-8", "raw-64"),
        Work("batch", "batches of 100", "batch", "raw-batch"),
        Work("auto-batch", "autoBatch, 4,096 outstanding", "linger-soon", "raw-batch", fresh=FRESH_SENDS, counted=True),
        Work(
            "auto-threads-64", "autoBatch, 64 threads", "linger-threads-64", "raw-64", fresh=FRESH_SENDS, counted=True
        ),
        Work("transact-one", "transactions, one in flight", "transact-one", "raw-one", fresh=ONE_BY_ONE, counted=True),
        Work("transact-64", "transactions, 64 threads", "transact-64", "raw-64", fresh=FRESH_SENDS, counted=True),
        Work("consume", "push consume 1 KiB", "consume-async", "raw-consume"),
        Work("new-consume", "push consume 1 KiB, new JVM", "consume-async", "raw-consume", fresh=FRESH_SENDS),
        Work(
            "orderly",
            "push consume 1 KiB, in order, new JVM",
            "consume-orderly-async",
            "raw-consume",
            fresh=FRESH_SENDS,
        ),
        Work("lite", "lite pull 1 KiB, new JVM", "lite-pull", "raw-consume", fresh=FRESH_SENDS),
        Work("latency", "send to listener, idle queue", "latency", "raw-latency", "ms"),
        Work("start", "process start to first acknowledged send", "start-blocking", None, "ms"),
    )
