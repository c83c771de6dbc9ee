"""Reasons why a store is not read or written: Java's bits, and what each of them stops."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.store.running_flags import RunningFlag, RunningFlags
from tests.broker_sim.store.helpers import OK, bodies, message, open_store, put_all
from tests.broker_sim.store.test_faults import REFUSED

TAKEN_ALL_THE_SAME = (RunningFlag.NOT_READABLE, RunningFlag.INDEX_ERROR)
"""Marks with which messages are taken; Apache's broker takes none when its index fails."""


def test_the_bits_are_those_of_java():
    assert [flag.value for flag in RunningFlag] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("flag", list(RunningFlag))
def test_what_each_flag_stops(flag):
    flags = RunningFlags()
    assert flags.is_readable
    assert flags.is_writable
    assert flags.set(flag)
    assert not flags.set(flag)
    assert flags.has(flag)
    assert flags.is_readable == (flag is not RunningFlag.NOT_READABLE)
    assert flags.is_writable == (flag in TAKEN_ALL_THE_SAME)
    assert flags.clear(flag)
    assert not flags.clear(flag)
    assert (flags.bits, str(flags)) == (0, "NONE")


def test_several_flags_are_named_together():
    flags = RunningFlags()
    flags.set(RunningFlag.DISK_FULL)
    flags.set(RunningFlag.NOT_READABLE)
    assert (flags.bits, str(flags)) == (17, "NOT_READABLE|DISK_FULL")


@pytest.mark.parametrize("flag", [flag for flag in RunningFlag if flag not in TAKEN_ALL_THE_SAME])
def test_K4_a_store_that_is_marked_takes_nothing_and_gives_what_it_has(flag):
    store = open_store()
    put_all(store, [message(b"before")])
    store.flags.set(flag)
    assert not store.is_writable
    assert store.put(message()).status is store.put_batch(message(b"", batch=[])).status is REFUSED
    assert bodies(store) == [b"before"]
    store.flags.clear(flag)
    assert store.put(message()).status is OK


def test_a_store_that_is_not_readable_takes_messages_and_gives_none():
    store = open_store()
    put_all(store, [message(b"before")])
    store.flags.set(RunningFlag.NOT_READABLE)
    assert store.put(message(b"after")).status is OK
    store.commit_pending()
    store.reput()
    with pytest.raises(StoreError, match="marked NOT_READABLE"):
        store.reads.get("Orders", 0, 0, 32)
    store.flags.clear(RunningFlag.NOT_READABLE)
    assert bodies(store) == [b"before", b"after"]


def test_K4_a_restart_clears_the_flags():
    store = open_store()
    store.flags.set(RunningFlag.QUEUE_ERROR)
    store.close()
    again = open_store(store._storage)
    assert again.flags.bits == 0
    assert again.put(message()).status is OK
