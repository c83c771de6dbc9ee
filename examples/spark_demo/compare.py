"""Both totals side by side, the largest groups first."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from examples.quickstart.screen import table

if TYPE_CHECKING:
    from examples.spark_demo.source import Totals

MOST_LINES = 20
WIDEST = 40
"""Characters of a name that are shown: a file that is no CSV has names of any length."""


def show(group: str, values: Sequence[str], spark: Totals, messages: Totals) -> None:
    """Print a table with two columns for each figure: by Spark, and from the messages."""
    figures = ("rows", *values)
    titles = [_text(group), *(_text(title) for figure in figures for title in (figure, "by messages"))]
    groups = sorted(spark.keys() | messages.keys(), key=lambda name: (-rows_of(spark.get(name)), str(name)))
    lines = []
    for name in groups[:MOST_LINES]:
        both = (_cells(totals.get(name), len(figures)) for totals in (spark, messages))
        lines.append([_text(name), *(cell for pair in zip(*both, strict=True) for cell in pair)])
    table(titles, lines)
    if len(groups) > MOST_LINES:
        print(f"and {len(groups) - MOST_LINES:,} more")


def verdict(group: str, spark: Totals, messages: Totals) -> tuple[bool, str]:
    """Whether both are equal, and a line that says so."""
    equal = spark == messages
    said = "totals from the messages equal Spark's" if equal else "TOTALS FROM THE MESSAGES DIFFER FROM SPARK'S"
    rows, sent = (sum(map(rows_of, totals.values())) for totals in (messages, spark))
    return equal, f"{said}: {rows:,} of {sent:,} rows, {len(spark):,} groups by {_text(group)}"


def rows_of(figures: tuple[Any, ...] | None) -> int:
    """The number of rows of a group; 0 if it is missing."""
    return int(figures[0]) if figures else 0


def _cells(figures: tuple[Any, ...] | None, count: int) -> list[str]:
    return ["missing"] * count if figures is None else [_number(figure) for figure in figures]


def _number(figure: Decimal | int | None) -> str:
    if figure is None:
        return "-"
    text = f"{figure:,f}" if isinstance(figure, Decimal) else f"{figure:,}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _text(name: object) -> str:
    if name is None:
        return "(none)"
    text = "".join(c if c.isprintable() else " " for c in str(name))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
