"""How much memory a process takes at most that sends with 64 messages in flight: one way for each surface."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from importlib import import_module

from benchmarks.budget import Budget
from benchmarks.processes import rss_megabytes
from benchmarks.task import Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError

SENDS = 2_000
WITHIN = 60.0
_WAYS = {"trio": "trio_64", "blocking": "send_soon_64", "asyncio": "aio_64"}


def measure(way: str, task: Task) -> Outcome:
    """In MB. Only the way that is measured is imported."""
    few = replace(task, budget=Budget(WITHIN, min(SENDS, task.budget.messages)))
    sent: Outcome = import_module(f"benchmarks.clients.{way}").measure(few)
    peak = rss_megabytes(os.getpid(), "VmHWM")
    if peak is None:
        raise BenchmarkError("this system does not say in /proc how much memory a process has had")
    return Outcome(peak, sent.messages)


SHAPES = tuple(
    Shape(f"memory-{surface}", f"memory of a process that sends, {surface}", partial(measure, way), unit="MB")
    for surface, way in _WAYS.items()
)
