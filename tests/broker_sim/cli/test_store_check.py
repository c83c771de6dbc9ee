"""rocketpy-store check: clean on what brokers leave, however they ended; damage is found, named and told apart."""

from __future__ import annotations

import shutil
import signal
import struct
from pathlib import Path

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy.sync import Message, Producer
from rocketpy_broker_sim.config.store import UNIT_SIZE
from tests.broker_sim.cli.servers import FREE_PORT, Place
from tests.broker_sim.cli.store_kit import NAMES, Look, fill, ours
from tests.broker_sim.store.golden import GoldenStore
from tests.broker_sim.store.helpers import message

LATE = "flushIntervalConsumeQueue=600000\n"
"""A flush of the index in the meantime leaves entries that no header counts yet, which `check` would tell of."""


def check(look: Look, store: Path) -> tuple[int, list[dict], dict]:
    """Exit status, findings without notes, and the summary."""
    *findings, summary = look.rows("check", store)
    assert summary["kind"] == "summary"
    assert summary["clean"] is (look.status == 0)
    return look.status, [row for row in findings if row["kind"] != "note"], summary


def log_file(store: Path, index: int = 0) -> Path:
    return sorted((store / "commitlog").iterdir())[index]


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.fixture
def closed(tmp_path) -> Path:
    """A store of ours with 60 messages over several log files, stopped in order."""
    store = ours(tmp_path / "s")
    fill(store)
    store.close()
    return tmp_path / "s"


# --- clean -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_golden_store_is_clean(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    status, findings, summary = check(look, golden.root)
    assert (status, findings) == (0, [])
    assert summary["messages"] == summary["units"] == len(golden.messages)
    assert summary["queues"] == len(list(golden.root.glob("consumequeue/*/*")))


def test_our_store_is_clean_while_it_runs_when_killed_and_when_stopped(look, tmp_path):
    store = ours(tmp_path / "s")
    fill(store)
    assert check(look, tmp_path / "s")[:2] == (0, [])
    store.flushing.flush_all()
    fill(store)
    store.put(message(b"never written"))
    store.abandon()
    assert check(look, tmp_path / "s")[:2] == (0, [])
    ours(tmp_path / "s").close()
    status, findings, summary = check(look, tmp_path / "s")
    assert (status, findings, summary["messages"]) == (0, [], 120)
    assert look("check", tmp_path / "s")[-1].startswith("clean: 120 messages in ")


@pytest.mark.slow
def test_the_store_of_a_killed_broker_is_clean(look, place: Place):
    store = place.home / "store"
    names = place.write("n.conf", FREE_PORT)
    with place.serving("rocketpy-namesrv", "-c", names) as name_server:
        files = place.write("b.conf", f"{FREE_PORT}storePathRootDir={store}\nmappedFileSizeCommitLog=65536\n{LATE}")
        with place.serving("rocketpy-broker", "-c", files, "-n", name_server.address) as broker:
            with Producer("p", namesrv=name_server.address) as producer:
                for number in range(120):
                    producer.send(Message("Orders", b"%d" % number * 300, tags=f"t{number % 3}", keys=[str(number)]))
                status, findings, summary = check(look, store)
                assert (status, findings) == (0, [])
                assert summary["messages"] == 120
            broker.stop(signal.SIGKILL)
    assert (store / "abort").exists()
    status, findings, summary = check(look, store)
    assert (status, findings, summary["messages"]) == (0, [], 120)


def test_a_topic_that_was_deleted_and_made_anew_is_no_damage(look, tmp_path):
    store = ours(tmp_path / "s")
    fill(store, 30)
    fill(store, 9, "Gone")
    store.delete_topics(["Gone"])
    store.delete_topics(["Orders"])
    fill(store, 12)
    store.close()
    assert check(look, tmp_path / "s")[:2] == (0, [])
    notes = [row["reason"] for row in look.rows("check", tmp_path / "s") if row["kind"] == "note"]
    assert notes == ["messages of 'Gone' have no queue: the topic was deleted, or its folder is missing"]


def test_files_that_were_cleaned_up_are_no_damage(look, closed):
    log_file(closed).unlink()
    assert check(look, closed)[:2] == (0, [])


def test_an_empty_file_made_ahead_is_no_damage(look, closed):
    last = int(log_file(closed, -1).name)
    (closed / "commitlog" / f"{last + 4096:020d}").touch()
    assert check(look, closed)[:2] == (0, [])
    (closed / "commitlog" / f"{last + 4096:020d}").write_bytes(bytes(4096))
    assert check(look, closed)[:2] == (0, [])


# --- left by a crash ---------------------------------------------------------------------------------


def recovered(look: Look, store: Path) -> list[dict]:
    """The findings of a store that the next start mends, and the proof that it does."""
    status, findings, _ = check(look, store)
    assert status == 0
    assert findings
    assert {row["kind"] for row in findings} == {"recovered"}
    assert "next start" in look("check", store)[-1]
    copy = store.parent / "mended"
    shutil.copytree(store, copy)
    ours(copy).close()
    assert check(look, copy)[:2] == (0, [])
    return findings


def crashed(tmp_path: Path) -> Path:
    """A store whose last half had not been flushed when its broker went down."""
    store = ours(tmp_path / "s")
    fill(store, 30)
    store.flushing.flush_all()
    fill(store, 30)
    store.abandon()
    return tmp_path / "s"


def test_a_torn_end_will_be_recovered(look, tmp_path):
    store = crashed(tmp_path)
    last = [row for row in look.rows("commitlog", store) if row["kind"] == "message"][-1]
    overwrite(store / "commitlog" / last["file"], last["positionInFile"] + last["storeSize"] - 60, bytes(60))
    (torn, *units) = recovered(look, store)
    assert (torn["part"], torn["position"]) == ("log", last["physicalOffset"])
    assert [row["part"] for row in units] == ["queue"]


def test_units_behind_the_log_will_be_recovered(look, tmp_path):
    store = crashed(tmp_path)
    queue = store / "consumequeue" / "Orders" / "1" / f"{200:020d}"
    assert queue.exists()
    queue.write_bytes(bytes(200))
    (finding,) = recovered(look, store)
    assert finding["reason"] == "messages have no unit yet: will be recovered at the next start"


def test_units_ahead_of_the_log_will_be_recovered(look, tmp_path):
    store = crashed(tmp_path)
    end = next(row for row in look.rows("commitlog", store) if row["kind"] == "end")["physicalOffset"]
    queue = store / "consumequeue" / "Orders" / "0"
    assert not (queue / f"{400:020d}").exists()
    (queue / f"{400:020d}").write_bytes(struct.pack(">qiq", end, 200, 0) + bytes(180))
    (finding,) = recovered(look, store)
    assert "units lead behind the end of the log" in finding["reason"]


def test_a_short_last_file_will_be_recovered(look, tmp_path):
    store = crashed(tmp_path)
    last = int(log_file(store, -1).name)
    (store / "commitlog" / f"{last + 4096:020d}").write_bytes(bytes(100))
    (finding,) = recovered(look, store)
    assert "has 100 of 4096 bytes" in finding["reason"]


def test_queues_that_are_all_gone_will_be_recovered(look, closed):
    shutil.rmtree(closed / "consumequeue" / "Orders")
    (closed / "abort").touch()
    status, findings, _ = check(look, closed)
    assert (status, findings) == (0, [])
    assert "messages of 'Orders' have no queue" in look.out


# --- damage ------------------------------------------------------------------------------------------


def damaged(look: Look, store: Path) -> list[dict]:
    status, findings, summary = check(look, store)
    assert status == 1
    assert summary["damage"] == len([row for row in findings if row["kind"] == "damage"]) > 0
    assert "DAMAGED" in look("check", store)[-1]
    assert look.status == 1
    return findings


def test_threat_M12_a_changed_body_is_found_with_file_and_position(look, closed):
    rows = [row for row in look.rows("commitlog", closed) if row["kind"] == "message"]
    hit = rows[7]
    overwrite(closed / "commitlog" / hit["file"], hit["positionInFile"] + 100, b"\xff")
    (finding,) = damaged(look, closed)[:1]
    assert (finding["path"], finding["position"], finding["offset"], finding["size"]) == (
        f"commitlog/{hit['file']}",
        hit["physicalOffset"],
        hit["positionInFile"],
        hit["storeSize"],
    )
    assert "does not match its checksum" in finding["reason"]
    assert str(rows[8]["physicalOffset"]) in finding["reason"]
    shown = look.rows("commitlog", closed)
    assert [row["physicalOffset"] for row in shown if row["kind"] == "message"] == [
        row["physicalOffset"] for row in rows if row is not hit
    ]


def test_threat_M12_a_zeroed_sector_is_found(look, closed):
    rows = [row for row in look.rows("commitlog", closed) if row["kind"] == "message"]
    overwrite(log_file(closed, 1), 512, bytes(512))
    finding = damaged(look, closed)[0]
    position = int(log_file(closed, 1).name) + 512
    covering = next(row for row in rows if row["physicalOffset"] + row["storeSize"] > position)
    assert finding["position"] == covering["physicalOffset"]
    assert finding["position"] + finding["size"] >= position + 512


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (0, "a size of"),
        (4, "unknown magic number"),
        (30, "belongs to position"),
        (84, "its parts do not add up to its size"),
        (100, "the body does not match its checksum"),
    ],
)
def test_threat_M12_what_is_wrong_with_a_record_is_said(look, closed, at, said):
    hit = [row for row in look.rows("commitlog", closed) if row["kind"] == "message"][3]
    overwrite(closed / "commitlog" / hit["file"], hit["positionInFile"] + at, b"\x11\x22\x33\x44")
    assert said in damaged(look, closed)[0]["reason"]


def test_threat_M12_a_log_of_a_newer_format_is_named(look, closed):
    for index in range(len(list((closed / "commitlog").iterdir()))):
        data = log_file(closed, index).read_bytes()
        log_file(closed, index).write_bytes(data.replace(b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xc7"))
    assert "of a newer format" in damaged(look, closed)[0]["reason"]


def test_threat_M12_missing_and_cut_files_are_found(look, closed):
    log_file(closed, 1).unlink()
    first = damaged(look, closed)[0]
    assert "the files before it are missing, 4096 bytes" in first["reason"]
    log_file(closed, 1).write_bytes(log_file(closed, 1).read_bytes()[:1000])
    assert any("has 1000 bytes where 4096 belong" in row["reason"] for row in damaged(look, closed))


def test_the_end_of_the_log_was_lost(look, closed):
    log_file(closed, -1).unlink()
    finding = damaged(look, closed)[0]
    assert "though it had reached the disk up to" in finding["reason"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda unit: struct.pack(">qiq", unit[0] + 1, unit[1], unit[2]), "units lead elsewhere"),
        (lambda unit: struct.pack(">qiq", unit[0], unit[1], 7), "another size or tags code"),
        (lambda unit: struct.pack(">qiq", unit[0], unit[1] + 1, unit[2]), "another size or tags code"),
        (lambda unit: bytes(UNIT_SIZE), "messages of the log have no unit"),
    ],
)
def test_threat_M12_damaged_units_are_found(look, closed, change, said):
    path = closed / "consumequeue" / "Orders" / "2" / f"{0:020d}"
    unit = struct.unpack_from(">qiq", path.read_bytes(), 3 * UNIT_SIZE)
    overwrite(path, 3 * UNIT_SIZE, change(unit))
    finding = damaged(look, closed)[0]
    assert said in finding["reason"]
    assert (finding["part"], finding["position"], finding["offset"]) == ("queue", 3, 60)
    assert finding["path"] == f"consumequeue/Orders/2/{0:020d}"


def test_units_ahead_of_the_log_after_a_clean_stop_are_damage(look, closed):
    end = next(row for row in look.rows("commitlog", closed) if row["kind"] == "end")["physicalOffset"]
    queue = closed / "consumequeue" / "Orders" / "0"
    (queue / f"{400:020d}").write_bytes(struct.pack(">qiq", end, 200, 0) + bytes(180))
    assert "lead behind the end of the log" in damaged(look, closed)[-1]["reason"]


def test_damage_of_the_last_record_that_had_reached_the_disk_is_found_whatever_follows(look, tmp_path):
    """Its unit is gone too, and the record behind it had not reached the disk for sure: a start refuses this."""
    store = ours(tmp_path / "s")
    fill(store, 30)
    store.flushing.flush_all()
    fill(store, 1)
    store.abandon()
    hit = [row for row in look.rows("commitlog", tmp_path / "s") if row["kind"] == "message"][29]
    overwrite(tmp_path / "s" / "commitlog" / hit["file"], hit["positionInFile"] + 100, b"\xff")
    units = tmp_path / "s" / "consumequeue" / "Orders" / "2" / f"{0:020d}"
    overwrite(units, 9 * UNIT_SIZE, bytes(UNIT_SIZE))
    (finding,) = damaged(look, tmp_path / "s")
    assert (finding["part"], finding["position"]) == ("log", hit["physicalOffset"])
    with pytest.raises(StoreCorruptError, match="a valid record follows"):
        ours(tmp_path / "s")


def test_messages_for_people(look, closed):
    overwrite(log_file(closed), 100, b"\xff\xff")
    lines = look("check", closed)
    assert lines[0].split() == ["file", "position", "in", "file", "size", "what"]
    assert lines[1].startswith(f"damage  commitlog/{0:020d}")


@pytest.mark.parametrize("position", [0, -1])
def test_the_last_unit_of_all_is_missed_too(look, closed, position):
    last = [row for row in look.rows("commitlog", closed) if row["kind"] == "message"][-1]
    path = max((closed / "consumequeue" / "Orders" / str(last["queueId"])).iterdir())
    unit = struct.pack(">qiq", position, 200, 0) if position else bytes(UNIT_SIZE)
    overwrite(path, last["queueOffset"] * UNIT_SIZE - int(path.name), unit)
    assert "messages of the log have no unit" in damaged(look, closed)[0]["reason"]
    ends = {(row["topic"], row["queueId"]): row["maxOffset"] for row in look.rows("ls", closed, "--queues")}
    assert ends["Orders", last["queueId"]] == last["queueOffset"]


@pytest.mark.parametrize("offset", [3, 12, 300])
def test_a_record_that_names_another_offset_is_damage_after_a_kill_too(look, tmp_path, offset):
    store = ours(tmp_path / "s")
    fill(store)
    store.abandon()
    hit = [row for row in look.rows("commitlog", tmp_path / "s") if row["kind"] == "message"][30]
    place = tmp_path / "s" / "commitlog" / hit["file"]
    overwrite(place, hit["positionInFile"] + 20, struct.pack(">q", offset))
    damaged(look, tmp_path / "s")
