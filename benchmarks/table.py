"""The tables: medians with their spread, beside the raw loop of the same run and the same servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bars import ALONE, APACHE, NAMES, OURS

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.rounds import Results
    from benchmarks.task import Outcome

ROUNDS = 3
_CLIENT_HEAD = ("", "median", "min – max", "of raw", "client CPU", "broker CPU", "")


def render(results: Results) -> str:
    """All tables of a run."""
    blocks = [block for make in results.makes for block in _clients(results, make.name, make.title)]
    blocks += [*_servers(results), *_starts(results), *_store(results), *_spark(results)]
    for name, reason in results.missing.items():
        blocks.append(f"{NAMES.get(name, name)}: not measured, because {reason}")
    names = {make.name for make in results.makes} | {ALONE}
    most = max((len(outcomes) for (_, make), outcomes in results.samples.items() if make in names), default=0)
    blocks.append(
        f"Medians of {most} interleaved rounds, {results.seconds:.0f} s in all. 'of raw' is the share of the raw "
        "loop's median on the same servers;\nCPU is seconds for 100,000 messages."
        + ("" if most >= ROUNDS else f" Fewer than {ROUNDS} rounds are a first look, no measurement.")
    )
    return "\n\n".join(blocks)


def _clients(results: Results, make: str, title: str) -> Iterator[str]:
    rows = [row for row in results.rows if row.kind == "client" and (row.name, make) in results.samples]
    if rows:
        yield grid((title, *_CLIENT_HEAD[1:]), [_client_line(results, row, make) for row in rows])


def _client_line(results: Results, row: Row, make: str) -> tuple[str, ...]:
    outcomes = results.samples[row.name, make]
    return (
        row.title,
        shown(_middle(outcomes), row.unit),
        _spread(outcomes, row.unit),
        _of_floor(results, row, make),
        _cpu([outcome.cpu for outcome in outcomes]),
        _cpu([outcome.server_cpu for outcome in outcomes]),
        _notes(outcomes),
    )


def _servers(results: Results) -> Iterator[str]:
    """Servers beside each other: their own rows, and what the raw loops say of them."""
    rows = [
        row for row in results.rows if row.kind == "server" or (row.kind == "client" and row.name.startswith("raw"))
    ]
    makes = results.makes
    lines = []
    for row in rows:
        found = [results.samples.get((row.name, make.name)) for make in makes]
        if any(found):
            cells = [_cell(outcomes, row.unit) for outcomes in found]
            lines.append((row.title, *cells, *_beside(found)))
    if lines:
        head = (
            "the servers themselves",
            *(make.title for make in makes),
            *(["ours to theirs"] if len(makes) > 1 else []),
        )
        yield grid(head, lines)


def _cell(outcomes: Sequence[Outcome] | None, unit: str) -> str:
    return f"{shown(_middle(outcomes), unit)} ({_spread(outcomes, unit)})" if outcomes else "–"


def _beside(found: Sequence[Sequence[Outcome] | None]) -> Iterator[str]:
    if len(found) > 1:
        ours, theirs = found[:2]
        yield f"{_middle(ours) / _middle(theirs):.2f}" if ours and theirs and _middle(theirs) else "–"


def _starts(results: Results) -> Iterator[str]:
    rows = [row for row in results.rows if row.kind == "start" and (row.name, ALONE) in results.samples]
    lines = []
    for row in rows:
        outcomes = results.samples[row.name, ALONE]
        lines.append(
            (row.title, shown(_middle(outcomes), row.unit), _spread(outcomes, row.unit), _of_floor(results, row, ALONE))
        )
    if lines:
        yield grid(("starting, and all in one process", "median", "min – max", "of floor"), lines)


def _store(results: Results) -> Iterator[str]:
    """The store: ours and Apache's side by side, with what is wished for and what the samples note."""
    lines = []
    for row in (row for row in results.rows if row.kind == "store"):
        own = results.samples.get((row.name, ALONE)) or results.samples.get((row.name, OURS))
        theirs = results.samples.get((row.name, APACHE))
        if own or theirs:
            goal = "" if row.goal is None else shown(row.goal, row.unit)
            floor = _of_floor(results, row, ALONE) or _of_floor(results, row, OURS)
            cpu = [_cpu([outcome.cpu for outcome in own or ()]), _cpu([outcome.server_cpu for outcome in own or ()])]
            notes = _notes(own) if own else ""
            lines.append((row.title, _cell(own, row.unit), goal, floor, _cell(theirs, row.unit), *cpu, notes))
    if lines:
        yield grid(("the store", "ours", "wished", "of floor", "Apache's", "CPU", "broker CPU", ""), lines)


def _spark(results: Results) -> Iterator[str]:
    """Loops over rows of Spark, with the CPU and the memory of each kind of process."""
    lines = []
    for row in (row for row in results.rows if row.kind == "spark"):
        outcomes = results.samples.get((row.name, OURS))
        if outcomes:
            cpu = [[outcome.cpu for outcome in outcomes], [outcome.server_cpu for outcome in outcomes]]
            cpu.append([outcome.notes.get("JVM_cpu") for outcome in outcomes])
            memory = [_note(outcomes, f"{role}_MB", "MB") for role in ("JVM", "workers")]
            figures = shown(_middle(outcomes), row.unit), _spread(outcomes, row.unit), _of_floor(results, row, OURS)
            lines.append((row.title, *figures, *map(_cpu, cpu), *memory))
    if lines:
        titles = ("median", "min – max", "of it", "worker CPU", "broker CPU", "JVM CPU", "JVM", "workers")
        yield grid(("Spark, local[2]", *titles), lines)


# --- cells -----------------------------------------------------------------------------------------------


def _middle(outcomes: Sequence[Outcome]) -> float:
    return median(outcome.value for outcome in outcomes)


def _spread(outcomes: Sequence[Outcome], unit: str) -> str:
    values = [outcome.value for outcome in outcomes]
    return f"{_number(min(values), unit)} – {_number(max(values), unit)}"


def _of_floor(results: Results, row: Row, make: str) -> str:
    own, floor = (results.samples.get((name, make)) for name in (row.name, row.floor or ""))
    return f"{_middle(own) / _middle(floor):.2f}" if own and floor and _middle(floor) else ""


def _cpu(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}" if known else ""


def _notes(outcomes: Sequence[Outcome]) -> str:
    names = outcomes[0].notes
    parts = []
    for name in names:
        what, _, unit = name.rpartition("_")
        value = median(outcome.notes[name] for outcome in outcomes if name in outcome.notes)
        number = _number(value, unit) if unit == "times" else f"{value:,.0f}"
        parts.append(f"{what} {number} {({'us': 'µs', 'percent': '%'}).get(unit, unit)}")
    return ", ".join(parts)


def _note(outcomes: Sequence[Outcome], name: str, unit: str) -> str:
    known = [outcome.notes[name] for outcome in outcomes if name in outcome.notes]
    return shown(median(known), unit) if known else ""


def _number(value: float, unit: str) -> str:
    return f"{value:,.0f}" if unit == "/s" or value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def shown(value: float, unit: str) -> str:
    """A figure with its unit."""
    return _number(value, unit) + ("" if unit == "/s" else " ") + unit


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, figures to the right."""
    table = [tuple(head), *map(tuple, lines)]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]

    def text(line: Sequence[str]) -> str:
        first, *others = line
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        return "  ".join([first.ljust(widths[0]), *cells]).rstrip()

    return "\n".join([text(table[0]), "-" * len(text(table[0])), *map(text, table[1:])])
