"""Shares of queues: the same as in Java, complete and even."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.config.strategy_names import STRATEGY_NAMES
from rocketpy.consumer.rebalancing.allocate import allocate, java_sorted, strategy
from rocketpy.consumer.rebalancing.rebalance_plan import plan_rebalance
from rocketpy.consumer.rebalancing.strategies import (
    AllocateAveragely,
    AllocateByCircle,
    AllocateByConfig,
    AllocateByMachineRoom,
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    AllocateStrategy,
)
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from tests.consumer.helpers import Unspeakable
from tests.vectors import java_cases, vector

AVERAGELY, BY_CIRCLE, HASH = AllocateAveragely(), AllocateByCircle(), AllocateConsistentHash()
INNER = {"AVG": AVERAGELY, "AVG_BY_CIRCLE": BY_CIRCLE}
ROOM = "room1"


def first_part(text: str) -> str:
    return text.partition("-")[0]


def nearby(inner: AllocateStrategy) -> AllocateMachineRoomNearby:
    return AllocateMachineRoomNearby(inner, lambda queue: first_part(queue.broker_name), first_part)


MAKERS: dict[str, Callable[[dict[str, Any]], AllocateStrategy]] = {
    "allocate_avg": lambda setting: AVERAGELY,
    "allocate_circle": lambda setting: BY_CIRCLE,
    "allocate_consistent_hash": lambda setting: AllocateConsistentHash(setting["virtualNodes"]),
    "allocate_machine_room": lambda setting: AllocateByMachineRoom(setting["idcs"]),
    "allocate_machine_room_nearby": lambda setting: nearby(INNER[setting["inner"]]),
}


def queues_of(topic: str, text: str) -> list[MessageQueue]:
    """From "broker-a:4,broker-b:2" to queues."""
    found = []
    for part in text.replace(",", ";").split(";"):
        name, _, count = part.rpartition(":")
        found += [MessageQueue(topic, name, number) for number in range(int(count))]
    return found


def named(queues: list[MessageQueue]) -> list[str]:
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in queues]


@pytest.mark.parametrize(("name", "given", "shares"), [(name, *case) for name in MAKERS for case in java_cases(name)])
def test_RB1_shares_are_those_of_java(name: str, given: dict[str, Any], shares: dict[str, list[str]]) -> None:
    queues = queues_of(given["topic"], given["queues"])
    setting = given.get("setting", {})
    share_out = MAKERS[name](setting)
    for client_id, share in shares.items():
        found = allocate(share_out, queues, given["cids"], setting.get("ownId") or client_id)
        assert named(found) == sorted(share)


def test_RB1_no_case_of_java_is_left_out() -> None:
    from tests.vectors import _document

    counted = {name for name in _document("vectors_java.json")["counts"] if name.startswith("allocate_")}
    assert counted == {*MAKERS, "allocate_name"}


@pytest.mark.parametrize(("java", "name"), java_cases("allocate_name"))
def test_RB1_strategies_have_the_names_of_java(java: str, name: str) -> None:
    ours = {
        "AllocateMessageQueueAveragely": AVERAGELY,
        "AllocateMessageQueueAveragelyByCircle": BY_CIRCLE,
        "AllocateMessageQueueConsistentHash": HASH,
        "AllocateMessageQueueByMachineRoom": AllocateByMachineRoom([ROOM]),
        "AllocateMessageQueueByConfig": AllocateByConfig([]),
    }
    assert ours[java].name == name
    assert nearby(ours[java]).name == f"MACHINE_ROOM_NEARBY-{name}"


@pytest.mark.parametrize(
    ("share_out", "name", "count"),
    [
        (AVERAGELY, "allocate_avg_8mq_3cid", 8),
        (AVERAGELY, "allocate_avg_2mq_3cid", 2),
        (BY_CIRCLE, "allocate_circle_8mq_3cid", 8),
    ],
)
def test_RB1_shares_are_those_of_the_table(share_out: Any, name: str, count: int) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
    expected = vector(name)
    for client_id, numbers in expected.items():
        assert [queue.queue_id for queue in allocate(share_out, queues, list(expected), client_id)] == numbers


def test_RB1_shares_on_the_ring_are_those_of_the_table() -> None:
    table = vector("allocate_consistent_hash")
    queues = [MessageQueue(*queue) for queue in table["mq"]]
    for client_id in table["cid"]:
        share = allocate(AllocateConsistentHash(table["virtual_nodes"]), queues, table["cid"], client_id)
        assert [[each.topic, each.broker_name, each.queue_id] for each in share] == table["result"][client_id]


def java_averagely(queues: int, members: int, index: int) -> range:
    """As FACTS has it, in Java's own steps."""
    mod = queues % members
    size = 1 if queues <= members else queues // members + (1 if mod > 0 and index < mod else 0)
    start = index * size if mod > 0 and index < mod else index * size + mod
    return range(start, start + max(0, min(size, queues - start)))


@pytest.mark.slow
def test_RB1_all_numbers_of_queues_and_members() -> None:
    for count in range(1, 65):
        queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
        for members in range(1, 17):
            ids = [f"c{number:02}" for number in range(members)]
            for index, each in enumerate(ids):
                share = [queue.queue_id for queue in allocate(AVERAGELY, queues, ids, each)]
                assert share == list(java_averagely(count, members, index))
                dealt = [queue.queue_id for queue in allocate(BY_CIRCLE, queues, ids, each)]
                assert dealt == list(range(index, count, members))


_IDS = st.sets(st.text("abc@#123.", min_size=1, max_size=6), min_size=1, max_size=16)


@pytest.mark.parametrize("share_out", [AVERAGELY, BY_CIRCLE, HASH, AllocateByMachineRoom([ROOM]), nearby(AVERAGELY)])
@given(count=st.integers(0, 64), ids=_IDS)
def test_RB1_every_queue_goes_to_one_member_and_shares_are_even(share_out: Any, count: int, ids: set[str]) -> None:
    queues = [MessageQueue("T", f"{ROOM}@{number % 3}", number // 3) for number in range(count)]
    shares = [allocate(share_out, queues, sorted(ids, reverse=True), each) for each in ids]
    assert sorted(queue for share in shares for queue in share) == sorted(queues)
    if share_out in (AVERAGELY, BY_CIRCLE, AllocateByMachineRoom([ROOM])):
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.slow
@given(count=st.integers(1, 64), ids=_IDS)
def test_RB1_on_the_ring_only_queues_of_the_one_who_left_move(count: int, ids: set[str]) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
    leaver = min(ids)
    if rest := ids - {leaver}:
        for each in rest:
            assert set(allocate(HASH, queues, ids, each)) <= set(allocate(HASH, queues, rest, each))


def test_complaint_22_members_that_get_the_lists_in_any_order_make_the_shares_that_java_makes() -> None:
    """Brokers and name servers give members and queues in different orders to different members."""
    cases = [each for each in java_cases("allocate_avg") if "ownId" not in each[0].get("setting", {})]
    assert len(cases) == 30  # in the other one a stranger asks
    for seed, (case, shares) in enumerate(cases):
        chance, queues, ids = Random(seed), queues_of(case["topic"], case["queues"]), list(case["cids"])
        owners: Counter[str] = Counter()
        for client_id, share in shares.items():
            chance.shuffle(queues)
            chance.shuffle(ids)
            found = named(allocate(AVERAGELY, queues, ids, client_id))
            assert found == sorted(share)
            owners.update(found)
        assert owners == dict.fromkeys(named(queues), 1)


def test_RB1_whoever_is_not_in_the_list_gets_nothing() -> None:
    assert allocate(AVERAGELY, queues_of("T", "broker-a:4"), ["c1", "c2"], "c3") == []


def test_RB1_given_queues_are_taken_without_a_question() -> None:
    mine = AllocateByConfig([MessageQueue("T", "broker-a", 2), MessageQueue("U", "broker-a", 1)])
    queues = queues_of("T", "broker-a:4")
    assert allocate(mine, queues, ["c1", "c2"], "c1", topic="T") == [MessageQueue("T", "broker-a", 2)]
    assert allocate(mine, queues[:2], ["c1"], "c1", topic="T") == []  # its broker is away
    retries = [MessageQueue("%RETRY%g", "broker-a", 0)]
    assert allocate(mine, retries, ["c1", "c2"], "c1", topic="%RETRY%g") == retries
    assert allocate(mine, retries, ["c1", "c2"], "c2", topic="%RETRY%g") == []


def test_ids_sort_as_java_sorts_them() -> None:
    # U+FF21 comes after U+1F600 by UTF-16 code units, before it by code points.
    assert java_sorted(["\uff21", "\U0001f600", "b", "B", "b"]) == ["B", "b", "\U0001f600", "\uff21"]


def test_strategies_have_names() -> None:
    assert [strategy(name) for name in STRATEGY_NAMES] == [AVERAGELY, BY_CIRCLE, HASH]
    assert strategy(nearby) is nearby  # type: ignore[arg-type, comparison-overlap]  whatever can be called
    with pytest.raises(ConfigError, match="no allocation strategy 'nearby'"):
        strategy("nearby")


def test_a_function_of_the_users_own_hears_everything() -> None:
    heard = []

    def mine(request: Any) -> Any:
        heard.append(request)
        return iter(request.queues[1:2])

    queues = queues_of("T", "broker-a:3")
    assert allocate(mine, queues[::-1], ["c2", "c1"], "c2", group="g", topic="T") == queues[1:2]
    (request,) = heard
    assert (request.group, request.topic, request.client_id, request.index) == ("g", "T", "c2", 1)
    assert (request.queues, request.client_ids) == (tuple(queues), ("c1", "c2"))


def raise_it(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda request: None, "returned None instead of a list"),
        (lambda request: "broker-a", "instead of a list"),
        (lambda request: [("T", "broker-a", 0)], "not one of the 3 queues"),
        (lambda request: [MessageQueue("T", "broker-z", 0)], "not one of the 3 queues"),
        (lambda request: [[]], "not one of the 3 queues"),
        (lambda request: 1 // 0, "ZeroDivisionError"),
        (lambda request: raise_it(Unspeakable()), "Unspeakable: its str raised RuntimeError"),
        (lambda request: [Unspeakable()], "returned <Unspeakable whose repr raised RuntimeError>, which is not one"),
        (Unspeakable(), "ZeroDivisionError"),
        (nearby(AVERAGELY).__class__(AVERAGELY, lambda queue: "", first_part), "machine room of .* is not known"),
    ],
)
def test_a_function_with_a_mistake_is_told_so(answer: Any, says: str) -> None:
    with pytest.raises(
        ConfigError, match=f"failed for T; this member keeps its queues, and calls it again soon: .*{says}"
    ):
        allocate(answer, queues_of("T", "broker-a:3"), ["c1"], "c1", topic="T")


@pytest.mark.parametrize(
    "make",
    [
        lambda: AllocateByConfig(["T"]),  # type: ignore[list-item]
        lambda: AllocateByConfig(7),  # type: ignore[arg-type]
        lambda: AllocateByMachineRoom("room1"),
        lambda: AllocateByMachineRoom([]),
        lambda: AllocateByMachineRoom(7),  # type: ignore[arg-type]
        lambda: AllocateConsistentHash(0),
        lambda: AllocateConsistentHash("ten"),  # type: ignore[arg-type]
        lambda: AllocateMachineRoomNearby("averagely", str, first_part),  # type: ignore[arg-type]
    ],
)
def test_strategies_check_what_they_are_given(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


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
