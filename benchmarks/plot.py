"""A picture of the bars: how far each figure is from its bar, with those of the peers on the same line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.bars import NAMES, PEERS, Bar
from benchmarks.trouble import BenchmarkError
from benchmarks.verdicts import MISSED, REACHED, Verdict

COLOURS = {REACHED: "#2a7f62", MISSED: "#b3412e"}
MARKERS = {"javascript": ("D", "#c9a227"), "java": ("o", "#3c5a99")}
LEAST, MOST = 0.1, 1000.0
"""What is further off is drawn at the edge."""


class Mark(NamedTuple):
    """One line of the picture; 1 is the bar, more is better."""

    title: str
    word: str
    ours: float
    peers: dict[str, float]


def marks(verdicts: Sequence[Verdict]) -> list[Mark]:
    """A line for everything that was measured."""
    return [
        Mark(
            _title(each.bar),
            each.word,
            distance(each.bar, each.judged),
            {name: distance(each.bar, value) for name, value in each.peers.items()},
        )
        for each in verdicts
        if each.judged is not None
    ]


def distance(bar: Bar, judged: float) -> float:
    """How many times as good as the bar asks for."""
    times = judged / bar.limit if bar.at_least else bar.limit / judged if judged else MOST
    return min(MOST, max(LEAST, times))


def _title(bar: Bar) -> str:
    return f"{bar.title}  ({'>=' if bar.at_least else '<='} {bar.limit:g})"


def plot(verdicts: Sequence[Verdict], file: Path, caption: str) -> None:
    """Draw them into a file, of the kind that its name ends with.

    Raises:
        BenchmarkError: matplotlib is missing, nothing was measured, or the file cannot be written.
    """
    lines = marks(verdicts)
    if not lines:
        raise BenchmarkError("no bar was measured: there is nothing to draw")
    try:
        os.environ.setdefault("MPLBACKEND", "agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BenchmarkError(
            "the picture wants matplotlib: python -m pip install matplotlib, or run ./dev bench --plot"
        ) from error
    figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.3 * len(lines)), layout="constrained")
    rows = range(len(lines), 0, -1)
    axes.barh(rows, [line.ours for line in lines], color=[COLOURS[line.word] for line in lines], height=0.6)
    for name in PEERS:
        found = [(line.peers[name], row) for line, row in zip(lines, rows, strict=True) if name in line.peers]
        if found:
            marker, colour = MARKERS[name]
            axes.scatter(*zip(*found, strict=True), marker=marker, color=colour, label=NAMES[name], zorder=3)
    axes.axvline(1.0, color="black", linewidth=1, label="the bar")
    axes.set_xscale("log")
    axes.set_yticks(list(rows), [line.title for line in lines])
    axes.set_xlabel(f"times as good as the bar asks for\n{caption}")
    axes.legend(loc="upper right")
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"the picture cannot be written to {file}: {error}") from error
    finally:
        pyplot.close(figure)
