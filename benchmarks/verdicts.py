"""Whether a run reached the bars: pure functions from samples to verdicts. Printing them is `report`'s part.

A ratio is taken within each round, of two samples that were taken moments apart, and the median of these ratios is
judged: a machine that is slow for one round changes both sides of it. Samples that know no round have no partner; the
ratio of their medians is taken instead.
"""

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
        rounds: Of how many rounds that is the median.
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
    rounds: int = 0

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
            "rounds": self.rounds,
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
    values = [value for _, value in _values(samples, figure)]
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
    compared = judged_values(samples, bar.figure, bar.over)
    judged = median(compared) if compared else None
    peers = {}
    for name in PEERS:
        theirs = bar.peer(name)
        values = [] if theirs is None else judged_values(samples, theirs, bar.over)
        if values:
            peers[name] = median(values)
    note = middle(samples, Figure(bar.figure.row, bar.figure.servers, bar.note)) if bar.note else None
    why = "" if judged is not None else _why(bar, samples, missing)
    return Verdict(bar, figure, over, judged, peers, note, why, len(compared))


def judge_all(bars: Iterable[Bar], samples: Samples, missing: Mapping[str, str]) -> list[Verdict]:
    """Each bar in turn."""
    return [judge(bar, samples, missing) for bar in bars]


def judged_values(samples: Samples, figure: Figure, over: Figure | None) -> list[float]:
    """Of what the median is compared with the bar: the figure itself, or its ratio in each round that has both."""
    own = _values(samples, figure)
    if over is None:
        return [value for _, value in own]
    beside = _values(samples, over)
    if all(number for number, _ in (*own, *beside)):
        divisors = dict(beside)
        return [value / divisors[number] for number, value in own if divisors.get(number)]
    value, divisor = middle(samples, figure), middle(samples, over)
    return [value / divisor] if value is not None and divisor else []


def _values(samples: Samples, figure: Figure) -> list[tuple[int, float]]:
    """Round and number of each sample that has it."""
    outcomes = samples.get((figure.row, figure.servers), ())
    return [(outcome.round, value) for outcome in outcomes if (value := part_of(outcome, figure.part)) is not None]


def _why(bar: Bar, samples: Samples, missing: Mapping[str, str]) -> str:
    """What is missing first, with the reason when one is known."""
    needed = [bar.figure, *([bar.over] if bar.over else [])]
    lacking = next((figure for figure in needed if middle(samples, figure) is None), needed[-1])
    for name in (lacking.servers, lacking.row.partition("-")[0]):
        if name in missing:
            return missing[name]
    where = "" if lacking.servers == ALONE else f" on the servers called {lacking.servers}"
    return f"{lacking.row} was not measured{where}"
