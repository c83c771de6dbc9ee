"""The page that compares clients claims nothing for this one that no test proves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.pages import DOCS, extension
from tests.rules import listed

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = extension("comparison_table")
CELL = re.compile(r"(yes|no|partly)\b.*|–")


def is_there(test: str) -> bool:
    """Whether a test of this id exists: "tests/folder/test_file.py::test_name"."""
    file, _, name = test.partition("::")
    path = ROOT / file
    if not (file.startswith("tests/") and path.is_file() and name.startswith("test_")):
        return False
    return re.search(rf"^(async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE) is not None


def wrong(rows: Iterable[dict[str, str]]) -> Iterator[str]:
    features = set()
    for row in rows:
        if row["test"] != EXTENSION.NONE and not is_there(row["test"]):
            yield f"{row['feature']}: there is no test {row['test']}"
        if row["feature"] in features:
            yield f"{row['feature']}: stands twice"
        features.add(row["feature"])
        for client in ("java", "cpp"):
            if not CELL.fullmatch(row[client]):
                yield f"{row['feature']}: {row[client]!r} of {client} is neither yes, no nor partly"


def test_every_feature_is_proven_by_a_test() -> None:
    rows = EXTENSION.rows()
    assert len(rows) > 50
    listed(wrong(rows), "correct docs/comparison.tsv")


def test_what_is_wrong_with_a_row_is_found() -> None:
    row = {"feature": "one", "test": EXTENSION.rows()[0]["test"], "java": "yes", "cpp": "no: not at all"}
    assert list(wrong([row])) == []
    tests = ["tests/test_logs.py::test_nothing", "tests/none.py::test_a", "docs/conf.py::test_a", "yes"]
    assert list(wrong(row | {"feature": test, "test": test} for test in tests)) == [
        f"{test}: there is no test {test}" for test in tests
    ]
    assert list(wrong([row, row | {"java": "perhaps"}])) == [
        "one: stands twice",
        "one: 'perhaps' of java is neither yes, no nor partly",
    ]


def test_the_table_takes_the_place_of_its_marker() -> None:
    source = [(DOCS / "comparison.md").read_text("utf-8")]
    EXTENSION.fill_page(None, "comparison", source)
    assert EXTENSION.MARKER not in source[0]
    rows = [line for line in source[0].splitlines() if line.startswith("| ")]
    assert len(rows) == len(EXTENSION.rows()) + 1
    assert {line.count(" | ") for line in rows} == {4}
    assert "| TLS | no | yes | no |  |" in rows
    other = [EXTENSION.MARKER]
    EXTENSION.fill_page(None, "index", other)
    assert other == [EXTENSION.MARKER]
