"""rocketpy-store repair: a queue whose messages have all expired goes on where it was."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import open_store
from tests.broker_sim.store.test_counted_units import one_without_messages


@pytest.mark.parametrize("damaged", [False, True])
def test_a_queue_whose_messages_have_all_expired_goes_on_where_it_was(look, tmp_path, damaged):
    one_without_messages(RealStorage(tmp_path)).close()
    rows = [row for row in look.rows("commitlog", tmp_path) if row["kind"] == "message"]
    if damaged:
        with (tmp_path / "commitlog" / rows[5]["file"]).open("r+b") as file:
            file.seek(rows[5]["positionInFile"] + 100)
            file.write(b"\xff")
    other = tmp_path / "consumequeue" / "Old" / "1"  # of the same topic, with nothing in it
    other.mkdir()
    look("repair", tmp_path, "--rebuild")
    assert look.status == 0, look.err
    (folder,) = (tmp_path / "quarantine").iterdir()
    assert {path.name for path in (folder / "consumequeue").iterdir()} == {"Old", "Orders"}
    assert not other.exists()
    look("check", tmp_path)
    assert look.status == 0, look.out
    again = open_store(RealStorage(tmp_path))
    assert again.reads.min_offset("Old", 0) == again.reads.max_offset("Old", 0) == 30
    assert again.reads.max_offset("Orders", 0) == 200
    assert again.reads.min_offset("Orders", 0) == 200 - len(rows)
    assert again.was_unclean is False
    again.close()


@pytest.mark.parametrize("step", range(3))
def test_a_repair_that_ends_while_it_moves_queues_is_completed_by_the_next_start(look, tmp_path, monkeypatch, step):
    store = one_without_messages(RealStorage(tmp_path))
    begin = store.reads.min_offset("Orders", 0)
    store.close()
    moved: list[str] = []
    real = RealStorage.rename

    def rename(self: RealStorage, source: str, target: str) -> None:
        if target.startswith("quarantine") and not source.startswith("quarantine"):
            if len(moved) == step:
                raise OSError(5, "Input/output error")
            moved.append(source)
        real(self, source, target)

    monkeypatch.setattr(RealStorage, "rename", rename)
    look("repair", tmp_path, "--rebuild")
    assert (look.status == 0) == (step == 2)
    monkeypatch.undo()
    assert moved == ["checkpoint", "consumequeue/Orders"][:step]
    again = open_store(RealStorage(tmp_path))
    assert again.reads.max_offset("Old", 0) == 30
    assert again.reads.max_offset("Orders", 0) == 200
    assert again.reads.min_offset("Orders", 0) == begin
    again.close()
