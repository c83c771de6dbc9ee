"""The order in which the tests of a line run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.interop.apache import LINES
from tests.interop.late_starters import APART, HERE, late_starters_last

NEWER, OLDER = LINES


def item(nodeid: str, line: str | None = None, *fixtures: str, **params: object) -> Any:
    found = SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)
    if line is not None:
        found.callspec = SimpleNamespace(params={"apache": line, **params})
    return found


def test_files_come_in_the_order_in_which_their_servers_have_to_start() -> None:
    mixed = item(f"{HERE}test_a.py::mixed", NEWER, "mixed")
    beside_it = item(f"{HERE}test_a.py::other", NEWER)
    shared = item(f"{HERE}test_b.py::shared", NEWER, "apache_cluster")
    by_parameter = item(f"{HERE}test_c.py::by_parameter", NEWER, broker="python by apache")
    by_words = item(f"{HERE}test_c.py::by_words", NEWER, broker="Apache's broker")
    none = item(f"{HERE}test_d.py::none", NEWER, "our_servers", broker="our_servers")
    assert late_starters_last([mixed, shared, beside_it, by_parameter, by_words, none]) == [
        none,
        shared,
        by_parameter,
        by_words,
        mixed,
        beside_it,
    ]


def test_lines_stay_apart_and_a_test_without_one_beside_those_of_its_file() -> None:
    older = item(f"{HERE}test_a.py::older", OLDER)
    newer = item(f"{HERE}test_b.py::newer", NEWER, "apache_cluster")
    alone = item(f"{HERE}test_c.py::alone")
    begins = item(f"{HERE}test_b.py::begins")
    last = item(f"{HERE}test_d.py::last", NEWER, "apache_cluster")
    assert late_starters_last([alone, older, newer, last, begins]) == [newer, begins, last, older, alone]


def test_other_folders_stay_where_they_are() -> None:
    other, stores = item("tests/wire/test_a.py::x"), item(f"{APART}test_a.py::x", OLDER)
    older, newer = item(f"{HERE}test_a.py::x", OLDER), item(f"{HERE}test_a.py::y", NEWER)
    assert late_starters_last([older, other, newer, stores]) == [newer, other, older, stores]
