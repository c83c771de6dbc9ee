"""The index files of Apache's brokers: read, found in, and written again from their logs byte by byte."""

from __future__ import annotations

import shutil

import pytest

from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.index.file import IndexFile, IndexHeader, IndexShape
from rocketpy_broker_sim.store.put_result import IncomingMessage
from tests.broker_sim.store.golden import NAMES, GoldenStore
from tests.broker_sim.store.helpers import put_all

FOREVER = 1 << 62


@pytest.fixture(params=NAMES)
def golden(request, tmp_path) -> GoldenStore:
    return GoldenStore(request.param, tmp_path)


def index_files(golden: GoldenStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((golden.root / "index").iterdir())}


def loaded(golden: GoldenStore, name: str) -> IndexFile:
    file = IndexFile(RealStorage(golden.root), name, IndexShape.of(golden.config))
    file.load()
    return file


def test_headers_and_entries_are_read_as_apache_wrote_them(golden):
    facts = golden.facts["index_files"]
    assert facts
    positions = {row["physicalOffset"] for row in golden.messages}
    for fact in facts:
        file = loaded(golden, fact["name"])
        assert file.shape.size == fact["size"]
        assert file.header == IndexHeader(
            fact["beginTimestamp"],
            fact["endTimestamp"],
            fact["beginPhyOffset"],
            fact["endPhyOffset"],
            fact["hashSlotCount"],
            fact["indexCount"],
        )
        entries = list(file.entries())
        assert len(entries) == fact["indexCount"] - 1
        assert {entry.position for entry in entries} <= positions
        assert len(list(file.slots())) == fact["hashSlotCount"]
        chained = []
        for slot, number in file.slots():
            while number:
                entry = file.entry(number)
                assert entry.hashed % file.shape.slots == slot
                assert entry.previous < number
                chained.append(number)
                number = entry.previous
        assert sorted(chained) == list(range(1, fact["indexCount"]))
        file.close()


def test_the_log_written_into_a_new_index_gives_the_same_bytes(golden):
    before = index_files(golden)
    shutil.rmtree(golden.root / "index")
    golden.open().close()
    after = index_files(golden)
    assert list(after.values()) == list(before.values())
    assert all(len(name) == 17 for name in after)


def test_an_open_and_close_leaves_the_files_as_they_are(golden):
    before = index_files(golden)
    unclean = (golden.root / "abort").exists()
    store = golden.open()
    store.close()
    after = index_files(golden)
    assert list(after.values()) == list(before.values())
    assert unclean or after == before


def test_queries_find_what_apache_found(golden):
    store = golden.open()
    live = golden.facts["live"]
    asked = 0
    for query in live["query_by_key"]:
        found = {row["physicalOffset"] for row in query["found"]}
        assert found <= set(store.index.find(query["topic"], query["key"], 64, 0, FOREVER).positions), query
        asked += 1
    for query in live["query_by_uniq_key"]:
        positions = store.index.find(query["topic"], query["uniqKey"], 64, 0, FOREVER).positions
        assert query["physicalOffset"] in positions, query
        asked += 1
    assert asked > 3 or not live["query_by_key"]
    store.close()


def test_every_message_is_found_by_its_unique_key(golden):
    store = golden.open()
    for row in golden.messages:
        unique = row["properties"].get("UNIQ_KEY")
        if unique is None or row["sysFlag"] & 0xC == 0xC:
            continue
        stored = row["storeTimestamp"]
        positions = store.index.find(row["topic"], unique, 64, stored - 1000, stored + 1000).positions
        assert row["physicalOffset"] in positions
    store.close()


def test_an_index_that_was_continued_is_read_again(golden):
    store = golden.open()
    (put,) = put_all(store, [IncomingMessage("Later", 0, b"x", properties="KEYS\x01one two\x02UNIQ_KEY\x01U1\x02")])
    store.close()
    store = golden.open()
    for key in ("one", "two", "U1"):
        assert store.index.find("Later", key, 64, 0, FOREVER).positions == [put.physical_offset]
    store.close()
