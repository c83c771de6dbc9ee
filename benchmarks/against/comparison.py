"""Whether a figure is worse than another commit's: ratios of each round, their median, its interval, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.against.interval import interval, least_count
from benchmarks.verdicts import UNMEASURED, part_of

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.task import Outcome

HERE, THERE = "here", "there"
"""This tree, and the commit that it is compared with."""
REACHES = 0.98
"""No worse is what may well be as good: so far the interval has to go at least..."""
LEAST = 0.95
"""...and so high the median has to be."""
NO_WORSE, WORSE, UNCLEAR = "no worse", "worse", "unclear"
"""Unclear is a low median that noise alone may have made."""

Samples = Mapping[tuple[str, str], Sequence["Outcome"]]
"""By row and side."""


@dataclass(frozen=True)
class Part:
    """One number of the samples of a row that is compared.

    Attributes:
        name: As `part_of` takes it.
        title: For readers.
        unit: Of the number.
        more_is_better: Otherwise the ratio is turned.
    """

    name: str
    title: str
    unit: str
    more_is_better: bool


@dataclass(frozen=True)
class Compared:
    """What came of one part of one row.

    Attributes:
        row: Its name.
        here: Of this tree, in each round that has both sides.
        there: Of the other.
    """

    row: str
    part: Part
    here: tuple[float, ...]
    there: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Of each round; more is better."""
        pairs = zip(self.here, self.there, strict=True)
        return [here / there if self.part.more_is_better else there / here for here, there in pairs]

    @property
    def ratio(self) -> float | None:
        """Their median."""
        return median(self.ratios) if self.here else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the median; None where there are too few rounds."""
        return interval(self.ratios) if len(self.here) >= least_count() else None

    @property
    def word(self) -> str:
        """The verdict."""
        if self.ratio is None or self.interval is None:
            return UNMEASURED
        if self.interval[1] < REACHES:
            return WORSE
        return NO_WORSE if self.ratio >= LEAST else UNCLEAR

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "row": self.row,
            "part": self.part.name,
            "unit": self.part.unit,
            "more_is_better": self.part.more_is_better,
            HERE: self.here,
            THERE: self.there,
            "ratios": self.ratios,
            "median": self.ratio,
            "interval": self.interval,
            "verdict": self.word,
        }


def compared(rows: Sequence[Row], samples: Samples) -> Iterator[Compared]:
    """Every part of every row that was measured on both sides at least once in the same round."""
    for row in rows:
        sides = [{each.round: each for each in samples.get((row.name, side), ())} for side in (HERE, THERE)]
        both = [(sides[0][number], sides[1][number]) for number in sorted(sides[0].keys() & sides[1].keys())]
        for part in _parts(row, [outcome for pair in both for outcome in pair]):
            found = [(part_of(here, part.name), part_of(there, part.name)) for here, there in both]
            pairs = [(here, there) for here, there in found if here and there]
            yield Compared(row.name, part, tuple(here for here, _ in pairs), tuple(there for _, there in pairs))


def _parts(row: Row, outcomes: Sequence[Outcome]) -> Iterator[Part]:
    """The figure itself, CPU for it, and memory: whatever of these the samples have."""
    if not outcomes:
        return
    yield Part("value", row.title, row.unit, row.unit == "/s")
    if all(outcome.cpu for outcome in outcomes):
        yield Part("cpu", "CPU", "s", more_is_better=False)
    for note in outcomes[0].notes:
        what, _, unit = note.rpartition("_")
        if unit == "MB" and all(outcome.notes.get(note) for outcome in outcomes):
            yield Part(note, f"memory, {what}", "MB", more_is_better=False)
