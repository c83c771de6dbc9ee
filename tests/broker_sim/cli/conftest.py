"""A place of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker_sim.cli.servers import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
