"""Shares of queues: the same as in Java, complete and even."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.consumer.allocate import allocate, averagely, by_circle, java_sorted, strategy
from rocketpy.consumer.rebalance import plan_rebalance
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from tests.vectors import java_cases, vector


def queues_of(topic: str, text: str) -> list[MessageQueue]:
    """From "broker-a:4,broker-b:2" to queues."""
    found = []
    for part in text.replace(",", ";").split(";"):
        name, _, count = part.rpartition(":")
        found += [MessageQueue(topic, name, number) for number in range(int(count))]
    return found


def named(queues: list[MessageQueue]) -> list[str]:
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in queues]


@pytest.mark.parametrize(
    ("share_out", "given", "shares"),
    [
        (share_out, given, shares)
        for share_out, name in ((averagely, "allocate_avg"), (by_circle, "allocate_circle"))
        for given, shares in java_cases(name)
    ],
)
def test_RB1_shares_are_those_of_java(share_out: Any, given: dict[str, Any], shares: dict[str, list[str]]) -> None:
    queues = queues_of(given["topic"], given["queues"])
    own_id = given.get("setting", {}).get("ownId")
    for client_id, share in shares.items():
        assert named(allocate(share_out, queues, given["cids"], own_id or client_id)) == share


@pytest.mark.parametrize(
    ("share_out", "name", "count"),
    [
        (averagely, "allocate_avg_8mq_3cid", 8),
        (averagely, "allocate_avg_2mq_3cid", 2),
        (by_circle, "allocate_circle_8mq_3cid", 8),
    ],
)
def test_RB1_shares_are_those_of_the_table(share_out: Any, name: str, count: int) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
    expected = vector(name)
    for client_id, numbers in expected.items():
        assert [queue.queue_id for queue in allocate(share_out, queues, list(expected), client_id)] == numbers


@pytest.mark.parametrize("share_out", [averagely, by_circle])
@given(count=st.integers(0, 64), ids=st.sets(st.text("abc@#123.", min_size=1, max_size=6), min_size=1, max_size=16))
def test_RB1_every_queue_goes_to_one_member_and_shares_are_even(share_out: Any, count: int, ids: set[str]) -> None:
    queues = [MessageQueue("T", f"broker-{number % 3}", number // 3) for number in range(count)]
    shares = [allocate(share_out, queues, sorted(ids, reverse=True), each) for each in ids]
    assert sorted(queue for share in shares for queue in share) == sorted(queues)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_RB1_whoever_is_not_in_the_list_gets_nothing() -> None:
    assert allocate(averagely, queues_of("T", "broker-a:4"), ["c1", "c2"], "c3") == []


def test_ids_sort_as_java_sorts_them() -> None:
    # U+FF21 comes after U+1F600 by UTF-16 code units, before it by code points.
    assert java_sorted(["\uff21", "\U0001f600", "b", "B", "b"]) == ["B", "b", "\U0001f600", "\uff21"]


def test_strategies_have_names() -> None:
    assert strategy("averagely") is averagely
    assert strategy("by_circle") is by_circle
    with pytest.raises(ConfigError, match="no allocation strategy 'nearby'"):
        strategy("nearby")


def test_a_plan_names_what_comes_and_what_goes() -> None:
    a, b, c = (MessageQueue("T", "broker-a", number) for number in range(3))
    assert plan_rebalance([c, b], [a, b]) == ((c,), (a,))
    assert plan_rebalance([a], [a]) == ((), ())
    assert plan_rebalance([], [b, a]) == ((), (a, b))


_QUEUES = st.sets(st.builds(MessageQueue, st.just("T"), st.sampled_from(["a", "b"]), st.integers(0, 9)))


@given(_QUEUES, _QUEUES)
def test_a_plan_leads_to_what_was_assigned(assigned: set[MessageQueue], current: set[MessageQueue]) -> None:
    plan = plan_rebalance(assigned, current)
    assert (current | set(plan.add)) - set(plan.drop) == assigned
    assert set(plan.drop) <= current
