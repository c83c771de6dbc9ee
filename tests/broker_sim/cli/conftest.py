"""A place of its own for every test, and what commands that look at stores print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker_sim.cli.servers import Place
from tests.broker_sim.cli.store_kit import Look


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str]) -> Look:
    return Look(capsys)
