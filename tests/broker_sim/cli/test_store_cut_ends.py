"""rocketpy-store check and repair: what stands behind a hole at which the next start cuts the log is no part of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rocketpy.seams import wall_clock
from tests.broker_sim.cli.store_kit import ours
from tests.broker_sim.store.helpers import message, put_all

LOG = f"commitlog/{0:020d}"
INDEX = {"max_hash_slot_num": 10, "max_index_num": 40}


def put(root: Path, *bodies: bytes, crash: bool = False) -> list[int]:
    """Put messages into one queue and stop; where the log ends behind each."""
    store = ours(root, **INDEX)
    results = put_all(store, [message(body, properties="KEYS\x01k\x02") for body in bodies])
    if crash:
        store.abandon()
    else:
        store.close()
    return [result.physical_offset + result.size for result in results]


def offsets(root: Path) -> tuple[int, int]:
    """The first and the next offset of the queue as a broker opens the store."""
    store = ours(root, **INDEX)
    found = store.reads.min_offset("Orders", 0), store.reads.max_offset("Orders", 0)
    store.close()
    return found


def test_a_power_loss_that_kept_a_part_of_what_was_not_flushed_is_no_damage(look, tmp_path):
    root = tmp_path / "s"
    put(root, *[b"%d" % n * 100 for n in range(4)])
    ends = put(root, *[b"%d" % n * 100 for n in range(4, 10)], crash=True)
    with (root / LOG).open("r+b") as file:
        file.seek(ends[0])
        file.write(bytes(ends[1] - ends[0]))
    *findings, summary = look.rows("check", root)
    assert look.status == 0, look.out
    assert {row["kind"] for row in findings} == {"recovered"}
    assert summary["messages"] == 5
    look("repair", root)
    assert look.status == 0
    assert "nothing is damaged" in look.out + look.err
    assert offsets(root) == (0, 5)
    look("check", root)
    assert look.status == 0, look.out


def test_what_another_broker_cut_off_stays_cut_off(look, tmp_path):
    """Apache's broker writes its next messages over what it cut off, and makes nothing zero."""
    old, root = tmp_path / "old", tmp_path / "s"
    with wall_clock(lambda: 1_000_000):
        put(old, *[b"%d" % n * 100 for n in range(10)])
        put(root, *[b"%d" % n * 100 for n in range(4)])
    with wall_clock(lambda: 1_000_500):  # after a crash and another start
        (end,) = put(root, b"new" * 50)
    log = (root / LOG).read_bytes()[:end] + (old / LOG).read_bytes()[end:]
    (root / LOG).write_bytes(log)
    os.truncate(root / "checkpoint", 40)
    *findings, summary = look.rows("check", root)
    assert look.status == 0, look.out
    assert {row["kind"] for row in findings} == {"recovered"}
    assert summary["messages"] == 5
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    assert offsets(copy) == (0, 5)
    assert look.rows("repair", root, "--rebuild", "--dry-run")[-1]["cutRecords"] == 4
    look("repair", root, "--rebuild")
    assert look.status == 0, look.err
    assert "valid records that another broker cut off: 4; moved to quarantine/" in look.out + look.err
    (kept,) = root.glob("quarantine/*/commitlog/*.bin")
    assert kept.read_bytes().startswith(log[end:].rstrip(b"\0"))
    assert offsets(root) == (0, 5)
    look("check", root)
    assert look.status == 0, look.out


def test_messages_of_a_queue_whose_units_are_lost_are_not_taken_for_what_was_cut_off(look, tmp_path):
    root = tmp_path / "s"
    store = ours(root, **INDEX)
    put_all(store, [message(b"first", topic="Other")])
    results = put_all(store, [message(b"%d" % n * 100) for n in range(10)])
    store.close()
    with (root / LOG).open("r+b") as file:
        file.seek(results[3].physical_offset)
        file.write(bytes(results[3].size))
    shutil.rmtree(root / "consumequeue" / "Orders")
    os.truncate(root / "checkpoint", 40)
    look("repair", root, "--rebuild")
    assert look.status == 0, look.err
    assert offsets(root) == (0, 10)


def test_messages_behind_the_last_unit_of_an_old_copy_of_a_queue_are_not_taken_for_what_was_cut_off(look, tmp_path):
    """Queues that another broker flushed long before the log, or an old backup of them, say nothing of its end."""
    root, backup = tmp_path / "s", tmp_path / "backup"
    with wall_clock(lambda: 1_000_000):
        put(root, *[b"%d" % n * 100 for n in range(4)])
        shutil.copytree(root / "consumequeue", backup)
        ends = put(root, *[b"%d" % n * 100 for n in range(4, 10)])
    with (root / LOG).open("r+b") as file:
        file.seek(ends[0])
        file.write(bytes(ends[1] - ends[0]))
    shutil.rmtree(root / "consumequeue")
    shutil.copytree(backup, root / "consumequeue")
    os.truncate(root / "checkpoint", 40)
    *_, summary = look.rows("repair", root, "--rebuild")
    assert look.status == 0, look.err
    assert (summary["lostMessages"], "cutRecords" in summary) == (1, False)
    assert offsets(root) == (0, 10)
    *_, summary = look.rows("check", root)
    assert (look.status, summary["messages"], summary["units"]) == (0, 10, 10)
