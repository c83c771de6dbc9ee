"""The extension of consume queues: as Apache's broker wrote it, and as ours writes, recovers and cuts it."""

from __future__ import annotations

import errno
from collections.abc import Container, Sequence

import pytest

from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.filtering import MessageFilter
from rocketpy_broker_sim.store.queue.consume_queue_ext import FOLDER, ConsumeQueueExt, ExtEntry, is_address
from tests.broker_sim.store.ext_helpers import BITS, FILE, Bits, Everything, by_tag, ext_codes, open_ext, tagged
from tests.broker_sim.store.golden import GoldenStore
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all, read_queue

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def make(storage: MemoryStorage | None = None) -> ConsumeQueueExt:
    return ConsumeQueueExt(storage or MemoryStorage(), "T", 3, FILE)


def reopened(storage: MemoryStorage, last: int | None) -> ConsumeQueueExt:
    ext = make(storage)
    ext.load(safe=0)
    ext.settle(last)
    return ext


def entries(count: int, *, bits: int = 0) -> list[ExtEntry]:
    return [ExtEntry(number - 5, 1000 + number, bytes([number % 256]) * bits) for number in range(count)]


# --- the files alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0, 1, 14, 300])
@pytest.mark.parametrize("together", [True, False])
def test_ST21_put_and_get(bits: int, together: bool) -> None:
    ext = make()
    wanted = entries(200, bits=bits)
    addresses = ext.put(wanted) if together else [ext.put([each])[0] for each in wanted]
    assert len(set(addresses)) == 200
    assert addresses == sorted(addresses)
    assert all(map(is_address, addresses))
    assert [ext.get(address) for address in addresses] == wanted
    assert len(ext.row.files) > 3
    assert (ext.row.start - 2**63, ext.max_address) == (addresses[0], addresses[-1] + 20 + bits)


def test_ST21_the_bytes_of_a_file() -> None:
    storage = MemoryStorage()
    ext = make(storage)
    ext.put([ExtEntry(-2, 3, b"\x04\x05")])
    ext.put(entries(50))
    content = storage.read_bytes(f"{FOLDER}/T/3/{0:020d}")
    assert content[:22].hex() == "0016" + "fffffffffffffffe" + "0000000000000003" + "0002" + "0405"
    assert len(content) == FILE
    # 22 bytes and 49 of 20 are 1002, then there is no room for another and the four bytes that stay free
    assert content[1002:].hex() == "ffff" + "00" * 20
    assert len(storage.list(f"{FOLDER}/T/3")) == 2


@pytest.mark.parametrize("address", [0, 5, -0x80000000, -(2**63) + 20, -(2**63) + 7, -(2**63) + 10**9, -(2**63) + 1020])
def test_ST21_what_is_no_address_or_leads_nowhere(address: int) -> None:
    ext = make()
    assert ext.get(address) is None
    ext.put(entries(1))
    assert ext.get(address) is None


def test_ST21_recover_goes_on_behind_the_last_unit() -> None:
    storage = MemoryStorage()
    addresses = make(storage).put(entries(120))
    ext = reopened(storage, addresses[99])
    assert [ext.get(address) for address in addresses[:100]] == entries(100)
    assert [ext.get(address) for address in addresses[100:]] == [None] * 20
    assert ext.put(entries(120)[100:]) == addresses[100:]
    assert [ext.get(address) for address in addresses] == entries(120)


def test_ST21_a_closed_last_file_is_full() -> None:
    storage = MemoryStorage()
    first = make(storage)
    addresses = first.put(entries(52))  # the last one begins the second file
    storage.unlink(first.row.files[-1].path)
    ext = reopened(storage, addresses[50])
    assert ext.put(entries(52)[51:]) == addresses[51:]


def test_ST21_without_units_nothing_is_kept() -> None:
    storage = MemoryStorage()
    make(storage).put(entries(70))
    ext = reopened(storage, None)
    assert (ext.end, ext.row.files) == (0, ())


def test_ST21_lost_entries_are_not_replaced_by_those_of_others() -> None:
    storage = MemoryStorage()
    addresses = make(storage).put(entries(70))
    for name in storage.list(f"{FOLDER}/T/3"):
        storage.unlink(f"{FOLDER}/T/3/{name}")
    ext = reopened(storage, addresses[-1])
    (address,) = ext.put(entries(1))
    assert address > addresses[-1]
    assert ext.get(addresses[-1]) is None
    again = reopened(storage, address)
    assert again.get(address) == entries(1)[0]


def test_ST21_truncate_from_the_front() -> None:
    ext = make()
    addresses = ext.put(entries(200))
    ext.flush()
    kept = addresses[120]
    while ext.delete_before(kept) is not None:
        pass
    assert ext.row.start <= kept + 2**63 < ext.row.start + FILE
    assert [ext.get(address) for address in addresses[120:]] == entries(200)[120:]
    assert ext.get(addresses[0]) is None
    while ext.delete_before(ext.max_address) is not None:
        pass
    assert len(ext.row.files) == 1


# --- with the store ------------------------------------------------------------------------------------


def test_ST21_the_store_writes_and_reads_it() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    results = put_all(store, [tagged(number) for number in range(100)])
    assert all(map(is_address, ext_codes(store)))
    ext = store._queues.find(("Orders", 0)).ext
    found = [ext.get(code) for code in ext_codes(store)]
    assert found == [ExtEntry(tags_code(f"t{n % 3}"), result.store_timestamp, BITS) for n, result in enumerate(results)]
    assert by_tag(store, "t1") == [b"%d" % number for number in range(1, 100, 3)]
    store.close()
    again = open_ext(storage)
    assert by_tag(again, "t2") == [b"%d" % number for number in range(2, 100, 3)]
    put_all(again, [tagged(101)])
    assert by_tag(again, "t2")[-1] == b"101"


class Mapper:
    """Gives the messages bit maps of 1, 2, 3, ... bytes, after one that gets none."""

    count = 0

    def begin(self) -> Container[str]:
        return Everything()

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        first, self.count = self.count, self.count + len(properties)
        return [b"\x01" * number for number in range(first, self.count)]


def test_the_first_phase_asks_the_bit_map_of_an_entry_that_has_one() -> None:
    store = open_ext()
    store.keep_bit_maps(Mapper())
    put_all(store, [tagged(0), tagged(1)])
    for answer, expected in ((False, [b"0"]), (True, [b"0", b"1"])):
        asked: list[bytes] = []

        def by_bits(bits: bytes, stored: int, *, answer: bool = answer, asked: list[bytes] = asked) -> bool:
            asked.append(bits)
            return answer

        found = store.reads.get("Orders", 0, 0, 32, wanted=MessageFilter(by_bits=by_bits))
        assert [each.body for each in decode_messages(found.records)] == expected
        assert asked == [b"\x01"]


def test_ST21_bit_maps_of_every_size_are_read_in_a_row_as_one_by_one() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    store.keep_bit_maps(Mapper())
    put_all(store, [tagged(number) for number in range(400)])
    store.close()
    again = open_ext(storage)
    asked: list[bytes] = []
    offset = 0
    while offset < 400:
        wanted = MessageFilter(frozenset({tags_code("t1")}), by_bits=lambda bits, stored: bool(asked.append(bits)))
        offset = again.reads.get("Orders", 0, offset, 32, wanted=wanted).next_begin_offset
    assert asked == [b"\x01" * number for number in range(1, 400, 3)]


def test_ST21_without_the_extension_consumers_choose_themselves() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(number) for number in range(10)])
    store.close()
    plain = open_store(storage)
    assert len(by_tag(plain, "t1")) == 10
    put_all(plain, [tagged(number) for number in range(10, 20)])
    assert by_tag(plain, "t1")[10:] == [b"10", b"13", b"16", b"19"]
    plain.close()
    both = open_ext(storage)
    put_all(both, [tagged(number) for number in range(20, 30)])
    assert by_tag(both, "t1") == [b"%d" % number for number in range(1, 30, 3)]


@pytest.mark.parametrize("flushed", [True, False])
def test_ST21_recovery_after_a_crash(flushed: bool) -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(number) for number in range(60)])
    if flushed:
        store.flushing.flush_all()
    put_all(store, [tagged(number) for number in range(60, 90)])
    again = open_ext(storage.clone())
    assert by_tag(again, "t0") == [b"%d" % number for number in range(0, 90, 3)]
    # What is built again from the log has no bit map: the filters may have been others then.
    assert [is_address(code) for code in ext_codes(again)] == [flushed] * 60 + [False] * 30
    put_all(again, [tagged(number) for number in range(90, 120)])
    assert by_tag(again, "t0") == [b"%d" % number for number in range(0, 120, 3)]


@pytest.mark.parametrize("lost", ["consumequeue_ext", "consumequeue"])
def test_ST21_lost_files(lost: str) -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(number) for number in range(60)])
    store.close()
    for name in storage.list(f"{lost}/Orders/0"):
        storage.unlink(f"{lost}/Orders/0/{name}")
    again = open_ext(storage)
    put_all(again, [tagged(number) for number in range(60, 90)])
    found = by_tag(again, "t0")
    wanted = [b"%d" % number for number in range(0, 90, 3)]
    if lost == "consumequeue":
        assert found == wanted
    else:  # what is lost says nothing of the tag, so those messages are given out
        assert found == [b"%d" % number for number in range(60)] + wanted[20:]
    assert bodies(again) == [b"%d" % number for number in range(90)]


def test_ST21_a_cut_log_cuts_it() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(number) for number in range(40)])
    store.flushing.flush_all()
    results = put_all(store, [tagged(number) for number in range(40, 60)])
    torn = storage.clone()
    at = results[10].physical_offset
    file = torn.open(f"commitlog/{at // 4096 * 4096:020d}")
    file.pwrite(bytes(40), at % 4096)
    again = open_ext(torn)
    assert again.reads.max_offset("Orders", 0) == 50
    ext = again._queues.find(("Orders", 0)).ext
    assert ext.end == ext_codes(again)[39] + 2**63 + 21
    put_all(again, [tagged(number) for number in range(50, 60)])
    assert by_tag(again, "t1") == [b"%d" % number for number in range(1, 60, 3)]


def test_ST21_it_goes_with_its_topic() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(1), tagged(2, topic="Other")])
    store.delete_topics(["Orders"])
    assert storage.list(FOLDER) == ["Other"]
    put_all(store, [tagged(4)])
    assert by_tag(store, "t1") == [b"4"]


def test_ST21_its_files_go_with_those_of_the_log() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(number) for number in range(200)])
    store.flushing.flush_all()
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    (queue,) = store.retention.queues()
    store.retention.correct_queue(queue)
    folders = set()
    while (folder := store.retention.delete_queue_file(queue)) is not None:
        store.retention.settle(folder)
        folders.add(folder)
    assert folders == {"consumequeue/Orders/0", "consumequeue_ext/Orders/0"}
    first = queue.ext.row.start - 2**63
    assert first <= ext_codes(store)[queue.min_offset - queue.row.start // 20] < first + FILE
    assert {each.body for each in read_queue(store)} >= set(by_tag(store, "t1")[-3:])
    store.close()
    again = open_ext(storage)
    assert again.reads.min_offset("Orders", 0) == queue.min_offset
    put_all(again, [tagged(200)])
    assert by_tag(again, "t2")[-1] == b"200"


def test_ST21_delayed_messages_keep_their_time() -> None:
    store = open_ext()
    properties = encode_properties({"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "0"})
    (result,) = put_all(store, [message(topic=SCHEDULE, queue_id=2, properties=properties)])
    times = []
    store.reads.get(SCHEDULE, 2, 0, 1, match=lambda code: times.append(code) is None)
    assert times == [result.store_timestamp + 10_000]


def test_ST21_a_full_disk_takes_nothing_half() -> None:
    storage = MemoryStorage()
    store = open_ext(storage)
    put_all(store, [tagged(0)])
    for folder in ("consumequeue/", "consumequeue_ext/"):
        with storage.failing("pwrite", code=errno.ENOSPC, under=folder):
            store.put(tagged(1))
            store.commit_pending()
            with pytest.raises(Exception, match="the disk is full"):
                store.reput()
        store.reput()
    assert len(bodies(store)) == 3
    ext = store._queues.find(("Orders", 0)).ext
    assert ext.end == 3 * 21  # nothing is left of what failed


# --- as Apache's broker wrote it -----------------------------------------------------------------------

EXPRESSIONS = {  # those of the groups in config/consumerFilter.json, with the bits that stand for them
    (110, 87, 64): lambda a, b, color: a is not None and int(a) > 3 and color == "red",
    (31, 38, 45): lambda a, b, color: a is not None and 2 <= int(a) <= 5,
    (46, 26, 44): lambda a, b, color: color in ("blue", "green") or b is not None,
}


def bit_map(properties: dict[str, str]) -> bytes:
    """The bits of all groups whose expression a message matches."""
    bits = bytearray(14)
    for positions, matches in EXPRESSIONS.items():
        if matches(properties.get("a"), properties.get("b"), properties.get("color")):
            for position in positions:
                bits[position // 8] |= 1 << position % 8
    return bytes(bits)


def test_ST21_every_entry_of_apaches_broker_says_what_its_message_says(tmp_path) -> None:
    golden = GoldenStore("5.3.3-sqlfilter", tmp_path)
    store = golden.open()
    compared = 0
    for row in golden.messages:
        queue = store._queues.find((row["topic"], row["queueId"]))
        _, _, address = queue.unit(row["queueOffset"])
        entry = queue.ext.get(address)
        code = tags_code(row["tags"]) if row["tags"] else 0
        assert entry == ExtEntry(code, row["storeTimestamp"], bit_map(row["properties"])), row["queueOffset"]
        compared += 1
    assert compared == 40
    store.close()


def test_ST21_ours_goes_on_where_apaches_broker_stopped(tmp_path) -> None:
    golden = GoldenStore("5.3.3-sqlfilter", tmp_path)
    before = {path: path.read_bytes() for path in golden.root.glob(f"{FOLDER}/*/*/*")}
    ends = golden.queues()
    store = golden.open()
    store.keep_bit_maps(Bits(Everything()))
    put_all(store, [tagged(number, topic="GS_SQL", queue_id=1) for number in range(200)])
    queue = store._queues.find(("GS_SQL", 1))
    _, _, address = queue.unit(ends["GS_SQL", 1][1])
    assert address == queue.unit(ends["GS_SQL", 1][1] - 1)[2] + 34
    store.close()
    for path, content in before.items():
        written = content.rstrip(b"\0")
        assert path.read_bytes()[: len(written)] == written
    assert {path.stat().st_size for path in golden.root.glob(f"{FOLDER}/*/*/*")} == {4096}
    again = golden.open()
    queue = again._queues.find(("GS_SQL", 1))
    codes = [queue.ext.get(queue.unit(offset)[2]).tags_code for offset in range(*ends["GS_SQL", 1])]
    wanted = [row["tags"] for row in golden.messages if row["queueId"] == 1]
    assert codes == [tags_code(tag) if tag else 0 for tag in wanted]
    assert queue.max_offset == ends["GS_SQL", 1][1] + 200
    again.close()


def test_ST21_after_a_crash_apaches_entries_are_found_again(tmp_path) -> None:
    golden = GoldenStore("5.3.3-sqlfilter", tmp_path)
    (golden.root / "abort").touch()
    store = golden.open()
    for row in golden.messages:
        queue = store._queues.find((row["topic"], row["queueId"]))
        code = queue.unit(row["queueOffset"])[2]
        wanted = tags_code(row["tags"]) if row["tags"] else 0
        if is_address(code):
            entry = queue.ext.get(code)
            assert (entry.tags_code, entry.store_timestamp) == (wanted, row["storeTimestamp"])
        else:  # built again from the log
            assert code == wanted
    store.close()
