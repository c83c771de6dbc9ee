"""One crash point: which recording, when the power went, and what became of it."""

from __future__ import annotations

from functools import lru_cache
from random import Random

import attrs

from tests.crash.judge import Moment, Verdict
from tests.crash.nodes import FileNode
from tests.crash.sim_disk import SimDisk
from tests.crash.workloads import WORKLOADS, Recording, recording

__all__ = ["Case", "Result", "Site", "boundaries", "case_rng", "sites"]


@attrs.define
class Result:
    """What a crash point showed.

    Attributes:
        fired: Whether the fault that the class stands for really was there.
        verdict: What became of the disk.
        acknowledged: How many messages had been promised to survive.
    """

    fired: bool
    verdict: Verdict
    acknowledged: int = 0


@attrs.define
class Case:
    """A crash point while it is tried.

    Attributes:
        recording: What the broker had done.
        disk: The disk when so many operations were done; shared, not to be changed.
        at: That many.
        rng: Source of every choice.
        number: Of the point within its class.
    """

    recording: Recording
    disk: SimDisk
    at: int
    rng: Random
    number: int

    def moment(self, *, kill: bool = False) -> Moment:
        return Moment.of(self.recording, self.at, kill=kill)


def case_rng(seed: int, kind: str, number: int) -> Random:
    return Random(f"{seed}:{kind}:{number}")


class Site:
    """What can be said of each boundary of a recording: one replay, made once a process.

    Attributes:
        unsynced: Boundaries at which something had not reached the disk.
        writes: Indexes of the writes of more than one byte.
        fillers: Indexes of the writes that close a file of the log.
        rolls: (index, path) of the making of files of log and queues, up to their first sync.
    """

    def __init__(self, recorded: Recording) -> None:
        self.unsynced: list[int] = []
        self.writes: list[int] = []
        self.fillers: list[int] = []
        self.rolls: list[tuple[int, str]] = []
        disk, fresh = SimDisk(), {}
        paths = {node: path for path, node in _paths(recorded.disk).items()}
        for index, entry in enumerate(recorded.disk.journal or ()):
            if entry[0] == "write" and len(entry[3]) > 1:
                self.writes.append(index)
                if entry[3].endswith(_BLANK_MAGIC):
                    self.fillers.append(index)
            disk.apply(*entry)
            if entry[0] == "link":
                path = paths.get(len(disk.nodes) - 1, "")
                if path.startswith(("commitlog/", "consumequeue/")):
                    fresh[len(disk.nodes) - 1] = path
            elif entry[0] == "sync":
                fresh.pop(entry[1], None)
            self.rolls += [(index + 1, path) for path in fresh.values()]
            if disk.unsynced:
                self.unsynced.append(index + 1)


_BLANK_MAGIC = (-875286124).to_bytes(4, "big", signed=True)


def _paths(disk: SimDisk) -> dict[str, int]:
    return {path: number for path, number in disk._numbers.items() if isinstance(disk.nodes[number], FileNode)}


@lru_cache(maxsize=64)
def sites(workload: int) -> Site:
    return Site(recording(workload))


def boundaries() -> int:
    """How many boundaries there are in all recordings."""
    return sum(recording(index).length + 1 for index in range(len(WORKLOADS)))
