"""Latency over time: a strip of signs for the terminal, and a picture where matplotlib is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bars import APACHE, OURS
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.store.open_loop import Latencies
    from benchmarks.store.watched import Pause

_SIGNS = "▁▂▃▄▅▆▇█"
_LEAST, _MOST = 1e-4, 1.0
"""Seconds of the lowest and the highest sign; in between it goes by the logarithm."""
_COLOURS = {OURS: "#2a7f62", APACHE: "#b3412e"}
WIDTH = 60
STEP = 0.1


@dataclass(frozen=True)
class Timeline:
    """What the picture is made of.

    Attributes:
        latencies: By servers.
        pauses: Collections of our broker's garbage collector.
    """

    latencies: Mapping[str, Latencies]
    pauses: Sequence[Pause]

    def text(self) -> str:
        """A line for each servers: the longest latency of each part of the run."""
        lines = [f"{make:<8}{''.join(map(sign, self._parts(each)))}" for make, each in self.latencies.items()]
        return "\n".join(["longest latency over time, 0.1 ms to 1 s", *lines])

    def _parts(self, latencies: Latencies) -> Iterator[float]:
        count = len(latencies.latency)
        for part in range(min(WIDTH, count)):
            begin, end = part * count // WIDTH, (part + 1) * count // WIDTH
            yield max(latencies.latency[begin : max(end, begin + 1)])


def sign(seconds: float) -> str:
    """The sign of a latency."""
    height = math.log(max(seconds, _LEAST) / _LEAST) / math.log(_MOST / _LEAST)
    return _SIGNS[min(len(_SIGNS) - 1, int(height * len(_SIGNS)))]


def longest(latencies: Latencies, start: float) -> tuple[list[float], list[float]]:
    """Seconds since the start, and the longest latency in ms of each step of time."""
    steps: dict[int, float] = {}
    for due, latency in zip(latencies.due, latencies.latency, strict=True):
        at = int((due - start) / STEP)
        steps[at] = max(latency, steps.get(at, 0.0))
    return [at * STEP for at in steps], [latency * 1e3 for latency in steps.values()]


def draw(timeline: Timeline, file: Path, caption: str) -> None:
    """Draw it into a file.

    Raises:
        BenchmarkError: matplotlib is missing, or the file cannot be written.
    """
    try:
        os.environ.setdefault("MPLBACKEND", "agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BenchmarkError("the picture wants matplotlib: run ./dev bench --plot") from error
    figure, axes = pyplot.subplots(figsize=(12, 5), layout="constrained")
    start = min(each.due[0] for each in timeline.latencies.values())
    for make, latencies in timeline.latencies.items():
        seconds, worst = longest(latencies, start)
        axes.scatter(seconds, worst, s=6, color=_COLOURS.get(make), label=f"{make}: longest in {STEP:g} s")
    pauses = [pause for pause in timeline.pauses if pause.began >= start]
    axes.scatter(
        [pause.began - start for pause in pauses],
        [pause.seconds * 1e3 for pause in pauses],
        s=4,
        marker="x",
        color="black",
        label="garbage collections of ours",
    )
    axes.set_yscale("log")
    axes.set_xlabel(f"seconds\n{caption}")
    axes.set_ylabel("ms")
    axes.legend(loc="upper right")
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"the picture cannot be written to {file}: {error}") from error
    finally:
        pyplot.close(figure)
