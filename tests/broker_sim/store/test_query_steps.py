"""Lookups that grow with what is stored are taken in steps, each of which is little, whatever was put."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store.index.file import LOOK_AT, IndexFile
from rocketpy_broker_sim.store.steps import finish
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

FOREVER = (0, 2**62)


def long_chain(count: int):
    """A store all of whose keys share one slot."""
    store = open_store(max_hash_slot_num=1, max_index_num=count + 10, mapped_file_size_commit_log=1 << 22)
    put_all(store, [message(b"%d" % n, properties=f"KEYS\x01key{n}\x02") for n in range(count)])
    return store


def test_a_long_hash_chain_is_followed_a_little_at_a_time(monkeypatch):
    count = 5000
    store = long_chain(count)
    looked = []
    entry = IndexFile.entry

    def counted(file, number):
        looked.append(number)
        return entry(file, number)

    monkeypatch.setattr(IndexFile, "entry", counted)
    steps = store.keys.query_steps("Orders", "key0", 32, *FOREVER)
    most = taken = before = 0
    for _ in steps:
        taken += 1
        most, before = max(most, len(looked) - before), len(looked)
    most = max(most, len(looked) - before)
    assert len(looked) == count
    assert most <= LOOK_AT
    assert taken >= count // LOOK_AT
    assert len(store.keys.query("Orders", "key0", 32, *FOREVER).records) == 1


def test_what_is_stored_while_a_query_looks_does_not_disturb_it():
    store = long_chain(1000)
    steps = store.keys.query_steps("Orders", "key1", 32, *FOREVER)
    next(steps)
    put_all(store, [message(b"new%d" % n, properties="KEYS\x01key1\x02") for n in range(300)])
    assert len(finish(steps).records) == 1
    assert len(store.keys.query("Orders", "key1", 400, *FOREVER).records) == 64  # maxMsgsNumBatch


def test_a_file_that_is_cleaned_away_while_a_query_looks_is_left_out():
    store = open_store(max_hash_slot_num=1, max_index_num=200, mapped_file_size_commit_log=4096)
    put_all(store, [message(b"%d" % n, properties=f"KEYS\x01key{n}\x02") for n in range(900)])
    store.flushing.flush_all()
    assert len(store.index.files) > 3
    steps = store.keys.query_steps("Orders", "key0", 32, *FOREVER)
    next(steps)
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    store.flushing.prepare(everything=True)
    store.flushing.flush_all()
    while (index_file := store.retention.take_index_file()) is not None:
        store.retention.remove_index_file(index_file)
    assert len(store.index.files) < 3
    assert finish(steps).records == []


@pytest.mark.parametrize("topic", ["Orders", "None"])
def test_steps_and_the_whole_say_the_same(topic):
    store = long_chain(300)
    for key in ("key0", "key299", "other"):
        assert finish(store.keys.query_steps(topic, key, 8, *FOREVER)) == store.keys.query(topic, key, 8, *FOREVER)
    assert len(bodies(store)) > 0
