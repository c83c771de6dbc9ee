"""rocketpy-store repair: the copy of what is damaged outlives a power loss before anything is written over it."""

from __future__ import annotations

import os

import pytest

from rocketpy_broker_sim.store.disk import platforms
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.cli.store_kit import Look, fill, ours
from tests.broker_sim.cli.test_store_repair import messages, overwrite


@pytest.mark.parametrize("lost", [[7], [7, 59]])
def test_the_folders_of_the_copies_have_reached_the_disk_before_the_log_is_changed(capsys, tmp_path, monkeypatch, lost):
    look, root = Look(capsys), tmp_path / "s"
    opened = ours(root)
    fill(opened)
    opened.close()
    rows = messages(look, root)
    for number in lost:
        overwrite(root, rows[number], 100, b"\xff")
    synced: dict[str, set[str]] = {}
    unsynced: list[set[str]] = []
    sync_folder, open_file = platforms.sync_folder, RealStorage.open

    def note_sync(folder) -> None:
        sync_folder(folder)
        synced[str(folder)] = set(os.listdir(folder))

    def note_open(self: RealStorage, path: str, *, create: bool = False):
        if create and path.startswith("commitlog/"):
            found = {str(entry) for entry in root.rglob("*") if "quarantine" in entry.parts}
            known = {f"{folder}/{name}" for folder, names in synced.items() for name in names}
            unsynced.append(found - known)
        return open_file(self, path, create=create)

    monkeypatch.setattr(platforms, "sync_folder", note_sync)
    monkeypatch.setattr(RealStorage, "open", note_open)
    look("repair", root)
    assert look.status == 0, look.err
    assert len(list(root.glob("quarantine/*/commitlog/*.bin"))) == len(lost)
    assert unsynced[0] == set()
