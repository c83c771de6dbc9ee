"""What held pulls cost a broker: thousands of them on idle queues, each repeated as soon as it is answered.

How slow this core is just now is noted as well: the bar is told as a share of an ordinary one.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.frames import Wire, pull_frame
from benchmarks.measure import Row
from benchmarks.processes import cpu_seconds
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError
from tests.pace import slowness

if TYPE_CHECKING:
    from benchmarks.measure import Ground

ROW = Row("held-pulls", "10,000 held pulls, idle queues: share of a core", "%", kind="server")
PULLS = 10_000
QUEUES = 100
HELD = 5.0
"""So many times as long as idle servers are watched: fifteen seconds, as long as consumers of Java's and ours ask for.
Each pull is answered and repeated once in that time."""
TOPIC = "BenchIdle"


def measure(ground: Ground) -> Mapping[str, Outcome]:
    """Each connection is a group that pulls every queue.

    Raises:
        BenchmarkError: there is no /proc to look at.
    """
    site = ground.site
    pulls, held = min(PULLS, ground.size.budget.messages), HELD * ground.size.idle_seconds
    site.create_topic(TOPIC, QUEUES)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(site.broker)) for _ in range(-(-pulls // QUEUES))]
        pullers = [_Puller(wire, f"bench_held_{ground.run}_{number}", held) for number, wire in enumerate(wires)]
        for number, puller in enumerate(pullers):
            puller.pull(range(min(QUEUES, pulls - number * QUEUES)))
        _keep(pullers, held)
        slow = slowness()
        before, began = cpu_seconds(site.broker_pid), time.monotonic()
        _keep(pullers, held)
        after, ended = cpu_seconds(site.broker_pid), time.monotonic()
        slow = (slow + slowness()) / 2
    if before is None or after is None:
        raise BenchmarkError("this machine does not say how much CPU a process has used")
    return {ROW.name: Outcome(100 * (after - before) / (ended - began), pulls, notes={"slower_times": slow})}


class _Puller:
    """One connection, with a group of its own."""

    def __init__(self, wire: Wire, group: str, held: float) -> None:
        self.wire = wire
        self._group = group
        self._ms = max(1, int(held * 1000))

    def pull(self, queues: Iterable[int]) -> None:
        """Ask for these."""
        frames = [pull_frame(self._group, TOPIC, queue, 0, wait_ms=self._ms, opaque=queue) for queue in queues]
        self.wire.socket.sendall(b"".join(frames))

    def go_on(self) -> None:
        """Ask again for those whose pull was answered."""
        self.pull([_opaque(answer) for answer in self.wire.read()])


def _keep(pullers: list[_Puller], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for puller in pullers:
            selector.register(puller.wire.socket, selectors.EVENT_READ, puller)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                key.data.go_on()


def _opaque(answer: bytes) -> int:
    """Of which queue an answer is."""
    at = answer.index(b'"opaque":') + len(b'"opaque":')
    return int(answer[at : at + 12].split(b",")[0].split(b"}")[0])
