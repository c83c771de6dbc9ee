"""Where groups stand: committed, asked, kept, reset, forgotten with their topic or group."""

from __future__ import annotations

import pytest

from rocketpy.errors import BrokerError
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND, ConsumerOffsetTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage


def make(storage: MemoryStorage | None = None, **settings: object) -> ConsumerOffsetTable:
    return ConsumerOffsetTable(BrokerConfig(**settings), storage or MemoryStorage())  # type: ignore[arg-type]


def test_OF2_a_commit_is_found_again_and_nothing_else_is() -> None:
    table = make()
    table.commit("G", "T", 0, 10)
    table.commit("G", "T", 1, 0)
    assert table.query("G", "T", 0) == 10
    assert table.query("G", "T", 1) == 0
    for group, topic, queue in (("G", "T", 2), ("G", "U", 0), ("H", "T", 0), ("T", "G", 0)):
        assert table.query(group, topic, queue) == NOT_FOUND
    assert table.queues("G", "T") == {0: 10, 1: 0}
    assert table.topics_of("G") == {"T"}
    assert table.groups_of("T") == {"G"}


def test_OF2_offsets_survive_a_restart() -> None:
    storage = MemoryStorage()
    table = make(storage)
    for queue in range(20):
        table.commit("G", "%RETRY%G", queue, queue * 2**33)
    table.persist()
    again = make(storage)
    assert again.load()
    assert again.queues("G", "%RETRY%G") == {queue: queue * 2**33 for queue in range(20)}
    assert not again.changed


def test_OF2_offsets_go_with_their_topic_and_with_their_group() -> None:
    table = make()
    for topic in ("T", "TT", "G"):
        for group in ("G", "GG", "T"):
            table.commit(group, topic, 0, 1)
            table.assign_resets(group, topic, {1: 1})
    table.remove_topic("T")
    assert table.groups_of("T") == set()
    assert table.groups_of("TT") == table.groups_of("G") == {"G", "GG", "T"}
    table.remove_group("G")
    assert table.topics_of("G") == set()
    assert table.topics_of("GG") == table.topics_of("T") == {"TT", "G"}
    assert not table.has_reset("G", "TT", 1)
    assert table.has_reset("GG", "TT", 1)


def test_threat_A9_a_commit_may_go_back_and_is_counted() -> None:
    table = make()
    table.commit("G", "T", 0, 10)
    table.commit("G", "T", 0, 9)
    assert table.query("G", "T", 0) == 9
    assert table.backward_commits == 1


def test_the_version_rises_with_every_so_many_commits() -> None:
    table = make(consumer_offset_update_version_step=3)
    for offset in range(7):
        table.commit("G", "T", 0, offset)
    assert table.data_version.counter == 2


def test_a_reset_holds_until_it_is_taken() -> None:
    table = make()
    table.commit("G", "T", 0, 10)
    table.assign_resets("G", "T", {0: 3})
    assert table.query("G", "T", 0) == 3
    assert table.has_reset("G", "T", 0)
    assert table.take_reset("G", "T", 0) == 3
    assert table.take_reset("G", "T", 0) is None
    assert not table.has_reset("G", "T", 0)
    assert table.query("G", "T", 0) == 3


def test_a_reset_can_be_switched_off() -> None:
    table = make(use_server_side_reset_offset=False)
    table.assign_resets("G", "T", {0: 3})
    table.commit("G", "T", 0, 10)
    assert table.query("G", "T", 0) == 10


def test_keys_without_a_group_in_a_file_are_left_out() -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic("config/consumerOffset.json", b'{"offsetTable":{"T@G":{0:5},"T":{0:1}}}')
    table = make(storage)
    table.load()
    assert dict(table.table()) == {"T@G": {0: 5}}


def test_the_table_has_a_bound_and_what_is_in_it_goes_on() -> None:
    table = make(max_consumer_offsets=3)
    for queue in range(3):
        table.commit("G", "T", queue, 1)

    def reset(group: str, topic: str, queue_id: int, offset: int) -> None:
        table.assign_resets(group, topic, {queue_id: offset})

    for more in (table.commit, reset):
        with pytest.raises(BrokerError, match="3 offsets of consumers"):
            more("G", "T", 3, 1)
        with pytest.raises(BrokerError, match="delete unused groups"):
            more("H", "T", 0, 1)
    assert not table.has_reset("G", "T", 3)
    assert table.groups_of("T") == {"G"}
    table.commit("G", "T", 2, 7)
    table.assign_resets("G", "T", {1: 0})
    table.remove_group("G")
    table.commit("H", "T", 0, 1)
    table.persist()


def test_offsets_are_forgotten_a_few_a_step_and_others_may_forget_them_too() -> None:
    table = make()
    for number in range(100):
        table.commit(f"G{number}", "T", 0, 1)
        table.commit("G", f"T{number}", 0, 1)
    for steps, forget in (
        (table.remove_topic_steps("T"), lambda: table.remove_group("G99")),
        (table.remove_group_steps("G"), lambda: table.remove_topic("T99")),
    ):
        next(steps)
        forget()
        assert sum(1 for _ in steps) == 3
    assert not table.table()
    assert not table.groups_of("T")
    assert not table.topics_of("G")


def test_what_goes_with_a_topic_or_group_is_known_after_a_restart() -> None:
    storage = MemoryStorage()
    table = make(storage)
    for group in ("G", "H"):
        for topic in ("T", "U"):
            table.commit(group, topic, 0, 1)
    table.persist()
    again = make(storage, max_consumer_offsets=4)
    again.load()
    assert again.topics_of("G") == {"T", "U"}
    with pytest.raises(BrokerError):
        again.commit("G", "T", 1, 1)
    again.remove_topic("T")
    assert dict(again.table()) == {"U@G": {0: 1}, "U@H": {0: 1}}
    again.commit("G", "T", 1, 1)


def test_OF2_after_an_unclean_stop_nobody_stands_beyond_the_end_before_it_has_pulled() -> None:
    storage = MemoryStorage()
    table = make(storage)
    for group in ("G", "H", "I"):
        for queue in (0, 1):
            table.commit(group, "T", queue, 10)
    table.persist()
    table = make(storage)
    table.load()
    before = table._room.taken
    assert not table.is_lost("G", "T", 0, 99)  # after a clean stop everybody knows what it does
    table.note_ends(lambda topic, queue_id: {("T", 0): 10, ("T", 1): 20}[topic, queue_id])
    assert table._room.taken > before
    assert [table.is_lost("G", "T", 0, offset) for offset in (9, 10, 11)] == [False, False, True]
    assert [table.is_lost("G", "T", 1, offset) for offset in (11, 20, 21)] == [False, False, True]
    assert not table.is_lost("new", "T", 0, 11)
    assert not table.is_lost("G", "T", 7, 11)
    table.note_pull("G", "T", 0)
    table.note_pull("G", "T", 0)
    assert not table.is_lost("G", "T", 0, 11)
    assert table.is_lost("G", "T", 1, 21)
    table.remove_group("H")
    assert not table.is_lost("H", "T", 0, 11)
    table.note_pull("G", "T", 1)
    table.note_pull("I", "T", 0)
    table.note_pull("I", "T", 1)
    table.remove_topic("T")
    assert table._room.taken == 0
