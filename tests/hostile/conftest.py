"""One pair of servers for all attacks; one that an attack has spoilt is started again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.report import Report
from tests.hostile.world import World, running

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if sys.platform != "linux":
        pytest.skip("memory and turns of the servers are read from /proc, which only Linux has")
    with running(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(scope="session")
def report() -> Iterator[Report]:
    """What all tests of a session find; written beside the pages that are built when it is whole."""
    made = Report()
    yield made
    if made.is_whole:
        made.write(ROOT / "docs" / "_build" / "hostile-peers.md")


@pytest.fixture
def fresh(world: World) -> World:
    """Servers that nobody has attacked yet."""
    world.restart()
    return world
