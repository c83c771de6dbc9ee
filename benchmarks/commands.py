"""How long the command `rocketpy` takes from its start to its end: help, completion, and a list of topics."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.measure import Row
from benchmarks.processes import ROOT, environment
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.measure import Ground

ROWS = (
    Row("cli-help", "rocketpy --help, from start to end", "ms"),
    Row("cli-completion", "completion of rocketpy topic, from start to end", "ms"),
    Row("cli-topic-list", "rocketpy topic list, from start to end", "ms"),
)
_RUNS = 10
_COMPLETION = {"_ROCKETPY_COMPLETE": "bash_complete", "COMP_WORDS": "rocketpy topic ", "COMP_CWORD": "2"}


def measure(ground: Ground) -> Mapping[str, Outcome]:
    """Each is started once to be warm, and then ten times, of which the median counts."""
    return {
        "cli-help": _take(ground, ["--help"], {}, "Usage: rocketpy "),
        "cli-completion": _take(ground, [], _COMPLETION, "plain,list"),
        "cli-topic-list": _take(ground, ["topic", "list", "--namesrv", ground.site.namesrv], {}, "topic\n"),
    }


def _take(ground: Ground, arguments: Sequence[str], more: Mapping[str, str], said: str) -> Outcome:
    _once(ground, arguments, more, said)
    took = [_once(ground, arguments, more, said) for _ in range(_RUNS)]
    return Outcome(statistics.median(took) * 1e3, 1, notes={"slowest_ms": max(took) * 1e3})


def _once(ground: Ground, arguments: Sequence[str], more: Mapping[str, str], said: str) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rocketpy.cli", *arguments],
        cwd=ground.tree or ROOT,
        env={**environment(ground.tree), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    if done.returncode or not done.stdout.startswith(said):
        raise BenchmarkError(f"rocketpy {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return took
