"""rocketpy-store repair: what is damaged moves aside, everything that is valid is readable again, at its old offset."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy.message import MessageExt
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.log.place_holders import PLACE_HOLDER_TAG, filler, least_filler
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import GetMessageStatus
from rocketpy_broker_sim.store.repair.plan import Region
from tests.broker_sim.cli.store_kit import NAMES, Look, fill, ours
from tests.broker_sim.store.golden import GoldenStore
from tests.broker_sim.store.helpers import message, put_all


@pytest.fixture
def store(tmp_path) -> Path:
    """A store of ours with 60 messages in three queues over several log files, stopped in order."""
    opened = ours(tmp_path / "s")
    fill(opened)
    opened.close()
    return tmp_path / "s"


def messages(look: Look, store: Path) -> list[dict]:
    return [row for row in look.rows("commitlog", store) if row["kind"] == "message"]


def overwrite(store: Path, row: dict, at: int, data: bytes) -> None:
    with (store / "commitlog" / row["file"]).open("r+b") as file:
        file.seek(row["positionInFile"] + at)
        file.write(data)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def survivors(store: Path) -> dict[tuple[int, int], bytes]:
    """What consumers get, by queue and offset, through a broker's store that opens it."""
    opened = ours(store)
    found = {
        (queue_id, each.queue_offset): each.body
        for queue_id in opened.reads.queue_ids("Orders")
        for each in delivered(opened, queue_id, opened.reads.min_offset("Orders", queue_id))
    }
    opened.close()
    return found


def delivered(opened: MessageStore, queue_id: int, offset: int) -> list[MessageExt]:
    """The messages of a queue from an offset on, by reads that go on where the last one said."""
    found: list[MessageExt] = []
    while offset < opened.reads.max_offset("Orders", queue_id):
        result = opened.reads.get("Orders", queue_id, offset, 32)
        assert result.next_begin_offset > offset
        found += decode_messages(result.records)
        offset = result.next_begin_offset
    return found


def expected(lost: list[int], count: int = 60) -> dict[tuple[int, int], bytes]:
    return {(n % 3, n // 3): b"message %d " % n * 10 for n in range(count) if n not in lost}


def repaired(look: Look, store: Path, lost: list[int], *options: object) -> list[dict]:
    """Repair, and see that all but the lost messages are where they were."""
    before = tree(store)
    look("check", store)
    assert look.status == 1
    look("repair", store, "--dry-run", *options)
    assert look.status == 1
    assert tree(store) == before
    *regions, summary = look.rows("repair", store, *options)
    assert look.status == 0, look.err
    assert summary == {"kind": "summary", "repaired": True, "regions": len(regions), "lostMessages": len(lost)}
    told = [(one["queueId"], one["queueOffset"]) for row in regions for one in row["lostMessages"]]
    assert sorted(told) == sorted((n % 3, n // 3) for n in lost)
    look("check", store)
    assert look.status == 0, look.out
    assert survivors(store) == expected(lost)
    look("check", store)
    assert look.status == 0, look.out
    return regions


# --- damaged records ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [[7], [0], [59], [7, 8, 9], [5, 20, 40], [30, 33, 36], list(range(10, 50))])
def test_everything_but_the_damaged_messages_is_readable_again(look, store, lost):
    rows = messages(look, store)
    for number in lost:
        overwrite(store, rows[number], 100, b"\xff\xfe\xfd")
    regions = repaired(look, store, lost)
    (folder,) = (store / "quarantine").iterdir()
    for region in regions:
        copy = folder / f"{region['path']}-{region['position']}.bin"
        assert copy.stat().st_size >= region["size"] or region["offset"] + region["size"] == 4096
        assert b"\xff\xfe\xfd" in copy.read_bytes()
    report = [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]
    assert report == regions


def test_what_was_replaced_is_kept(look, store):
    rows = messages(look, store)
    overwrite(store, rows[7], 100, b"\xff")
    before = tree(store)
    look("repair", store)
    (folder,) = (store / "quarantine").iterdir()
    kept = tree(folder)
    for path, content in before.items():
        if path.startswith("consumequeue/") or path == "checkpoint":
            assert kept[path] == content
    after = tree(store)
    row = rows[7]
    path = f"commitlog/{row['file']}"
    begin, end = row["positionInFile"], row["positionInFile"] + row["storeSize"]
    assert after[path][:begin] + before[path][begin:end] + after[path][end:] == before[path]


def test_a_store_goes_on_after_a_repair_and_survives_a_crash(look, store):
    rows = messages(look, store)
    for number in (7, 59):
        overwrite(store, rows[number], 100, b"\xff")
    repaired(look, store, [7, 59])
    opened = ours(store)
    results = put_all(opened, [message(b"new", queue_id=n) for n in range(3)])
    assert [result.queue_offset for result in results] == [20, 20, 20]  # that of the lost last one is not given again
    opened.abandon()
    shutil.rmtree(store / "consumequeue")
    (store / "checkpoint").unlink(missing_ok=True)
    assert survivors(store) == expected([7, 59]) | {(n, 20): b"new" for n in range(3)}


def test_damage_that_took_the_units_along(look, store):
    rows = messages(look, store)
    overwrite(store, rows[30], 0, bytes(rows[30]["storeSize"]))
    shutil.rmtree(store / "consumequeue")
    look("repair", store)
    assert look.status == 2
    assert "-c broker.conf" in look.err
    (store.parent / "b.conf").write_text("mappedFileSizeConsumeQueue=200\nmappedFileSizeCommitLog=4096\n")
    repaired(look, store, [30], "-c", store.parent / "b.conf")


@pytest.mark.parametrize(("at", "data"), [(27, b"\x03"), (27, b"\x7f"), (15, b"\x02"), (14, b"\x09"), (20, b"\x01")])
@pytest.mark.parametrize("with_units", [True, False])
def test_records_that_claim_another_place_are_replaced(look, store, at, data, with_units):
    """Neither queue nor offset is covered by the checksum of the body."""
    rows = messages(look, store)
    overwrite(store, rows[30], at, data)
    if with_units:
        (region,) = repaired(look, store, [30])
    else:
        shutil.rmtree(store / "consumequeue")
        (store.parent / "b.conf").write_text("mappedFileSizeConsumeQueue=200\nmappedFileSizeCommitLog=4096\n")
        if data == b"\x02":  # then two records claim offset 10 of queue 2, and nothing tells which is right
            look("repair", store, "--rebuild", "-c", store.parent / "b.conf")
            assert survivors(store) == expected([30, 32])
            return
        region, _ = look.rows("repair", store, "--rebuild", "-c", store.parent / "b.conf")
        assert survivors(store) == expected([30])
    assert "names another queue or offset" in region["reason"]
    assert region["lostMessages"] == [{"topic": "Orders", "queueId": 0, "queueOffset": 10}]


def test_an_offset_that_is_missing_without_a_trace_is_not_repaired_over(look, store):
    rows = messages(look, store)
    data = bytearray((store / "commitlog" / rows[0]["file"]).read_bytes())
    at, size = rows[3]["positionInFile"], rows[3]["storeSize"]
    data[at : at + size] = filler(size, rows[3]["physicalOffset"], rows[3]["storeTimestamp"])
    (store / "commitlog" / rows[0]["file"]).write_bytes(data)
    shutil.rmtree(store / "consumequeue" / "Orders" / "0")
    before = tree(store)
    look("repair", store, "--rebuild")
    assert look.status == 1
    assert "offset 1 of queue 0 of 'Orders' is missing between positions" in look.err
    assert tree(store) == before


def test_a_file_that_is_missing_in_between(look, store):
    rows = messages(look, store)
    gone = sorted((store / "commitlog").iterdir())[1]
    lost = [n for n, row in enumerate(rows) if row["file"] == gone.name]
    assert lost
    gone.unlink()
    repaired(look, store, lost)
    assert gone.stat().st_size == 4096


@pytest.mark.parametrize("size", [1500, 0])
def test_a_file_that_was_cut(look, store, size):
    rows = messages(look, store)
    cut = sorted((store / "commitlog").iterdir())[1]
    cut.write_bytes(cut.read_bytes()[:size])
    lost = [
        n for n, row in enumerate(rows) if row["file"] == cut.name and row["positionInFile"] + row["storeSize"] > size
    ]
    repaired(look, store, lost)
    assert cut.stat().st_size == 4096


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("content", [None, b"", b"x" * 4096, bytes(4096), b"x" * 1000])
def test_a_log_that_lost_its_end(look, store, files, content):
    rows = messages(look, store)
    names = sorted(path.name for path in (store / "commitlog").iterdir())
    for name in names[-files:]:
        if content is None:
            (store / "commitlog" / name).unlink()
        else:
            (store / "commitlog" / name).write_bytes(content)
    lost = [n for n, row in enumerate(rows) if row["file"] in names[-files:]]
    repaired(look, store, lost)
    opened = ours(store)
    results = put_all(opened, [message(b"new", queue_id=n) for n in range(3)])
    assert [result.queue_offset for result in results] == [20, 20, 20]  # those of the lost ones are not given again
    opened.close()
    assert survivors(store) == expected(lost) | {(n, 20): b"new" for n in range(3)}


def test_a_log_that_lost_more_messages_than_a_file_has_room_for(look, tmp_path):
    """Behind what is left of a file that was cut, place holders go on in the files behind it."""
    opened = ours(tmp_path / "s")
    put_all(opened, [message(b"", queue_id=n % 3) for n in range(120)])
    opened.close()
    store = tmp_path / "s"
    rows = messages(look, store)
    for path in sorted((store / "commitlog").iterdir())[1:]:
        path.unlink()
    first = store / "commitlog" / rows[0]["file"]
    first.write_bytes(first.read_bytes()[: rows[10]["physicalOffset"] + 50])
    config = tmp_path / "b.conf"
    config.write_text("mappedFileSizeConsumeQueue=200\nmappedFileSizeCommitLog=4096\n")
    *regions, summary = look.rows("repair", store, "-c", config)
    assert look.status == 0, look.err
    assert summary["lostMessages"] == 110
    assert len(regions) > 2
    opened = ours(store)
    results = put_all(opened, [message(b"new", queue_id=n) for n in range(3)])
    assert [result.queue_offset for result in results] == [40, 40, 40]
    opened.close()


@pytest.mark.parametrize("unclean", [True, False])
@pytest.mark.parametrize("lost", [[7], [59]])
def test_the_next_start_is_careful_where_messages_may_be_lost_of_which_nothing_is_known(look, store, lost, unclean):
    """Then a broker notes where its queues end, as groups may stand behind that."""
    rows = messages(look, store)
    overwrite(store, rows[lost[0]], 100, b"\xff")
    if unclean:
        (store / "abort").write_bytes(b"1")
    look("repair", store, "--rebuild")
    assert look.status == 0, look.err
    look("check", store)
    assert look.status == 0, look.out
    opened = ours(store)
    assert opened.was_unclean == (unclean or lost == [59])
    opened.close()


def test_queues_with_place_holders_are_read_when_every_record_is_checked(look, store):
    """As it is where another broker had the store in between, who vouches for nothing."""
    rows = messages(look, store)
    for number in (0, 7, 30, 59):
        overwrite(store, rows[number], 100, b"\xff")
    repaired(look, store, [0, 7, 30, 59])
    checkpoint = store / "checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes()[:40].ljust(4096, b"\0"))
    assert survivors(store) == expected([0, 7, 30, 59])


def test_records_of_a_deleted_topic_stay_away(look, tmp_path):
    opened = ours(tmp_path / "s")
    fill(opened, 9, "Gone")
    fill(opened)
    opened.delete_topics(["Gone"])
    opened.close()
    store = tmp_path / "s"
    rows = messages(look, store)
    overwrite(store, rows[20], 100, b"\xff")
    for name in ("deletedTopics.json", "deletedTopics.log"):  # which Apache's broker does not write
        (store / "config" / name).unlink(missing_ok=True)
    (store / "config" / "topics.json").write_text('{"topicConfigTable": {"Orders": {}}}')
    look("repair", store)
    assert look.status == 0, look.err
    assert {row["topic"] for row in look.rows("ls", store, "--queues")} == {"Orders"}


def test_what_is_lost_of_a_topic_before_it_was_deleted_and_made_again_takes_no_offset_of_the_new_one(look, tmp_path):
    opened = ours(tmp_path / "s")
    fill(opened, 30)
    opened.delete_topics(["Orders"])
    fill(opened, 30)
    opened.close()
    store = tmp_path / "s"
    overwrite(store, messages(look, store)[7], 100, b"\xff")
    region, _ = look.rows("repair", store)
    assert look.status == 0, look.err
    assert region["lostMessages"] == []
    assert survivors(store) == expected([], 30)


# --- damaged queues ----------------------------------------------------------------------------------


def test_queues_are_built_anew(look, store):
    before = tree(store)
    path = store / "consumequeue" / "Orders" / "1" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    struct.pack_into(">qiq", data, 60, 1, 2, 3)
    path.write_bytes(data)
    repaired(look, store, [])
    after = tree(store)
    assert {name: after[name] for name in before if name.startswith("consumequeue")} == {
        name: content for name, content in before.items() if name.startswith("consumequeue")
    }


def test_nothing_is_done_where_nothing_is_damaged(look, store):
    before = tree(store)
    assert look("repair", store)[-1] == "nothing is damaged, nothing to repair"
    assert look.status == 0
    assert tree(store).keys() == before.keys()
    look("repair", store, "--rebuild")
    assert look.status == 0
    assert survivors(store) == expected([])
    assert (store / "quarantine").exists()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("sqlfilter")])
def test_stores_of_apaches_broker_are_repaired(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    hit = golden.messages[len(golden.messages) // 2]
    overwrite(golden.root, hit, hit["storeSize"] - 3, b"\x00\x01\x02")
    overwrite(golden.root, hit, 88, b"\xff\xff\xff")
    look("check", golden.root)
    assert look.status == 1
    look("repair", golden.root)
    assert look.status == 0, look.err
    rows = messages(look, golden.root)
    kept = [row for row in rows if row["tags"] != PLACE_HOLDER_TAG]
    assert [row["physicalOffset"] for row in kept] == [
        row["physicalOffset"] for row in golden.messages if row is not hit
    ]
    opened = golden.open()
    for (topic, queue_id), (_, high) in golden.queues().items():
        assert opened.reads.max_offset(topic, queue_id) == high
    opened.close()


# --- refused -----------------------------------------------------------------------------------------


def test_a_store_in_use_is_not_repaired(look, store):
    opened = ours(store)
    before = tree(store)
    look("repair", store)
    assert look.status == 2
    assert "is in use by a broker: stop it first" in look.err
    assert tree(store) == before
    look("repair", store, "--dry-run")
    assert look.status == 0
    opened.close()


def test_a_log_of_which_nothing_is_left_is_not_repaired_to_an_empty_one(look, store):
    for path in (store / "commitlog").iterdir():
        path.write_bytes(bytes(4096))
    before = tree(store)
    look("repair", store)
    assert look.status == 1
    assert "no valid record is left" in look.err
    assert tree(store) == before


def test_what_cannot_be_filled_is_left_as_it_is(look, store):
    region = Region(
        path="commitlog/x", file_start=0, begin=10, end=40, kept=40, to_file_end=False, reason="", timestamp=1
    )
    with pytest.raises(StoreCorruptError, match="30 bytes are too few for a record"):
        region.replacement()
    region.end = 10 + 3 * 1024 * 1024 + least_filler()
    pieces = region.replacement()
    assert sum(map(len, pieces)) == region.end - region.begin
    assert len(pieces) == 3
    region.to_file_end = True
    assert len(region.replacement()) == 1


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_a_record_that_is_too_short_for_a_place_holder_is_refused_before_anything_is_changed(look, tmp_path, options):
    opened = ours(tmp_path / "s")
    put_all(opened, [message(b"1,", properties="TAGS\x01d\x02") for _ in range(3)])
    opened.close()
    store = tmp_path / "s"
    overwrite(store, messages(look, store)[1], 88, b"\xff")
    before = tree(store)
    look("repair", store, *options)
    assert look.status == 1
    assert "1 lost messages do not fit" in look.err
    assert tree(store) == before


def test_place_holders_only_look_like_messages_to_others(look, store):
    rows = messages(look, store)
    overwrite(store, rows[7], 100, b"\xff")
    look("repair", store)
    row = messages(look, store)[7]
    assert (row["topic"], row["queueId"], row["queueOffset"], row["tags"]) == ("Orders", 1, 2, PLACE_HOLDER_TAG)
    opened = ours(store)
    # A message that only has the tag is delivered: the code in the unit is not enough.
    put_all(opened, [message(b"mine", queue_id=1, properties=f"TAGS\x01{PLACE_HOLDER_TAG}\x02")])
    assert opened.reads.get("Orders", 1, 20, 1).status is GetMessageStatus.FOUND
    assert [each.body for each in delivered(opened, 1, 18)] == [b"message 55 " * 10, b"message 58 " * 10, b"mine"]
    opened.close()


def test_a_store_that_may_not_be_written(look, store, monkeypatch):
    rows = messages(look, store)
    overwrite(store, rows[7], 100, b"\xff")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RealStorage, "make_dir", refuse)
    look("repair", store)
    assert look.status == 2
    assert "the disk is full" in look.err
    monkeypatch.undo()
    look("repair", store)
    assert look.status == 0
    assert survivors(store) == expected([7])


def test_files_of_another_size_and_files_without_records_are_put_right(look, store):
    rows = messages(look, store)
    overwrite(store, rows[7], 100, b"\xff")
    names = sorted(path.name for path in (store / "commitlog").iterdir())
    with (store / "commitlog" / names[-1]).open("ab") as file:
        file.write(b"too much")
    (store / "commitlog" / f"{int(names[-1]) + 8192:020d}").write_bytes(b"x" * 4096)
    repaired(look, store, [7])
    assert sorted(path.name for path in (store / "commitlog").iterdir()) == names
    (folder,) = (store / "quarantine").iterdir()
    assert (folder / "commitlog" / f"{names[-1]}-{int(names[-1]) + 4096}.bin").read_bytes() == b"too much"


@pytest.mark.parametrize("settings", ["", "mappedFileSizeCommitLog=1000", "mappedFileSizeCommitLog=2048"])
@pytest.mark.parametrize("options", [["--dry-run"], [], ["--rebuild"]])
def test_settings_of_another_store_repair_nothing(look, store, tmp_path, settings, options):
    config = tmp_path / "other.conf"
    config.write_text(f"{settings}\n")
    before = tree(store)
    look("repair", store, "-c", config, *options)
    assert look.status == 2
    assert "have 4096 bytes, not" in look.err
    assert "leave -c out" in look.err
    assert tree(store) == before


@pytest.mark.parametrize("options", [["--rebuild", "--dry-run"], ["--rebuild"]])
def test_delayed_messages_keep_their_times(look, tmp_path, options):
    store, topic, config = tmp_path / "s", "SCHEDULE_TOPIC_XXXX", tmp_path / "b.conf"
    opened = ours(store, message_delay_level="7s 8s")
    put_all(opened, [message(topic=topic, properties="DELAY\x011\x02") for _ in range(3)])
    opened.close()
    units = look("consumequeue", store, "--topic", topic, "--queue", 0)
    look("repair", store)
    assert look.status == 0  # nothing is built there
    before = tree(store)
    look("repair", store, *options)
    assert (look.status, tree(store)) == (2, before)
    assert "give the settings of the broker (-c broker.conf)" in look.err
    sizes = "mappedFileSizeConsumeQueue=200\nmappedFileSizeCommitLog=4096\n"
    config.write_text(f"messageDelayLevel=7s 8s\n{sizes}")
    look("repair", store, "-c", config, "--rebuild")
    assert look.status == 0, look.err
    assert look("consumequeue", store, "--topic", topic, "--queue", 0) == units
