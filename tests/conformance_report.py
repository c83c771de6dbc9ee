"""Counts which of the claimed behaviours have a test: `python -m tests.conformance_report`.

The claims stand in tests/golden/conformance_rows.tsv. A test covers a row by bearing its id in its name, right
after `test_`: `test_ST4_...`, `test_threat_F6_...`, or several: `test_RB2_RB3_...`. Names are read from the
source, so nothing has to run; that nothing is skipped is watched elsewhere (tests/conftest.py).
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
ROWS = TESTS / "golden" / "conformance_rows.tsv"


class Row(NamedTuple):
    """One claimed behaviour; priority 0 is a must, `threat` is bad input to survive."""

    id: str
    priority: str
    behaviour: str


def claimed_rows() -> list[Row]:
    """Return the behaviours this project claims."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return [Row(**fields) for fields in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def ids_in(test: str) -> Iterator[str]:
    """Yield the row ids in the name of a test."""
    rest = test.removeprefix("test_")
    kind = "threat_" if rest.startswith("threat_") else ""
    for word in rest.removeprefix("threat_").split("_"):
        if not re.fullmatch(r"[A-Z]+\d+", word):
            return
        yield kind + word


def covered_ids() -> set[str]:
    """Return every row id that is in the name of a test."""
    names = {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    return {row for test in names for row in ids_in(test)}


def report() -> tuple[str, list[Row]]:
    """Return the summary (covered of claimed, by priority) and the rows that no test covers."""
    rows, covered = claimed_rows(), covered_ids()
    missing = [row for row in rows if row.id not in covered]
    parts = []
    for priority in sorted({row.priority for row in rows}):
        claimed = [row for row in rows if row.priority == priority]
        have = sum(row.id in covered for row in claimed)
        parts.append(f"{'threats' if priority == 'threat' else 'priority ' + priority} {have} of {len(claimed)}")
    return f"behaviours with a test: {', '.join(parts)}", missing


def main() -> int:
    summary, missing = report()
    print(summary)
    for row in missing:
        print(f"  {row.id:<11} {row.behaviour}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
