"""`rocketpy tail` into a pipe: messages a second from the first that is read to the last, without the start."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from benchmarks.measure import FILLED_TOPIC, Row
from benchmarks.processes import ROOT, cpu_seconds, environment
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from io import BufferedReader

    from benchmarks.measure import Ground

ROWS = (
    Row("tail", "rocketpy tail, 1 KiB, to a pipe", "/s"),
    Row("tail-json", "rocketpy tail --json, 1 KiB, to a pipe", "/s"),
)
_PIECE = 1 << 20


def measure(ground: Ground) -> Mapping[str, Outcome]:
    """Each format reads the messages that wait."""
    return {"tail": _take(ground, "pretty"), "tail-json": _take(ground, "json")}


def _take(ground: Ground, form: str) -> Outcome:
    count, site = min(ground.size.filled, ground.size.budget.messages), ground.site
    options = ["--from", "begin", "--count", str(count), "--format", form, "--namesrv", site.namesrv]
    before, server_before = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_seconds(site.broker_pid)
    with subprocess.Popen(
        [sys.executable, "-m", "rocketpy.cli", "tail", FILLED_TOPIC, *options],
        cwd=ground.tree or ROOT,
        env=environment(ground.tree),
        stdout=subprocess.PIPE,
    ) as child:
        read = cast("BufferedReader", child.stdout).read1
        piece = read(_PIECE)
        began, lines = time.perf_counter(), piece.count(b"\n")
        while piece := read(_PIECE):
            lines += piece.count(b"\n")
        took = time.perf_counter() - began
    if child.returncode or lines != count:
        raise BenchmarkError(f"rocketpy tail ended with status {child.returncode} after {lines} of {count} messages")
    after, server_after = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_seconds(site.broker_pid)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    server = None if server_after is None or server_before is None else server_after - server_before
    each = 100_000 / count
    return Outcome(count / max(took, 1e-6), count, cpu * each, None if server is None else server * each)
