"""A process that takes one measurement: ``python -m benchmarks.worker TASK``, task and answer in JSON."""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict
from importlib import import_module
from types import ModuleType

from benchmarks import raw
from benchmarks.task import Outcome, Shape, Task

_MODULES = (
    "trio_one",
    "blocking_one",
    "aio_one",
    "trio_64",
    "aio_64",
    "send_soon_64",
    "threads",
    "send_soon",
    "oneway",
    "batches",
    "consume",
    "consume_async",
    "latency",
    "idle_close",
    "decode",
    "decode_all",
    "embedded",
    "cluster_start",
)
"""Of `benchmarks.clients`, in the order of the table."""


def shapes() -> dict[str, Shape]:
    """All that a worker can measure, by name."""
    ours = (shape for name in _MODULES for shape in _of(import_module(f"benchmarks.clients.{name}")))
    return {shape.name: shape for shape in (*raw.SHAPES, *ours)}


def _of(module: ModuleType) -> tuple[Shape, ...]:
    """The one shape of a module, or those that differ by a number only."""
    found: tuple[Shape, ...] = getattr(module, "SHAPES", None) or (module.SHAPE,)
    return found


def carry_out(task: Task) -> Outcome:
    """Take the measurement in this process."""
    gc.collect()
    return shapes()[task.shape].measure(task)


def main() -> None:
    """Read the task, print the outcome."""
    task = Task.from_json(json.loads(sys.argv[1]))
    print(json.dumps(asdict(carry_out(task))), flush=True)


if __name__ == "__main__":
    main()
