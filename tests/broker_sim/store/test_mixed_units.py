"""Messages without a bit map beside those that have one: ordinary units beside those that lead to the extension."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.queue.consume_queue_ext import FOLDER, is_address
from tests.broker_sim.store.ext_helpers import by_tag, ext_codes, open_ext, tagged
from tests.broker_sim.store.helpers import open_store, put_all, read_queue


def test_ST21_without_a_bit_map_queues_are_as_if_there_were_no_extension() -> None:
    storage, plain = MemoryStorage(), open_store()
    store = open_ext(storage, topics={"Other"})
    for each in (store, plain):
        put_all(each, [tagged(number) for number in range(50)])
    queue = store._queues.find(("Orders", 0))
    assert queue.ext is None
    assert storage.list(FOLDER) == []
    assert [unit[2] for unit in queue.units(0, 50)] == [
        unit[2] for unit in plain._queues.find(("Orders", 0)).units(0, 50)
    ]


def test_ST21_a_topic_that_is_filtered_for_a_while() -> None:
    storage, topics = MemoryStorage(), set[str]()
    store = open_ext(storage, topics)
    for first in range(0, 120, 20):
        topics.symmetric_difference_update({"Orders"})
        put_all(store, [tagged(number) for number in range(first, first + 20)])
    kinds = [number % 40 < 20 for number in range(120)]
    assert [is_address(code) for code in ext_codes(store)] == kinds
    assert by_tag(store, "t1") == [b"%d" % number for number in range(1, 120, 3)]
    store.close()
    again = open_ext(storage)
    assert [is_address(code) for code in ext_codes(again)] == kinds
    queue = again._queues.find(("Orders", 0))
    assert queue.ext.end == ext_codes(again)[99] + 2**63 + 21
    put_all(again, [tagged(number) for number in range(120, 150)])
    assert by_tag(again, "t2") == [b"%d" % number for number in range(2, 150, 3)]


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_ST21_no_entry_goes_where_an_older_unit_leads(crashed: bool, lost: bool) -> None:
    """The last units are ordinary ones, thousands of them, so that the end is not told by the last unit."""
    storage, topics = MemoryStorage(), {"Orders"}
    store = open_ext(storage, topics)
    put_all(store, [tagged(number) for number in range(60)])
    topics.clear()
    put_all(store, [tagged(number) for number in range(60, 400)])
    store.flushing.flush_all()
    if not crashed:
        store.close()
    if lost:
        for name in storage.list(f"{FOLDER}/Orders/0"):
            storage.unlink(f"{FOLDER}/Orders/0/{name}")
    again = open_ext(storage.clone() if crashed else storage)
    put_all(again, [tagged(number) for number in range(400, 460)])
    codes = ext_codes(again)
    assert [is_address(code) for code in codes] == [True] * 60 + [False] * 340 + [True] * 60
    assert codes[400] > codes[59] + 20
    found = by_tag(again, "t1")
    assert set(found) >= {b"%d" % number for number in range(1, 460, 3)}
    assert [body for body in found if int(body) >= 60] == [b"%d" % number for number in range(61, 460, 3)]


def test_ST21_entries_go_when_all_units_that_lead_there_have_gone() -> None:
    storage, topics = MemoryStorage(), {"Orders"}
    store = open_ext(storage, topics)
    put_all(store, [tagged(number) for number in range(150)])
    topics.clear()
    put_all(store, [tagged(number) for number in range(150, 400)])
    store.flushing.flush_all()
    queue = store._queues.find(("Orders", 0))
    assert len(queue.ext.row.files) == 4
    queue.min_offset = 140
    while queue.delete_expired() is not None:
        pass
    assert queue.ext.row.start <= ext_codes(store)[140 - queue.row.start // 20] + 2**63
    assert {each.body for each in read_queue(store)} >= {b"%d" % number for number in range(140, 400)}
    queue.min_offset = 160
    while queue.delete_expired() is not None:
        pass
    assert len(queue.ext.row.files) == 1  # the last one stays


def test_ST21_entries_stay_while_the_first_units_are_ordinary_ones() -> None:
    storage, topics = MemoryStorage(), set[str]()
    store = open_ext(storage, topics)
    put_all(store, [tagged(number) for number in range(30)])
    topics.add("Orders")
    put_all(store, [tagged(number) for number in range(30, 200)])
    store.flushing.flush_all()
    queue = store._queues.find(("Orders", 0))
    queue.min_offset = 10
    while queue.delete_expired() is not None:
        pass
    assert queue.ext.row.start == 0
