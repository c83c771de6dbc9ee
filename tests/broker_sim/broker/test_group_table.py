"""The consumer groups of a broker: made on first use, changed, forbidden, forgotten, there again after a restart."""

from __future__ import annotations

import pytest

from rocketpy.errors import BrokerError, InvalidParameterError
from rocketpy.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from rocketpy.wire.enums import GroupRetryPolicyType
from rocketpy.wire.lenient_json import parse_json
from rocketpy_broker_sim.broker.tables.subscriptions import DEFAULT_GROUPS, SubscriptionGroupTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.slices import PAUSE
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.support import BAD_NAMES, golden_file
from tests.steps import longest

MOST_SECONDS = 0.0115
"""The most processor time that a step may take: most of it goes into Python's dict, when it has to grow."""
MOST_SECONDS_OF_A_TURN = 0.02


def make(storage: MemoryStorage | None = None, **settings: object) -> SubscriptionGroupTable:
    return SubscriptionGroupTable(BrokerConfig(**settings), storage or MemoryStorage())  # type: ignore[arg-type]


def groups(count: int) -> list[SubscriptionGroupConfig]:
    return [SubscriptionGroupConfig(group_name=f"g{number}") for number in range(count)]


def reopened(table: SubscriptionGroupTable, storage: MemoryStorage) -> SubscriptionGroupTable:
    table.persist()
    again = make(storage)
    assert again.load()
    return again


def test_the_groups_of_the_first_moment_are_those_of_apache() -> None:
    golden = parse_json(golden_file("5.3.3-clean", "subscriptionGroup.json"))["subscriptionGroupTable"]
    ours = {name: group.to_json() for name, group in make().all().items()}
    assert set(ours) == set(DEFAULT_GROUPS)
    assert {name: golden[name] for name in ours} == ours


def test_A4_groups_are_made_changed_and_deleted_and_survive_a_restart() -> None:
    storage = MemoryStorage()
    table = make(storage)
    table.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    table.put_all([SubscriptionGroupConfig(group_name="H"), SubscriptionGroupConfig(group_name="I")])
    again = reopened(table, storage)
    assert again.get("G") == SubscriptionGroupConfig(group_name="G", retry_max_times=3)
    assert {"H", "I"} <= set(again.all())
    again.put(SubscriptionGroupConfig(group_name="G", retry_max_times=5))
    assert again.delete("H")
    assert not again.delete("H")
    third = reopened(again, storage)
    assert third.get("G").retry_max_times == 5  # type: ignore[union-attr]
    assert "H" not in third
    assert third.data_version.counter == 4


def test_A4_many_groups_are_made_in_steps_and_told_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    table = make()
    caplog.set_level("INFO")
    steps = table.put_steps(groups(320))
    before = len(table.all())
    told = [each for each in steps if len(table.all()) == before]
    assert told == [None] * 10 + [PAUSE]  # to make them all takes a turn of its own
    assert len(table.all()) == before + 320
    assert len(caplog.records) == 21
    assert caplog.messages[-1] == "create or update 300 more groups"


@pytest.mark.slow
def test_A4_many_groups_are_made_changed_and_written_in_short_steps() -> None:
    table, made = make(), groups(75_000)
    table.put_all(made)
    changed = [SubscriptionGroupConfig(group_name=group.group_name, retry_max_times=3) for group in made[:20_000]]
    assert longest(lambda: table.put_steps(changed))[0] < MOST_SECONDS
    assert longest(table.encode_steps)[0] < MOST_SECONDS
    assert min(_longest_of_more(made) for _ in range(3)) < MOST_SECONDS
    assert min(_longest_while_others_come(changed) for _ in range(3)) < MOST_SECONDS_OF_A_TURN


def _longest_of_more(known: list[SubscriptionGroupConfig]) -> float:
    """The longest step when so many are added that the dict has to grow."""
    table = make()
    table.put_all(known)
    return longest(lambda: table.put_steps(groups(95_000)[len(known) :]), tries=1)[0]


def _longest_while_others_come(changed: list[SubscriptionGroupConfig]) -> float:
    """The longest step that changes groups when another one is made after the first step."""
    table = make()
    table.put_all(groups(len(changed)))
    steps = table.put_steps(changed)
    next(steps)
    table.put(SubscriptionGroupConfig(group_name="another"))
    return longest(lambda: steps, tries=1)[0]


def test_A4_a_group_that_is_changed_while_the_file_is_written_is_in_the_next_one() -> None:
    storage = MemoryStorage()
    table = make(storage)
    table.put_all(groups(100))
    writing = table.encode_steps()
    next(writing)
    table.put(SubscriptionGroupConfig(group_name="g99", retry_max_times=3))
    table.delete("g98")
    for _ in writing:
        pass
    again = reopened(table, storage)
    assert again.get("g99") == SubscriptionGroupConfig(group_name="g99", retry_max_times=3)
    assert "g98" not in again
    assert "g98" not in table._texts


def test_A4_what_groups_made_in_steps_take_is_right_though_others_come_and_go_between() -> None:
    table, alone = make(), make()
    table.put_all([SubscriptionGroupConfig(group_name="g1", retry_max_times=1)])
    steps = table.put_steps([*groups(100), *groups(50)])
    next(steps)
    table.put(SubscriptionGroupConfig(group_name="g2", attributes={"+a": "b" * 80}))
    table.delete("g1")
    for _ in steps:
        pass
    alone.put_all(groups(100))
    assert table._room.taken == alone._room.taken


def test_A4_an_unknown_group_is_made_on_first_use_when_that_is_allowed() -> None:
    table = make()
    assert table.get("G") is None
    assert table.find("G") == SubscriptionGroupConfig(group_name="G")
    assert table.changed
    closed = make(auto_create_subscription_group=False)
    assert closed.find("G") is None
    assert closed.find("CID_RMQ_SYS_X") is not None
    assert make(auto_create_subscription_group=False, enable_create_sys_group=False).find("CID_RMQ_SYS_X") is None


def test_A4_a_group_is_forbidden_topics_one_by_one_and_that_survives_a_restart() -> None:
    storage = MemoryStorage()
    table = make(storage)
    table.set_readable("G", "A", False)
    table.set_readable("G", "B", False)
    table.set_readable("H", "A", False)
    again = reopened(table, storage)
    assert not again.is_readable("G", "A")
    again.set_readable("G", "A", True)
    assert again.is_readable("G", "A")
    assert not again.is_readable("G", "B"), "allowing one topic allowed another"
    again.set_readable("G", "B", True)
    assert again.delete("H") is False
    assert again.is_readable("H", "A")
    assert dict(again.forbidden()) == {}
    assert reopened(again, storage).is_readable("G", "B")


def test_A4_other_forbidden_bits_of_a_file_are_kept() -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic(
        "config/subscriptionGroup.json",
        b'{"dataVersion":{"counter":1,"timestamp":1},"forbiddenTable":{"G":{"T":5},"E":{}},"subscriptionGroupTable":{}}',
    )
    table = make(storage)
    table.load()
    assert not table.is_readable("G", "T")
    table.set_readable("G", "T", True)
    assert table.forbidden() == {"G": {"T": 1}}
    assert "TOOLS_CONSUMER" in table


@pytest.mark.parametrize("name", BAD_NAMES)
def test_threat_A1_no_bad_name_becomes_a_group(name: str) -> None:
    table = make()
    before = dict(table.all())
    assert table.find(name) is None
    with pytest.raises(InvalidParameterError):
        table.put_all([SubscriptionGroupConfig(group_name="good"), SubscriptionGroupConfig(group_name=name)])
    assert dict(table.all()) == before
    assert not table.changed


def test_threat_L8_the_number_of_groups_is_bounded() -> None:
    table = make(max_groups=len(DEFAULT_GROUPS) + 1)
    table.find("A")
    with pytest.raises(
        BrokerError, match=f"holds {len(table)} groups, its own included, and may hold {len(table)}; 1 more"
    ):
        table.find("B")
    table.put(SubscriptionGroupConfig(group_name="A", retry_max_times=1))
    assert table.get("A").retry_max_times == 1  # type: ignore[union-attr]


def test_groups_keep_once_what_most_of_them_have_in_common() -> None:
    table, own = make(), GroupRetryPolicy(type=GroupRetryPolicyType.EXPONENTIAL)
    table.put_all([SubscriptionGroupConfig(group_name=name) for name in "ab"])
    table.put(SubscriptionGroupConfig(group_name="c", group_retry_policy=own))
    first, second, third = (table.get(name) for name in "abc")
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.group_retry_policy is second.group_retry_policy
    assert first.attributes is second.attributes
    assert (first.attributes, third.group_retry_policy) == ({}, own)
