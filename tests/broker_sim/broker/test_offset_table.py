"""Where groups stand: committed, asked, kept, reset, forgotten with their topic or group."""

from __future__ import annotations

import pytest

from rocketpy.errors import BrokerError
from rocketpy.remoting.budget import Budget
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND, ConsumerOffsetTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.memory import TableRoom
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


def test_the_file_has_all_queues_of_a_reset_or_none() -> None:
    table = make()
    table.assign_resets("G", "T", dict.fromkeys(range(100), 1))
    steps = table.encode_steps()
    for _ in range(4):
        next(steps)
    table.assign_resets("G", "T", dict.fromkeys(range(100), 2))
    again = make()
    again.decode(run_steps(steps))
    assert again.queues("G", "T") == dict.fromkeys(range(100), 1)


def test_a_reset_that_is_taken_up_leaves_the_offset_of_its_group() -> None:
    table = make()
    table.assign_resets("G", "T", {0: 3, 1: 4})
    table.assign_resets("G", "T", {1: 5})
    for _ in range(2):
        table.tell_reset("G", "T", 0, client="one", offset=3)
    assert not table.has_reset("G", "T", 0)
    table.commit("G", "T", 1, 9)
    assert table.queues("G", "T") == {0: 3, 1: 9}
    assert table.query("G", "T", 1) == 5


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


def tell(table: ConsumerOffsetTable, client: str, offset: int, queue_id: int = 0) -> int | None:
    return table.tell_reset("G", "T", queue_id, client=client, offset=offset)


def test_every_pull_is_told_of_a_reset_until_a_client_that_was_told_takes_it_up() -> None:
    table = make()
    table.commit("G", "T", 0, 10)
    table.assign_resets("G", "T", {0: 3, 1: 4})
    assert tell(table, "gone", 10) == 3  # its client has given this pull up, because the queue has moved
    assert table.query("G", "T", 0) == 3
    assert tell(table, "owner", 10) == 3
    assert tell(table, "owner", 10) == 3  # this pull was sent before the last answer arrived
    assert table.has_reset("G", "T", 0)
    assert tell(table, "owner", 3) is None
    assert not table.has_reset("G", "T", 0)
    assert tell(table, "gone", 10) is None
    assert table.query("G", "T", 0) == 3
    assert table.has_reset("G", "T", 1)
    assert tell(table, "owner", 3, queue_id=1) == 4


def test_a_client_at_the_new_position_is_told_too_for_it_may_hold_messages_from_before() -> None:
    table = make()
    table.assign_resets("G", "T", {0: 10})
    assert tell(table, "new", 10) == 10
    assert tell(table, "other", 10) == 10
    assert tell(table, "new", 10) is None


def test_a_client_that_comes_from_another_address_each_time_takes_a_reset_up() -> None:
    table = make()
    table.assign_resets("G", "T", {0: 3})
    assert [tell(table, f"client:{port}", 3 if port else 10) for port in range(6)] == [3, 3, 3, 3, 3, None]
    assert not table.has_reset("G", "T", 0)


def test_a_client_that_goes_on_where_it_likes_is_told_a_few_times() -> None:
    table = make()
    table.assign_resets("G", "T", {0: 3})
    assert [tell(table, "stubborn", 10) for _ in range(6)] == [3, 3, 3, 3, 3, None]
    assert not table.has_reset("G", "T", 0)


def test_another_reset_is_told_to_all_again() -> None:
    table = make()
    table.assign_resets("G", "T", {0: 3})
    assert tell(table, "owner", 10) == 3
    table.assign_resets("G", "T", {0: 5})
    assert tell(table, "owner", 5) == 5
    assert tell(table, "owner", 5) is None
    table.assign_resets("G", "T", {0: 3})
    assert tell(table, "owner", 5) == 3
    table.remove_group("G")
    assert tell(table, "owner", 5) is None
    table.assign_resets("G", "T", {0: 3})
    assert tell(table, "owner", 3) == 3


def test_a_reset_is_told_once_where_there_is_no_room_to_remember_it() -> None:
    budget = Budget(8 * 1024)
    table = ConsumerOffsetTable(BrokerConfig(), MemoryStorage(), TableRoom(budget))
    table.assign_resets("G", "T", {0: 3, 1: 4})
    budget.note_table(budget.most_in_tables - budget.tables - 500)
    before = budget.tables
    assert tell(table, "owner", 10) == 3
    assert table.has_reset("G", "T", 0)
    assert tell(table, "owner", 10, queue_id=1) == 4
    assert not table.has_reset("G", "T", 1)
    assert tell(table, "owner", 3) is None
    assert budget.tables < before


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


def test_OF2_threat_A9_after_an_unclean_stop_nobody_stands_beyond_the_end_before_it_has_pulled() -> None:
    storage = MemoryStorage()
    table = make(storage)
    for group in ("G", "H", "I"):
        for queue in (0, 1):
            table.commit(group, "T", queue, 10)
    table.persist()
    table = make(storage)
    table.load()
    before = table._room.taken
    assert not table.is_lost("G", "T", 0, 99)  # after a clean stop the offsets of all groups are trusted
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
