"""Runs the examples of README.md as they stand there, against a cluster of our own. test_wheel.py has the wheel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.readme import EXAMPLES, ROOT, run_example


def test_the_readme_shows_every_surface_and_the_cluster() -> None:
    together = "\n".join(EXAMPLES)
    assert "trio.run" in together
    assert "rocketpy.aio" in together
    assert "rocketpy.sync" in together
    assert "LocalCluster" in together


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int, tmp_path: Path) -> None:
    run_example(number, sys.executable, tmp_path, {"PYTHONPATH": str(ROOT)})
