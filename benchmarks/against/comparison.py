"""Whether a figure is worse than another commit's: the ratio of each round, their median, its interval, the verdict."""

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
"""The interval of a row must reach this ratio for the verdict *no worse*..."""
LEAST = 0.95
"""...and the median must be at least this."""
NO_WORSE, WORSE, UNCLEAR = "no worse", "worse", "unclear"
"""The verdict *unclear* means that the median is low, but noise alone may be the reason."""

Samples = Mapping[tuple[str, str], Sequence["Outcome"]]
"""Samples by row and side."""


@dataclass(frozen=True)
class Part:
    """One number of the samples of a row that is compared.

    Attributes:
        name: The name that `part_of` takes.
        title: Its name in tables.
        unit: The unit of the number.
        more_is_better: If false, the ratio is inverted.
    """

    name: str
    title: str
    unit: str
    more_is_better: bool


@dataclass(frozen=True)
class Compared:
    """The results of one part of one row.

    Attributes:
        row: The name of the row.
        here: The numbers of this tree, one for each round in which both sides were measured.
        there: The numbers of the other tree.
    """

    row: str
    part: Part
    here: tuple[float, ...]
    there: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round, this tree to the other; more is better."""
        pairs = zip(self.here, self.there, strict=True)
        return [here / there if self.part.more_is_better else there / here for here, there in pairs]

    @property
    def ratio(self) -> float | None:
        """The median of the ratios."""
        return median(self.ratios) if self.here else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the median; None if there are too few rounds."""
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
        """Return the results as plain values, for JSON."""
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
    """Return every part of every row that was measured on both sides in at least one round."""
    for row in rows:
        sides = [{each.round: each for each in samples.get((row.name, side), ())} for side in (HERE, THERE)]
        both = [(sides[0][number], sides[1][number]) for number in sorted(sides[0].keys() & sides[1].keys())]
        for part in _parts(row, [outcome for pair in both for outcome in pair]):
            found = [(part_of(here, part.name), part_of(there, part.name)) for here, there in both]
            pairs = [(here, there) for here, there in found if here and there]
            yield Compared(row.name, part, tuple(here for here, _ in pairs), tuple(there for _, there in pairs))


def _parts(row: Row, outcomes: Sequence[Outcome]) -> Iterator[Part]:
    """Return the parts that the samples have: the figure itself, CPU time, and memory."""
    if not outcomes:
        return
    yield Part("value", row.title, row.unit, row.unit == "/s")
    if all(outcome.cpu for outcome in outcomes):
        yield Part("cpu", "CPU", "s", more_is_better=False)
    for note in outcomes[0].notes:
        what, _, unit = note.rpartition("_")
        if unit == "MB" and all(outcome.notes.get(note) for outcome in outcomes):
            yield Part(note, f"memory, {what}", "MB", more_is_better=False)
