"""Prints the comparison: a line for each figure, then what was left out and what the columns mean."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.against.comparison import HERE, LEAST, NO_WORSE, REACHES, THERE, UNCLEAR, WORSE, Compared
from benchmarks.against.interval import LEVEL
from benchmarks.report import WIDTH
from benchmarks.table import grid, shown
from benchmarks.verdicts import UNMEASURED

if TYPE_CHECKING:
    from benchmarks.against.run import Comparison

ROUNDS = 9
"""Fewer rounds are a first look."""


def render(found: Comparison) -> str:
    """Return the table and the text below it."""
    figures = found.compared()
    head = ("", found.trees[THERE].title, found.trees[HERE].title, "ratio", f"{100 * LEVEL:.0f} % interval", "")
    blocks = [grid(head, [_line(each) for each in figures])] if figures else []
    return "\n\n".join([*blocks, *_reasons(found), *_explained(found, figures)])


def _line(each: Compared) -> tuple[str, ...]:
    part = each.part
    title = part.title if part.name == "value" else f"  {part.title}"
    middles = [shown(median(side), part.unit) if side else "–" for side in (each.there, each.here)]
    low, high = each.interval or (None, None)
    reach = "–" if low is None or high is None else f"{low:.3f} – {high:.3f}"
    return (title, *middles, "–" if each.ratio is None else f"{each.ratio:.3f}", reach, each.word)


def _reasons(found: Comparison) -> Iterator[str]:
    """Return each reason once, with the rows that it excludes."""
    rows: dict[str, list[str]] = {}
    for name, why in found.left_out.items():
        rows.setdefault(why, []).append(name)
    for why, names in rows.items():
        yield textwrap.fill(f"Left out, because {why}: {', '.join(names)}.", WIDTH)


def _explained(found: Comparison, figures: list[Compared]) -> Iterator[str]:
    text = (
        f"Medians of {found.rounds} interleaved rounds on {' and '.join(found.servers)}, {found.seconds:.0f} s in all. "
        "A ratio is taken in each round, this tree to the other, turned where less is better, so that more is better "
        "everywhere; shown is their median, with the interval that its order statistics give it. No worse: the "
        f"interval reaches {REACHES:g} and the median is at least {LEAST:g}; unclear: only the former. CPU is seconds "
        "for 100,000 messages, of the broker where servers are compared."
    )
    yield textwrap.fill(text, WIDTH)
    if found.rounds < ROUNDS:
        yield f"Fewer than {ROUNDS} rounds are a first look and no verdict."
    words = [each.word for each in figures]
    counts = [f"{count} {word}" for word in (NO_WORSE, WORSE, UNCLEAR, UNMEASURED) if (count := words.count(word))]
    yield f"Of {len(words)} figures, {', '.join(counts) or 'none was measured'}."
