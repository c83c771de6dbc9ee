"""A task of several parts ends with what became of them all."""

from __future__ import annotations

import pytest

from tools.verdict import verdict


@pytest.mark.parametrize(
    ("parts", "status", "line"),
    [
        ({"one": 0, "two": 0}, 0, "test: all passed"),
        ({"one": 0, "two": 3, "three": 1}, 3, "test: FAILED: two, three"),
        ({"all of it": -9}, -9, "test: FAILED"),
    ],
)
def test_the_parts_that_failed_are_named(
    capsys: pytest.CaptureFixture[str], parts: dict[str, int], status: int, line: str
) -> None:
    assert verdict("test", parts) == status
    assert capsys.readouterr().out == f"{line}\n"
