"""The bars in print: a line each, what was measured beside what was asked, peers of the same run in between."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from benchmarks.bars import NAMES, PEERS
from benchmarks.table import grid, shown
from benchmarks.verdicts import REACHED, UNMEASURED, Verdict

WIDTH = 118
_TITLES = {
    "work": "work, on Apache's broker",
    "servers": "the servers themselves",
    "itself": "without other servers",
    "store": "the store",
    "spark": "Spark",
}


def report(verdicts: Sequence[Verdict], units: dict[str, str]) -> str:
    """The tables of the bars, and how many are reached.

    Args:
        verdicts: Of one run.
        units: Of rows, by name.
    """
    blocks = [_table(table, [each for each in verdicts if each.bar.table == table], units) for table in _TITLES]
    return "\n\n".join([*filter(None, blocks), *_reasons(verdicts), *_first_looks(verdicts), _sum(verdicts)])


def _table(table: str, verdicts: Sequence[Verdict], units: dict[str, str]) -> str:
    if not verdicts:
        return ""
    peers = PEERS if table == "work" else ()
    divisor = "Apache's" if table == "servers" else "divided by"
    head = (_TITLES[table], divisor, *(NAMES[name] for name in peers), "ours", "judged", "bar", "", "")
    return grid(head, [_line(verdict, peers, units) for verdict in verdicts])


def _line(verdict: Verdict, peers: Sequence[str], units: dict[str, str]) -> tuple[str, ...]:
    bar, figure = verdict.bar, verdict.bar.figure
    unit = figure.unit or units.get(figure.row, "")
    over = "" if bar.over is None else bar.over.unit or units.get(bar.over.row, "")
    return (
        bar.title,
        "" if verdict.over is None else shown(verdict.over, over),
        *(_judged(verdict, verdict.peers.get(name), unit) for name in peers),
        "–" if verdict.figure is None else shown(verdict.figure, unit),
        _judged(verdict, verdict.judged, unit) if bar.over else "",
        f"{'>=' if bar.at_least else '<='} {_limit(verdict, unit)}",
        verdict.word,
        "" if verdict.note is None else f"{bar.note.rpartition('_')[0]} {verdict.note:.0f} %",
    )


def _judged(verdict: Verdict, value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return ratio(value, verdict.bar.limit) if verdict.bar.over else shown(value, unit)


def ratio(value: float, limit: float) -> str:
    """A ratio with as many digits as tell it from the bar."""
    texts = (f"{value:.{digits}f}" for digits in (2, 3, 4))
    return next((text for text in texts if value == limit or float(text) != limit), f"{value:g}")


def _limit(verdict: Verdict, unit: str) -> str:
    return f"{verdict.bar.limit:g}" if verdict.bar.over else shown(verdict.bar.limit, unit)


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Each reason once, with the lines that it keeps open."""
    lines: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.word == UNMEASURED:
            lines.setdefault(verdict.why, []).append(verdict.bar.title)
    for why, titles in lines.items():
        yield textwrap.fill(f"Unmeasured, because {why}: {'; '.join(titles)}.", WIDTH)


def _first_looks(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What is said of bars that ask for more rounds than there were."""
    early = [each for each in verdicts if each.judged is not None and each.rounds < each.bar.rounds]
    if early:
        most = max(each.bar.rounds for each in early)
        titles = "; ".join(each.bar.title for each in early)
        yield textwrap.fill(f"A first look and no verdict, because it takes {most} rounds: {titles}.", WIDTH)


def _sum(verdicts: Sequence[Verdict]) -> str:
    words = [verdict.word for verdict in verdicts]
    missed = len(words) - words.count(REACHED) - words.count(UNMEASURED)
    reached, open_ones = words.count(REACHED), words.count(UNMEASURED)
    return f"Of {len(words)} bars, {reached} reached, {missed} not reached, {open_ones} unmeasured."
