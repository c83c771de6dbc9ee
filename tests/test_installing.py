"""What fetches packages is run again when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.installing import TRIES, fetching

SCRIPT = """
echo "$PIP_DEFAULT_TIMEOUT" >> noted
[ $(wc -l < noted) -ge "$0" ] || { echo "Read timed out" >&2; exit 1; }
"""
"""Succeeds at the try whose number it is given."""


@pytest.mark.parametrize("good", [1, TRIES])
def test_a_command_is_run_until_it_succeeds(tmp_path: Path, good: int) -> None:
    fetching("sh", "-c", SCRIPT, str(good), cwd=tmp_path)
    assert (tmp_path / "noted").read_text("utf-8") == "30\n" * good


def test_a_command_that_always_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Read timed out"):
        fetching("sh", "-c", SCRIPT, str(TRIES + 1), cwd=tmp_path)
    assert (tmp_path / "noted").read_text("utf-8") == "30\n" * TRIES
