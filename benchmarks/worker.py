"""A process that takes one measurement: ``python -m benchmarks.worker TASK``, task and answer in JSON."""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict
from importlib import import_module

from benchmarks import raw
from benchmarks.task import Outcome, Shape, Task

_MODULES = {
    "trio_one": ("trio-one",),
    "blocking_one": ("blocking-one",),
    "aio_one": ("aio-one",),
    "trio_64": ("trio-64",),
    "aio_64": ("aio-64",),
    "send_soon_64": ("send-soon-64",),
    "threads": ("threads-64", "threads-8"),
    "send_soon": ("send-soon",),
    "linger": ("linger-soon", "linger-trio", "linger-aio", "linger-threads-64"),
    "transactions": ("transact-one", "transact-64"),
    "traced": ("traced-64", "traced-threads-64"),
    "closing": ("closing", "closing-soon"),
    "oneway": ("oneway",),
    "batches": ("batch",),
    "consume": ("consume",),
    "consume_async": ("consume-async",),
    "consume_orderly": ("consume-orderly", "consume-orderly-async"),
    "lite_pull": ("lite-pull", "lite-pull-loop"),
    "settle": ("settle",),
    "blocked": ("blocked",),
    "latency": ("latency",),
    "memory": ("memory-trio", "memory-blocking", "memory-asyncio"),
    "growth": ("memory-growth",),
    "idle_close": ("idle-close",),
    "decode": ("decode",),
    "decode_all": ("decode-all",),
    "embedded": ("embedded",),
    "cluster_start": ("cluster-start",),
}
"""Of `benchmarks.clients`, in the order of the table, with the names of what they measure."""


def shapes() -> dict[str, Shape]:
    """All that a worker can measure, by name."""
    ours = (shape for module in _MODULES for shape in _of(module))
    return {shape.name: shape for shape in (*raw.SHAPES, *ours)}


def shape_of(name: str) -> Shape:
    """One of them: nothing else is imported, so that a tree need not have what the others use."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    return next(shape for shape in (raw.SHAPES if module is None else _of(module)) if shape.name == name)


def _of(module: str) -> tuple[Shape, ...]:
    """The one shape of a module, or those that differ by a number only."""
    loaded = import_module(f"benchmarks.clients.{module}")
    found: tuple[Shape, ...] = getattr(loaded, "SHAPES", None) or (loaded.SHAPE,)
    return found


def carry_out(task: Task) -> Outcome:
    """Take the measurement in this process."""
    measure = shape_of(task.shape).measure
    gc.collect()
    return measure(task)


def main() -> None:
    """Read the task, print the outcome."""
    task = Task.from_json(json.loads(sys.argv[1]))
    print(json.dumps(asdict(carry_out(task))), flush=True)


if __name__ == "__main__":
    main()
