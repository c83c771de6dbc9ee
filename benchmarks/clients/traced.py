"""The producer with its trace on: the sends that are measured elsewhere, and the records that came of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

import rocketpy
from benchmarks.arrivals import ends, since
from benchmarks.clients import threads, trio_64
from benchmarks.frames import Wire
from benchmarks.task import WINDOW, Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError

TOPIC = "BenchTraces"
SETTINGS: dict[str, Any] = {"enable_msg_trace": True, "trace_topic": TOPIC}


def measure(send: Callable[[Task], Outcome], task: Task) -> Outcome:
    """Send, close, which sends the last records, and count them.

    Raises:
        BenchmarkError: fewer or more sends are recorded than there were.
    """
    trio.run(_create, task)
    with Wire(task.broker) as wire:
        begins = ends(wire, TOPIC, task.queues)
        outcome = send(task)
        sent = outcome.messages + task.warming.messages
        found = _recorded(wire, begins, task.run)
    if found != sent:
        raise BenchmarkError(f"{sent} sends were traced, and {found} are recorded")
    return outcome


async def _create(task: Task) -> None:
    async with rocketpy.Producer("bench_traced", namesrv=task.namesrv) as producer:
        await producer.create_topic(TOPIC, queues=task.queues)


def _recorded(wire: Wire, begins: list[int], run: str) -> int:
    """How many sends the new messages of the topic tell of."""
    count = 0
    for _, body, *_ in since(wire, TOPIC, begins, run):
        text = zlib.decompress(body) if body.startswith(b"x") else body
        count += sum(record.kind == "Pub" for record in rocketpy.decode_traces(text))
    return count


SHAPES = (
    Shape(
        "traced-64",
        "trio send, 64 in flight, traced",
        partial(measure, partial(trio_64.measure, **SETTINGS)),
        floor="raw-64",
    ),
    Shape(
        "traced-threads-64",
        "blocking send, 64 threads, traced",
        partial(measure, partial(threads.measure, WINDOW, **SETTINGS)),
        floor="raw-64",
    ),
)
