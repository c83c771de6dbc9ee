"""Writes the table of features beside those of other clients from docs/comparison.tsv, whenever the pages are built.

The page holds a marker; the table takes its place before the page is read. A row of the file names the test that proves
the feature here; one without a test says that the feature is not there.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

PAGE = "comparison"
MARKER = "<!-- the table of features is put here -->"
ROWS = Path(__file__).resolve().parents[1] / "comparison.tsv"
NONE = "–"
"""What stands where there is no test, or where the question makes no sense."""


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}


def fill_page(_app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = source[0].replace(MARKER, table())


def rows() -> list[dict[str, str]]:
    with ROWS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def table() -> str:
    lines = ["| feature | rocketpy | Java | C++ binding | proven by |", "|---|---|---|---|---|"]
    for row in rows():
        ours, test = ("no", "") if row["test"] == NONE else ("yes", proof(row["test"]))
        lines.append(f"| {row['feature']} | {ours} | {row['java']} | {row['cpp']} | {test} |")
    return "\n".join(lines)


def proof(test: str) -> str:
    """The file and the name of a test, apart, so that they can be set on two lines."""
    file, _, name = test.partition("::")
    return f"`{file}` `{name}`"
