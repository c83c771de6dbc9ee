"""One pair of servers for all attacks; one that an attack has spoilt is started again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.hostile import small_disk
from tests.hostile.measure import FarOverError, LittleOverError, measure_again
from tests.hostile.report import Given, Report
from tests.hostile.world import ROLES, SHOWS_METRICS, World, running

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out under CI, which allows no skips, what needs a mount that the machine lets nobody make.

    On a machine of a contributor it is skipped, with the reason. The limits of `test_faults_of_machines` need no rights
    and stand in for it.
    """
    needing = [item for item in items if item.get_closest_marker("small_disk")]
    if needing and os.environ.get("CI") and small_disk.why_not():
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if sys.platform != "linux":
        pytest.skip("memory and turns of the servers are read from /proc, which only Linux has")
    with running(tmp_path_factory.mktemp("hostile"), dict.fromkeys(ROLES, SHOWS_METRICS)) as made:
        yield made


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Iterator[Report]:
    """What all tests of a session find; written beside the pages that are built when it is whole.

    A program that runs the tests may hand in a report of its own, and writes it itself.
    """
    given = Given.of(pytestconfig)
    made = Report() if given is None else given
    yield made
    if given is None and made.is_whole:
        made.named.clear()  # only some of them are measured in this process
        made.write(ROOT / "docs" / "_build" / "hostile-peers.md")


@pytest.fixture
def fresh(world: World) -> World:
    """Servers that nobody has attacked yet."""
    world.restart()
    return world


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[object]:
    """Measure again what took too long, on servers that have just been started."""
    try:
        return (yield)
    except (LittleOverError, FarOverError) as exc:
        fresh = pyfuncitem.funcargs.get("fresh", pyfuncitem.funcargs.get("world"))
        if not isinstance(fresh, World):
            raise
        first = exc
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    measure_again(partial(pyfuncitem.obj, **arguments), fresh.restart, first)
    return True
