"""Each promise is told when it is broken, and by its number."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.schedules.history import Delivery, Fault, History, Kind, Sent
from tests.schedules.judge import ENOUGH, judge

QUEUE = ("broker-a", 0)


def delivery(number: int, at: float, *, group: str = "c", member: str = "c-1", **changes: Any) -> Delivery:
    made = Delivery(
        name=f"m{number}",
        group=group,
        member=member,
        place=QUEUE,
        offset=number,
        attempt=0,
        began=at,
        ended=at + 0.1,
        done=True,
    )
    return attrs.evolve(made, **changes)


def good(kind: Kind = Kind.CONCURRENT) -> History:
    """Fifty messages, each delivered once in its turn, all committed."""
    history = History({"c": kind}, most_attempts=2)
    for number in range(ENOUGH):
        history.sends.append(
            Sent(name=f"m{number}", producer="p", began=float(number), outcome="ok", place=QUEUE, offset=number)
        )
        history.deliveries.append(delivery(number, number + 0.5))
    history.commits["c", QUEUE] = [(0.0, 0), (100.0, ENOUGH)]
    history.owners["c", QUEUE] = ["c-1"]
    history.stayed["c"] = {"c-1": -1.0}
    return history


def broken(history: History) -> set[str]:
    return {violation.invariant for violation in judge(history)}


@pytest.mark.parametrize("kind", Kind)
def test_a_good_history_breaks_none(kind: Kind) -> None:
    assert broken(good(kind)) == set()


def test_I2_a_message_that_never_came() -> None:
    history = good()
    del history.deliveries[-1]
    history.commits.clear()
    assert broken(history) == {"I2"}


def test_I3_a_message_that_was_never_sent() -> None:
    history = good()
    history.sends.append(Sent(name="m0", producer="q", began=0.0, outcome="fail"))
    assert broken(history) == {"I3"}


def test_I8_a_producer_whose_offsets_fall() -> None:
    history = good()
    history.sends[3], history.sends[4] = history.sends[4], history.sends[3]
    assert broken(history) == {"I8"}


def test_I10_a_gap() -> None:
    history = good()
    history.deliveries[3], history.deliveries[4] = history.deliveries[4], history.deliveries[3]
    assert broken(history) == {"I10"}


def test_I11_twice_without_a_cause_and_with_one() -> None:
    history = good()
    history.deliveries.append(delivery(49, 60.0))
    assert broken(history) == {"I11", "I14"}
    history.faults.append(Fault(55.0, "join", "c"))
    assert broken(history) == set()


@pytest.mark.parametrize(
    ("fault", "fine"),
    [
        (Fault(55.5, "kill", "c"), True),
        (Fault(55.7, "kill", "c"), False),
        (Fault(55.7, "kill broker", broker=True), True),
        (Fault(61.7, "kill broker", broker=True), False),
        (Fault(69.0, "seek", "c"), True),
        (Fault(24.0, "unplug", "c", lasts=10.0), True),
        (Fault(24.0, "kill", "c"), False),
    ],
)
def test_I11_what_was_committed_long_ago_does_not_come_again(fault: Fault, fine: bool) -> None:
    """The last message was done at 49.6, and comes again at 70."""
    history = good()
    history.deliveries.append(delivery(49, 70.0))
    history.faults.append(fault)
    assert broken(history) == (set() if fine else {"I11"})


@pytest.mark.parametrize(
    ("fault", "fine"),
    [
        (None, False),
        (Fault(20.0, "join", "c"), False),
        (Fault(40.0, "join", "c"), True),
        (Fault(40.0, "join", "another"), False),
        (Fault(57.0, "cut links"), True),
        (Fault(59.0, "cut links"), False),
    ],
)
def test_I11_what_is_dealt_with_is_committed_soon_unless_something_is_wrong(fault: Fault | None, fine: bool) -> None:
    """All but the last message are committed in time."""
    history = good()
    history.settled = 100.0
    history.commits["c", QUEUE] = [(number + 5.0, number) for number in range(ENOUGH)] + [(99.0, ENOUGH)]
    history.faults += [] if fault is None else [fault]
    assert broken(history) == (set() if fine else {"I11"})


def test_I12_the_next_one_before_the_last_one_is_done() -> None:
    history = good(Kind.ORDERLY)
    history.deliveries[3].ended = 4.6
    assert broken(history) == {"I12"}


def test_I12_two_members_at_a_time_while_a_lock_holds() -> None:
    history = good(Kind.ORDERLY)
    history.deliveries.append(delivery(49, 49.55, member="c-2"))
    history.faults.append(Fault(40.0, "join", "c"))
    assert broken(history) == {"I12"}
    history.faults.append(Fault(45.0, "restart broker", broker="broker-b"))
    assert broken(history) == {"I12"}
    history.faults.append(Fault(45.0, "restart broker", broker=QUEUE[0]))
    assert broken(history) == set()


def test_I13_a_commit_of_what_is_not_done_and_one_that_falls() -> None:
    history = good()
    history.commits["c", QUEUE] = [(0.0, 0), (10.0, 20), (100.0, ENOUGH)]
    assert broken(history) == {"I13"}
    history.commits["c", QUEUE] = [(0.0, 0), (100.0, ENOUGH), (101.0, 40)]
    assert broken(history) == {"I13"}


def test_I14_a_bad_message_that_is_given_up_too_early() -> None:
    history = good()
    history.refusing, history.bad = frozenset({"c"}), frozenset({"m49"})
    history.deliveries[-1].done = False
    assert broken(history) == {"I14"}
    for attempt, at in ((1, 60.0), (2, 91.0)):
        again = delivery(49, at, attempt=attempt, retried=True, offset=attempt, done=False)
        history.deliveries.append(again)
    history.dead_letters["c"] = ["m49"]
    assert broken(history) == set()
    history.dead_letters["c"] = ["m49", "m49"]
    assert broken(history) == {"I14"}


@pytest.mark.parametrize(("at", "faults", "expected"), [
    (59.7, False, set()),
    (59.5, False, {"I14"}),
    (59.5, True, {"I14"}),
    (66.0, False, {"I14"}),
    (66.0, True, set()),
])  # fmt: skip
def test_I14_a_retry_that_comes_too_early_or_too_late(at: float, faults: bool, expected: set[str]) -> None:
    history = good()
    history.deliveries[-1].done = False
    history.deliveries.append(delivery(49, at, attempt=1, retried=True, offset=1))
    if faults:
        history.faults.append(Fault(10.0, "cut links"))
    assert broken(history) == expected


def test_I14_a_retry_that_comes_twice_or_without_a_reason() -> None:
    history = good()
    history.deliveries.append(delivery(49, 60.0, attempt=1, retried=True, offset=1))
    assert broken(history) == {"I14"}
    history.deliveries[-2].done = False
    assert broken(history) == set()
    history.deliveries.append(delivery(49, 60.5, attempt=1, retried=True, offset=2))
    assert broken(history) == {"I14"}


def test_I15_a_member_of_a_broadcast_that_misses_one() -> None:
    history = good(Kind.BROADCAST)
    history.stayed["c"]["c-2"] = 40.0
    history.owners["c", QUEUE].append("c-2")
    history.deliveries += [delivery(number, number + 0.5, member="c-2") for number in range(49)]
    assert broken(history) == {"I15"}


def test_I18_a_queue_of_nobody_or_of_two() -> None:
    for owners in ([], ["c-1", "c-2"]):
        history = good()
        history.owners["c", QUEUE] = owners
        assert broken(history) == {"I18"}


def test_I20_what_is_left() -> None:
    history = good()
    history.left_over.append("3 new links")
    assert broken(history) == {"I20"}


def test_I24_too_few_sends_to_say_anything() -> None:
    history = good()
    history.sends, history.deliveries, history.commits = history.sends[:10], history.deliveries[:10], {}
    assert broken(history) == {"I24"}
