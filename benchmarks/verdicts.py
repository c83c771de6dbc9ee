"""Whether a run reached the bars: pure functions from medians to verdicts. Printing them is `report`'s part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.bars import ALONE, PEERS, Bar, Figure

if TYPE_CHECKING:
    from benchmarks.task import Outcome

REACHED = "reached"
MISSED = "not reached"
UNMEASURED = "unmeasured"

Samples = Mapping[tuple[str, str], Sequence["Outcome"]]
"""By row and servers."""


@dataclass(frozen=True)
class Verdict:
    """What came of one bar.

    Attributes:
        bar: What was asked.
        figure: The median of our figure; None when it was not taken.
        over: That of what it is divided by.
        judged: What was compared with the bar.
        peers: The same of each peer that was measured.
        note: The median of the note that the bar names.
        why: Why it is unmeasured; empty when it is measured.
    """

    bar: Bar
    figure: float | None
    over: float | None
    judged: float | None
    peers: Mapping[str, float]
    note: float | None
    why: str

    @property
    def word(self) -> str:
        """One of the three."""
        bar = self.bar
        if bar.enough is not None and self.figure is not None and _reaches(self.figure, bar.enough, bar.at_least):
            return REACHED
        if self.judged is None:
            return UNMEASURED
        return REACHED if _reaches(self.judged, bar.limit, bar.at_least) else MISSED

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        bar = self.bar
        return {
            "table": bar.table,
            "title": bar.title,
            "row": bar.figure.row,
            "servers": bar.figure.servers,
            "part": bar.figure.part,
            "median": self.figure,
            "over": None
            if bar.over is None
            else {"row": bar.over.row, "servers": bar.over.servers, "median": self.over},
            "judged": self.judged,
            "bar": {"at_least" if bar.at_least else "at_most": bar.limit},
            "verdict": self.word,
            "why": self.why,
            "peers": dict(self.peers),
            "note": self.note,
        }


def _reaches(value: float, limit: float, at_least: bool) -> bool:
    return value >= limit if at_least else value <= limit


def middle(samples: Samples, figure: Figure) -> float | None:
    """The median of a figure; None when no sample has it."""
    outcomes = samples.get((figure.row, figure.servers), ())
    values = [value for outcome in outcomes if (value := part_of(outcome, figure.part)) is not None]
    return median(values) if values else None


def part_of(outcome: Outcome, part: str) -> float | None:
    """One number of a sample."""
    if part in ("value", "cpu", "server_cpu"):
        value: float | None = getattr(outcome, part)
        return value
    return outcome.notes.get(part)


def judge(bar: Bar, samples: Samples, missing: Mapping[str, str]) -> Verdict:
    """Compare one bar with the samples of a run.

    Args:
        bar: What is asked.
        samples: Of the run.
        missing: Servers and peers that could not be had, by name, and why.
    """
    figure, over = middle(samples, bar.figure), None if bar.over is None else middle(samples, bar.over)
    judged = _ratio(bar, figure, over)
    peers = {}
    for name in PEERS:
        theirs = bar.peer(name)
        value = None if theirs is None else _ratio(bar, middle(samples, theirs), over)
        if value is not None:
            peers[name] = value
    note = middle(samples, Figure(bar.figure.row, bar.figure.servers, bar.note)) if bar.note else None
    return Verdict(bar, figure, over, judged, peers, note, "" if judged is not None else _why(bar, samples, missing))


def judge_all(bars: Iterable[Bar], samples: Samples, missing: Mapping[str, str]) -> list[Verdict]:
    """Each bar in turn."""
    return [judge(bar, samples, missing) for bar in bars]


def _ratio(bar: Bar, figure: float | None, over: float | None) -> float | None:
    if figure is None or bar.over is None:
        return figure
    return figure / over if over else None


def _why(bar: Bar, samples: Samples, missing: Mapping[str, str]) -> str:
    """What is missing first, with the reason when one is known."""
    needed = [bar.figure, *([bar.over] if bar.over else [])]
    lacking = next((figure for figure in needed if middle(samples, figure) is None), needed[-1])
    for name in (lacking.servers, lacking.row.partition("-")[0]):
        if name in missing:
            return missing[name]
    where = "" if lacking.servers == ALONE else f" on the servers called {lacking.servers}"
    return f"{lacking.row} was not measured{where}"
