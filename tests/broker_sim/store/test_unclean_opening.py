"""Opening after a crash touches only the queues that may lack units, and recreates no file."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.checkpoint import read_checkpoint, write_checkpoint
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.queue.consume_queue import UNIT
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

QUEUES = [(f"Topic-{number}", queue_id) for number in range(4) for queue_id in range(2)]
LOG = {"mapped_file_size_commit_log": 1 << 16}
"""All of it lies in one file."""


def put_round(store, turn: int, queues=QUEUES) -> list:
    return put_all(store, [message(b"%d" % turn, topic=topic, queue_id=queue_id) for topic, queue_id in queues])


def crashed(vouched: int, behind: int = 0, behind_queues=QUEUES) -> MemoryStorage:
    """What a killed broker leaves, with so many rounds that the checkpoint vouches for and so many behind them."""
    storage = MemoryStorage()
    store = open_store(storage, **LOG)
    for turn in range(vouched):
        put_round(store, turn)
    store.flushing.flush_all()
    for turn in range(vouched, vouched + behind):
        put_round(store, turn, behind_queues)
    store.abandon()
    return storage


def changes(storage: MemoryStorage) -> list[tuple[str, str]]:
    """What happens to files of queues from now on."""
    seen: list[tuple[str, str]] = []

    def note(what: str, path: str, size: int) -> None:
        if path.startswith("consumequeue/"):
            seen.append((what, path))

    storage.fault = note
    return seen


def held(storage: MemoryStorage) -> dict:
    store = open_store(storage, **LOG)
    found = {(topic, queue_id): bodies(store, queue_id=queue_id, topic=topic) for topic, queue_id in QUEUES}
    store.abandon()
    return found


def rounds(count: int) -> dict:
    return {key: [b"%d" % turn for turn in range(count)] for key in QUEUES}


def damage_units(storage: MemoryStorage, key: tuple[str, int], offset: int, data: bytes) -> None:
    storage.open(f"consumequeue/{key[0]}/{key[1]}/{0:020d}").pwrite(data, offset * UNIT.size)


def forget_count(storage: MemoryStorage) -> None:
    """Let the checkpoint not say how many units there are, as after a topic was deleted."""
    write_checkpoint(storage, attrs.evolve(read_checkpoint(storage), units=None))


def test_queues_that_the_checkpoint_vouches_for_are_left_alone():
    storage = crashed(3, behind=2, behind_queues=QUEUES[:1])
    seen = changes(storage)
    found = held(storage)
    touched = {path for what, path in seen if what in ("create", "truncate", "pwrite", "unlink")}
    assert touched == {f"consumequeue/Topic-0/0/{0:020d}"}
    assert found == {**rounds(3), QUEUES[0]: [b"0", b"1", b"2", b"3", b"4"]}


@pytest.mark.parametrize("ours", [True, False])
def test_no_file_is_made_anew_when_all_units_are(ours):
    storage = crashed(0, behind=4)
    if not ours:
        storage.open("checkpoint").truncate(40)  # times alone, as Apache's broker writes them
    seen = changes(storage)
    assert held(storage) == rounds(4)
    assert {what for what, _ in seen if what in ("create", "truncate", "unlink")} == set()
    assert len({path for what, path in seen if what == "pwrite"}) == len(QUEUES)


def test_queues_whose_records_are_lost_keep_no_files():
    storage = crashed(2, behind=1, behind_queues=[("New", 0)])
    log = storage.open(f"commitlog/{0:020d}")
    log.clear(read_checkpoint(storage).flushed)
    assert held(storage) == rounds(2)
    assert storage.list("consumequeue/New/0") == []


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_units_that_are_gone_though_vouched_for_are_built_anew(offset):
    storage = crashed(3, behind=1)
    forget_count(storage)
    damage_units(storage, QUEUES[5], offset, bytes((4 - offset) * UNIT.size))
    assert held(storage) == rounds(4)
    assert held(storage) == rounds(4)


def test_a_queue_that_is_gone_though_vouched_for_is_built_anew():
    storage = crashed(3)
    forget_count(storage)
    storage.unlink(f"consumequeue/Topic-1/1/{0:020d}")
    storage.remove_dir("consumequeue/Topic-1/1")
    assert held(storage) == rounds(3)


def test_a_last_unit_that_leads_to_an_older_record_is_built_anew():
    storage = crashed(3)
    forget_count(storage)
    damage_units(storage, QUEUES[3], 2, UNIT.pack(7, 100, 0))
    assert held(storage) == rounds(3)


def test_a_unit_that_was_torn_does_not_pass_for_an_older_one():
    """Its last sector reached the disk, the one before with the high bytes of its position did not."""
    storage = crashed(3)
    damage_units(storage, QUEUES[0], 3, UNIT.pack(7, 100, 0))
    damage_units(storage, QUEUES[1], 4, UNIT.pack(7, 100, 0))
    assert held(storage) == rounds(3)
    for key in QUEUES[:2]:
        data = storage.read_bytes(f"consumequeue/{key[0]}/{key[1]}/{0:020d}")
        assert not any(data[3 * UNIT.size :])


def test_records_that_are_gone_though_vouched_for_stop_the_broker():
    storage = crashed(3)
    end = read_checkpoint(storage).flushed
    storage.open(f"commitlog/{0:020d}").clear(end // 2)
    with pytest.raises(StoreCorruptError, match="several messages"):
        open_store(storage, **LOG)
