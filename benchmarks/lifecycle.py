"""The life of a pair of servers: started cold, idle, stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.frames import Wire, send_frame
from benchmarks.processes import cpu_seconds, rss_megabytes
from benchmarks.task import BODY, Outcome

if TYPE_CHECKING:
    from benchmarks.servers import Servers

SETTLE = 0.5
"""Of the time that idle servers are watched, this many times as long passes before, so that starting is over."""


def live_and_die(make: Servers, idle_seconds: float) -> dict[str, Outcome]:
    """Start a pair, send it one message, leave it alone for a while, stop its broker."""
    began = time.monotonic()
    with make.run() as site:
        with Wire(site.broker) as wire:
            wire.ask(send_frame("BenchCold", 0, BODY))
        cold = time.monotonic() - began
        time.sleep(SETTLE * idle_seconds)
        before, watched_from = cpu_seconds(site.broker_pid), time.monotonic()
        time.sleep(idle_seconds)
        after, watched_to = cpu_seconds(site.broker_pid), time.monotonic()
        memory = rss_megabytes(site.broker_pid)
        found = {"cold": Outcome(cold * 1e3, 1)}
        if memory is not None and before is not None and after is not None:
            found["idle-rss"] = Outcome(memory, 0)
            found["idle-cpu"] = Outcome(100 * (after - before) / (watched_to - watched_from), 0)
        found["stop"] = Outcome(site.stop_broker() * 1e3, 0)
    return found
