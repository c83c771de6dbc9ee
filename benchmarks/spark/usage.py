"""What a tree of processes uses: CPU of the living and of those they have outlived, and memory, sampled by a thread."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Self

from benchmarks.processes import cpu_seconds, rss_megabytes

_TICKS = os.sysconf("SC_CLK_TCK")
DRIVER, JVM, WORKERS, BROKER = "driver", "JVM", "workers", "broker"


class Process(NamedTuple):
    """What the kernel says of one process.

    Attributes:
        cpu: Seconds, user and system, of itself and of the children that it has waited for.
    """

    pid: int
    parent: int
    name: str
    cpu: float


def processes() -> dict[int, Process]:
    """All that run here, by number; none where there is no /proc."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            process = parsed((entry / "stat").read_text("utf-8", "replace"))
            found[process.pid] = process
    return found


def parsed(stat: str) -> Process:
    """One process out of the text of its ``stat``, whose name may hold anything."""
    head, _, tail = stat.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return Process(int(pid), int(fields[1]), name, sum(map(int, fields[11:15])) / _TICKS)


def roles(running: Mapping[int, Process], driver: int, broker: int) -> dict[int, str]:
    """What each process of a measurement is: the driver, its JVM, Python workers below the JVM, the broker."""
    children = defaultdict(list)
    for process in running.values():
        children[process.parent].append(process)
    found = {driver: DRIVER} if driver in running else {}
    if broker in running:
        found[broker] = BROKER
    below = [(process, DRIVER) for process in children[driver]]
    while below:
        process, above = below.pop()
        found[process.pid] = role = JVM if process.name == "java" else WORKERS if above in (JVM, WORKERS) else DRIVER
        below += [(child, role) for child in children[process.pid]]
    return found


def cpu_by_role(driver: int, broker: int) -> dict[str, float]:
    """Seconds of CPU so far."""
    running = processes()
    total: dict[str, float] = defaultdict(float)
    for pid, role in roles(running, driver, broker).items():
        total[role] += running[pid].cpu
    return total


def own_cpu(driver: int, broker: int) -> dict[int, tuple[str, float]]:
    """Role of each process, and seconds of CPU so far without those of its children."""
    return {pid: (role, cpu_seconds(pid) or 0.0) for pid, role in roles(processes(), driver, broker).items()}


def used_between(before: Mapping[int, tuple[str, float]], after: Mapping[int, tuple[str, float]]) -> dict[str, float]:
    """Seconds of CPU by role between two looks; a process that has ended meanwhile takes nothing with it."""
    used: dict[str, float] = defaultdict(float)
    for pid, (role, seconds) in after.items():
        used[role] += seconds - before.get(pid, (role, 0.0))[1]
    return used


def memory_by_role(driver: int, broker: int) -> dict[str, float]:
    """MB in RAM; of workers and broker what is their own, for a fork shares the rest and files are the system's."""
    total: dict[str, float] = defaultdict(float)
    for pid, role in roles(processes(), driver, broker).items():
        total[role] += rss_megabytes(pid, "RssAnon" if role in (WORKERS, BROKER) else "VmRSS") or 0.0
    return total


class Sampler:
    """Takes the memory of all roles again and again while its block runs."""

    def __init__(self, driver: int, broker: int, *, every: float = 0.25) -> None:
        self.samples: list[dict[str, float]] = []
        self._pids = driver, broker
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def of(self, role: str) -> list[float]:
        """The samples of one role, in order of time."""
        return [sample.get(role, 0.0) for sample in self.samples]

    def _run(self) -> None:
        while True:
            self.samples.append(memory_by_role(*self._pids))
            if self._ended.wait(self._every):
                return


def growth(samples: Iterable[float]) -> float:
    """How much larger the last quarter is than the second one, in percent: the first fills what is kept for good."""
    values = list(samples) or [0.0]
    size = max(1, len(values) // 4)
    early, late = fmean(values[size : 2 * size] or values), fmean(values[-size:])
    return 100.0 * (late / early - 1.0) if early else 0.0
