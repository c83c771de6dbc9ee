"""The key index through rocketpy-store: headers, slots and entries, searches, and damage that check finds."""

from __future__ import annotations

import struct
from pathlib import Path

import attrs
import pytest

from rocketpy.wire.message_id import offset_message_id
from rocketpy_broker_sim.config import BrokerConfig, as_properties, format_properties
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.index.file import ENTRY, IndexShape
from rocketpy_broker_sim.store.index.keys import hash_of
from rocketpy_broker_sim.store.inspect.check import Check
from rocketpy_broker_sim.store.inspect.findings import DAMAGE, RECOVERED
from rocketpy_broker_sim.store.inspect.layout import open_layout
from tests.broker_sim.cli.store_kit import NAMES, Look, ours
from tests.broker_sim.store.golden import GoldenStore
from tests.broker_sim.store.helpers import HOST, message, put_all

SHAPES = {"max_hash_slot_num": 100, "max_index_num": 400}


@pytest.fixture
def golden(tmp_path) -> GoldenStore:
    return GoldenStore("5.3.3-clean", tmp_path)


def index_files(store: Path) -> list[Path]:
    return sorted((store / "index").iterdir())


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def fill_with_keys(store, count: int) -> None:
    put_all(
        store,
        [
            message(b"%d" % n, queue_id=n % 2, properties=f"UNIQ_KEY\x01id{n:08d}\x02KEYS\x01key{n} all\x02")
            for n in range(count)
        ],
    )


def flush(store) -> None:
    store.flushing.prepare(everything=True)
    store.flushing.flush_all()


# --- what the files hold -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_headers_are_those_that_java_read(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    known = [row for row in golden.facts["index_files"] if row["size"]]
    rows = look.rows("index", golden.root)
    assert [{field: row[field] for field in known[0]} for row in rows] == known
    assert {(row["slots"], row["entries"]) for row in rows} == {
        (golden.config.max_hash_slot_num, golden.config.max_index_num)
    }


def test_a_file_is_shown_down_to_its_last_byte(look, golden):
    path = index_files(golden.root)[1]
    data, (header, *rows) = path.read_bytes(), look.rows("index", golden.root, "--file", path.name)
    shape = IndexShape(header["slots"], header["entries"])
    again = bytearray(shape.size)
    fields = ("beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset", "hashSlotCount", "indexCount")
    struct.pack_into(">qqqqii", again, 0, *(header[field] for field in fields))
    for row in rows:
        if row["kind"] == "slot":
            struct.pack_into(">i", again, row["offset"], row["entry"])
        else:
            entry = (row["keyHash"], row["phyOffset"], row["timeDiffSeconds"], row["previous"])
            ENTRY.pack_into(again, row["offset"], *entry)
    assert again == data
    entries = [row for row in rows if row["kind"] == "entry"]
    assert len(entries) == header["indexCount"] - 1
    assert all(row["topic"] and row["key"] for row in entries)
    last = look("index", golden.root, "--file", path.name)[-1]
    assert last == (
        "bytes 0 to 40: the header; to 440: 100 slots of 4; to 4400: 197 entries of 20 behind one that is never used; "
        "to 8440: room for 202 more"
    )


@pytest.mark.parametrize(("slots", "entries"), [(100, 400), (7, 28), (13, 500), (1, 300), (300, 50)])
def test_the_shape_is_detected_from_the_content(look, tmp_path, slots, entries):
    store = ours(tmp_path / "s", max_hash_slot_num=slots, max_index_num=entries)
    fill_with_keys(store, 15)
    store.close()
    assert {(row["slots"], row["entries"]) for row in look.rows("index", tmp_path / "s")} == {(slots, entries)}
    look("check", tmp_path / "s")
    assert look.status == 0


def test_slots_that_are_all_in_use_do_not_hide_how_many_there_are(look, tmp_path):
    """The last message has three entries, so files with five or ten slots fewer end at the same position."""
    store = ours(tmp_path / "s", max_hash_slot_num=12, max_index_num=700)
    fill_with_keys(store, 200)
    store.close()
    assert [(row["slots"], row["entries"]) for row in look.rows("index", tmp_path / "s")] == [(12, 700)]
    look("check", tmp_path / "s")
    assert look.status == 0


def test_settings_of_another_shape_are_refused(look, golden, tmp_path):
    config = tmp_path / "b.conf"
    config.write_text(format_properties(as_properties(attrs.evolve(BrokerConfig(), store=golden.config))))
    assert len(look.rows("index", golden.root, "-c", config)) == 2
    config.write_text(config.read_text().replace("maxIndexNum=400", "maxIndexNum=401"))
    look("index", golden.root, "-c", config)
    assert look.status == 1
    assert "has 8440 bytes, not 8460" in look.err


def test_a_file_that_is_not_there(look, golden):
    look("index", golden.root, "--file", "20200101000000000")
    assert look.status == 2
    assert index_files(golden.root)[0].name in look.err


# --- searches ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("timer")])
@pytest.mark.parametrize("scan", [(), ("--scan",)])
def test_keys_find_what_the_broker_found(look, name, scan, tmp_path):
    golden = GoldenStore(name, tmp_path)
    searches = golden.facts["live"].get("query_by_key", [])
    for search in searches[:: 1 if not scan else 10]:
        found = look.rows("query", golden.root, "-t", search["topic"], "--key", search["key"], *scan)
        assert sorted(row["physicalOffset"] for row in found) == sorted(
            one["physicalOffset"] for one in search["found"]
        )
    for search in golden.facts["live"].get("query_by_uniq_key", [])[:20]:
        found = look.rows("query", golden.root, "-t", search["topic"], "--unique-key", search["uniqKey"], *scan)
        assert search["physicalOffset"] in [row["physicalOffset"] for row in found]


def test_other_keys_with_the_same_hash_are_not_found(look, tmp_path):
    store = ours(tmp_path / "s", **SHAPES)
    put_all(store, [message(b"one", properties="KEYS\x01Aa\x02"), message(b"two", properties="KEYS\x01BB\x02")])
    store.close()
    (row,) = look.rows("query", tmp_path / "s", "-t", "Orders", "--key", "BB")
    assert row["queueOffset"] == 1
    assert look("query", tmp_path / "s", "-t", "Orders", "--key", "C#") == ["no such message"]


def test_a_key_whose_hash_is_zero_stands_in_the_first_slot(look, tmp_path):
    assert hash_of("Orders", "2<G4:NI") == 0
    store = ours(tmp_path / "s", **SHAPES)
    put_all(store, [message(b"one"), message(b"two", properties="KEYS\x012<G4:NI\x02")])
    store.close()
    (file,) = look.rows("index", tmp_path / "s")
    slot, entry = look.rows("index", tmp_path / "s", "--file", file["name"])[1:]
    assert (slot["slot"], slot["entry"]) == (entry["slot"], entry["number"]) == (0, 1)
    assert (entry["keyHash"], entry["key"]) == (0, "2<G4:NI")
    (row,) = look.rows("query", tmp_path / "s", "-t", "Orders", "--key", "2<G4:NI")
    assert row["queueOffset"] == 1


def test_a_running_brokers_newest_messages_are_found_before_the_index_has_them(look, tmp_path):
    store = ours(tmp_path / "s", **SHAPES)
    fill_with_keys(store, 5)
    store.index.seal(everything=True)
    store.flushing.flush_all()
    (written,) = look.rows("index", tmp_path / "s")
    fill_with_keys(store, 40)
    (unchanged,) = look.rows("index", tmp_path / "s")
    assert unchanged["indexCount"] == written["indexCount"] == 16
    search = ("query", tmp_path / "s", "-t", "Orders")
    positions = [row["physicalOffset"] for row in look.rows(*search, "--key", "all")]
    assert len(positions) == len(set(positions)) == 45
    assert positions == sorted(positions, reverse=True)
    assert [row["bodyLength"] for row in look.rows(*search, "--key", "key39")] == [2]
    assert [row["uniqKey"] for row in look.rows(*search, "--unique-key", "id00000039")] == ["id00000039"]
    assert look(*search, "--key", "key40") == ["no such message"]
    store.close()


@pytest.mark.slow
def test_an_offset_id_finds_its_message(look, golden):
    for known in golden.messages[::20]:
        assert look.rows("query", golden.root, "--id", known["offsetMsgId"]) == [known]
    assert look("query", golden.root, "--id", offset_message_id(HOST, 5)) == ["no such message"]
    look("query", golden.root, "--id", "nonsense")
    assert look.status == 2


def test_a_time_finds_the_first_message_of_every_queue_since_then(look, golden):
    known = [row for row in golden.messages if row["topic"] == "GS_A"]
    middle = known[len(known) // 2]["storeTimestamp"]
    found = look.rows("query", golden.root, "-t", "GS_A", "--time", middle)
    for row in found:
        queue = [each for each in known if each["queueId"] == row["queueId"]]
        assert row == next(each for each in queue if each["storeTimestamp"] >= middle)
    assert len(found) == 4
    assert look.rows("query", golden.root, "-t", "GS_A", "--time", known[-1]["storeTimestamp"] + 1) == []


def test_keys_need_their_topic(look, golden):
    look("query", golden.root, "--key", "k1")
    assert look.status == 2
    assert "need --topic" in look.err


def test_threat_M12_chains_that_go_in_circles_end(look, golden):
    path = index_files(golden.root)[0]
    entries = [row for row in look.rows("index", golden.root, "--file", path.name) if row["kind"] == "entry"]
    hit = next(row for row in reversed(entries) if row["previous"])
    other = hit["previous"]
    overwrite(path, 440 + other * 20 + 16, struct.pack(">i", hit["number"]))
    found = look.rows("query", golden.root, "-t", hit["topic"], "--key", hit["key"])
    assert hit["phyOffset"] in [row["physicalOffset"] for row in found]


# --- damage ------------------------------------------------------------------------------------------


def findings(look: Look, store: Path) -> list[dict]:
    *rows, summary = look.rows("check", store)
    assert summary["clean"] is (look.status == 0)
    return [row for row in rows if row["kind"] != "note"]


def test_our_index_is_clean_while_it_runs_when_killed_and_when_stopped(look, tmp_path):
    store = ours(tmp_path / "s", **SHAPES)
    fill_with_keys(store, 200)
    look("check", tmp_path / "s")
    assert look.status == 0
    flush(store)
    fill_with_keys(store, 200)
    store.abandon()
    look("check", tmp_path / "s")
    assert look.status == 0
    store = ours(tmp_path / "s", **SHAPES)
    store.close()
    assert findings(look, tmp_path / "s") == []
    (summary,) = [row for row in look.rows("check", tmp_path / "s") if row["kind"] == "summary"]
    assert summary["index_entries"] == 1200
    assert summary["index_files"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "data", "said"),
    [
        (440 + 20 * 7, struct.pack(">i", 12345), "lead to no message with their key"),
        (440 + 20 * 7 + 4, struct.pack(">q", 3), "lead to no message with their key"),
        (440 + 20 * 7 + 16, struct.pack(">i", 6), "do not lead to the one before them"),
        (40 + 4 * 9, struct.pack(">i", 0), "slots do not lead to their newest entry"),
        (40 + 4 * 9, struct.pack(">i", 2), "slots do not lead to their newest entry"),
        (40 + 4 * 9, struct.pack(">i", -5), "slots do not lead to their newest entry"),
    ],
)
def test_threat_M12_a_damaged_index_is_found_and_repaired(look, golden, at, data, said):
    overwrite(index_files(golden.root)[0], at, data)
    found = findings(look, golden.root)
    assert look.status == 1
    assert {row["part"] for row in found} == {"index"}
    assert any(said in row["reason"] for row in found)
    before = [path.name for path in index_files(golden.root)]
    look("repair", golden.root)
    assert look.status == 0, look.err
    assert findings(look, golden.root) == []
    assert len(index_files(golden.root)) == len(before)
    (row, *_) = look.rows("query", golden.root, "-t", "GS_A", "--key", "k1")
    assert row["physicalOffset"] == 790


def test_threat_M12_an_index_file_that_was_cut(look, golden):
    path = index_files(golden.root)[0]
    path.write_bytes(path.read_bytes()[:3000])
    (first, *_) = findings(look, golden.root)
    assert look.status == 1
    assert (first["part"], first["path"], first["offset"]) == ("index", f"index/{path.name}", 0)


def test_an_index_that_misses_its_newest_file_is_behind(look, golden):
    index_files(golden.root)[1].unlink()
    (finding,) = findings(look, golden.root)
    assert look.status == 0
    assert "messages behind the index have no entries yet: will be recovered" in finding["reason"]


def test_an_index_that_was_deleted_or_switched_off_is_no_damage(look, golden):
    for path in index_files(golden.root):
        path.unlink()
    assert findings(look, golden.root) == []
    assert look("index", golden.root) == ["no index files"]
    assert len(look.rows("query", golden.root, "-t", "GS_A", "--key", "k1")) == 1


def test_an_index_that_is_flushed_during_a_check_is_no_damage(tmp_path):
    store = ours(tmp_path / "s", **SHAPES)
    fill_with_keys(store, 50)
    flush(store)
    fill_with_keys(store, 350)  # fills some files, of which the disk knows nothing yet
    layout = open_layout(RealStorage(tmp_path / "s"))
    checked = Check(layout, progress=lambda _: flush(store))  # called when headers have been read
    found = list(checked.findings())
    assert {finding.kind for finding in found} == {RECOVERED}
    names = {finding.path for finding in found if "slots do not lead to their newest entry" in finding.text}
    assert names == {f"index/{path.name}" for path in index_files(tmp_path / "s")}
    layout.close()
    store.close()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_damage_that_no_start_mends_is_called_damage_after_a_crash_too(look, tmp_path, at):
    store = ours(tmp_path / "s", **SHAPES)
    fill_with_keys(store, 350)
    flush(store)
    fill_with_keys(store, 10)
    store.abandon()
    path = index_files(tmp_path / "s")[at]
    overwrite(path, 40, bytes(4 * 100))
    for _ in range(2):
        damaged = {row["path"] for row in look.rows("check", tmp_path / "s") if row["kind"] == DAMAGE}
        assert damaged == {f"index/{path.name}"}
        ours(tmp_path / "s", **SHAPES).close()
