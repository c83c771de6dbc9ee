"""A task in a worker process of its own, or within this process where that is to be quick."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.processes import Child
from benchmarks.task import Outcome, Task
from benchmarks.worker import carry_out

if TYPE_CHECKING:
    from benchmarks.measure import Ground

WITHIN = 120.0


def take(task: Task, ground: Ground, within: float = WITHIN) -> Outcome:
    """Let a worker take a measurement, as the ground says.

    Raises:
        BenchmarkError: it could not, or not within so many seconds.
    """
    if not ground.size.isolated:
        return carry_out(task)
    child = Child("-m", "benchmarks.worker", json.dumps(task.to_json()), tree=ground.tree)
    try:
        return Outcome(**json.loads(child.line(within)))
    finally:
        child.kill()
