"""rocketpy-store repair: lost messages of which no unit tells where they stood keep the order of their queue."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker_sim.cli.store_kit import Look, fill, ours
from tests.broker_sim.cli.test_store_repair import messages, overwrite, repaired

UNIT_SIZE = 20


@pytest.fixture
def store(tmp_path) -> Path:
    """A store of ours whose second and third log file hold only a part of the messages of each queue."""
    opened = ours(tmp_path / "s")
    fill(opened, 15, topic="Before")
    fill(opened)
    opened.close()
    (tmp_path / "b.conf").write_text("mappedFileSizeCommitLog=4096\nmappedFileSizeConsumeQueue=200\n")
    return tmp_path / "s"


def orders(look: Look, store: Path) -> list[dict]:
    return [row for row in messages(look, store) if row["topic"] == "Orders"]


def take_units(store: Path, kept: str) -> None:
    """Take the units of all queues away: each, or all but every third one."""
    if kept == "none":
        shutil.rmtree(store / "consumequeue")
        return
    for path in sorted((store / "consumequeue").glob("*/*/*")):
        with path.open("r+b") as file:
            for at in range(0, path.stat().st_size, UNIT_SIZE):
                if at // UNIT_SIZE % 3:
                    file.seek(at)
                    file.write(bytes(UNIT_SIZE))


@pytest.mark.parametrize("kept", ["none", "some"])
def test_messages_of_two_missing_files(look, store, kept):
    files = sorted((store / "commitlog").iterdir())[1:3]
    names = {path.name for path in files}
    lost = [number for number, row in enumerate(orders(look, store)) if row["file"] in names]
    for path in files:
        path.unlink()
    take_units(store, kept)
    repaired(look, store, lost, "-c", store.parent / "b.conf")


def test_a_small_region_takes_no_more_than_it_has_room_for(look, store):
    rows = orders(look, store)
    first, second = sorted((store / "commitlog").iterdir())[:2]
    lost = [number for number, row in enumerate(rows) if row["file"] == second.name]
    lost.insert(0, lost[0] - 1)
    assert rows[lost[0]]["file"] == first.name
    overwrite(store, rows[lost[0]], 100, b"\xff")
    second.unlink()
    take_units(store, "none")
    repaired(look, store, lost, "-c", store.parent / "b.conf")
