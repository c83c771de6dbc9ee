"""Delays computed from the CSV file, from the second topic, and from Parquet, compared row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from examples.quickstart.screen import table

Place = tuple[str, int]
"""A carrier, and an hour as seconds since 1970."""


class Figures(NamedTuple):
    """What is known about a carrier in an hour."""

    flights: int
    departed: int
    mean_delay: float | None
    max_delay: int | None


class Delays:
    """Rows of delays.

    Args:
        rows: carrier, hour in seconds since 1970, and the figures.
        at_least_once: whether rows may occur twice, as in the second topic. They count once.
    """

    def __init__(self, rows: Iterable[Sequence[object]], *, at_least_once: bool = False) -> None:
        self.rows: dict[Place, Figures] = {}
        self.again = 0
        self.doubled = 0
        """Rows that occur again although they must not, or with other figures."""
        for carrier, hour, *figures in rows:
            row = Figures(*figures)  # type: ignore[arg-type]  # as the query that made them says
            known = self.rows.setdefault((carrier, hour), row)  # type: ignore[arg-type]
            self.again += known is not row
            self.doubled += known != row or (known is not row and not at_least_once)

    @property
    def flights(self) -> int:
        """How many flights there are in all."""
        return sum(row.flights for row in self.rows.values())

    def equals(self, other: Delays) -> bool:
        """Whether both have the same rows, and neither has forbidden duplicates."""
        return self.rows == other.rows and not self.doubled and not other.doubled

    def by_carrier(self) -> dict[str, tuple[int, int, int | None]]:
        """For each carrier: flights, minutes of delay, and the longest delay."""
        totals: dict[str, tuple[int, int, int | None]] = {}
        for (carrier, _), row in self.rows.items():
            flights, minutes, longest = totals.get(carrier, (0, 0, None))
            delays = [delay for delay in (longest, row.max_delay) if delay is not None]
            minutes += round((row.mean_delay or 0) * row.departed)
            totals[carrier] = (flights + row.flights, minutes, max(delays, default=None))
        return totals


def show(csv: Delays, others: Mapping[str, Delays]) -> None:
    """Print the totals of each carrier, side by side."""
    sides = [csv.by_carrier(), *(other.by_carrier() for other in others.values())]
    titles = ["carrier"]
    for figure in ("flights", "minutes late", "longest"):
        titles += [figure, *(f"by {name}" for name in others)]
    carriers = sorted(set().union(*sides), key=lambda carrier: (-sides[0].get(carrier, (0,))[0], carrier))
    lines = []
    for carrier in carriers:
        totals = [side.get(carrier) for side in sides]
        figures = (total[place] if total else "missing" for place in range(3) for total in totals)
        lines.append([carrier, *map(_text, figures)])
    table(titles, lines)


def verdict(csv: Delays, others: Mapping[str, Delays], too_late: int) -> tuple[bool, str]:
    """Whether all are equal, and a line that says so."""
    names = " and from ".join(others)
    size = f"{csv.flights:,} flights, {len(csv.rows):,} hours of {len(csv.by_carrier())} carriers"
    late = f"{too_late:,} rows came too late"
    if all(csv.equals(other) for other in others.values()) and not too_late:
        return True, f"totals from {names} equal those of the CSV file: {size}; {late}"
    found = (f"from {name} {_differences(csv, other)}" for name, other in others.items())
    return False, f"TOTALS DIFFER FROM THOSE OF THE CSV FILE ({size}): {', '.join(found)}; {late}"


def _differences(csv: Delays, other: Delays) -> str:
    if csv.equals(other):
        return "the same"
    differ = sum(csv.rows.get(place) != other.rows.get(place) for place in csv.rows.keys() | other.rows.keys())
    more = f", duplicate rows: {other.doubled:,}" if other.doubled else ""
    return f"{other.flights:,} flights, hours that differ: {differ:,}{more}"


def _text(figure: int | str | None) -> str:
    return "-" if figure is None else f"{figure:,}" if isinstance(figure, int) else figure
