"""How long a cluster that is embedded in a test takes to take its first message."""

from __future__ import annotations

import time

import trio

import rocketpy
from benchmarks.task import BODY, Outcome, Shape, Task
from rocketpy_broker_sim import LocalCluster


async def start() -> float:
    """Seconds to the first acknowledged send."""
    began = time.perf_counter()
    async with LocalCluster() as cluster:
        async with rocketpy.Producer("bench_cluster", namesrv=cluster.name_server_addresses) as producer:
            await producer.send(rocketpy.Message("First", BODY))
            return time.perf_counter() - began


def measure(task: Task) -> Outcome:
    """In a trio loop of its own; imports are not counted."""
    return Outcome(trio.run(start) * 1e3, 1)


SHAPE = Shape("cluster-start", "LocalCluster to first acknowledged send", measure, unit="ms", alone=True)
