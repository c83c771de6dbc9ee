"""The checks of groups: hand-written groups, each with the promise that it breaks."""

from __future__ import annotations

import attrs
import pytest

from tests.checker import (
    ENOUGH,
    Fault,
    Group,
    Kind,
    Life,
    Observation,
    Outcome,
    check_copies,
    check_enough,
    check_late_commits,
    check_left,
    check_stays,
    check_table,
)
from tests.checker.made import LAST, OTHER, QUEUE, SENDS, broken, delivery, fault, good, moved, retry


@pytest.mark.parametrize("kind", Kind)
def test_a_good_group_breaks_nothing(kind: Kind) -> None:
    assert broken(good(kind)) == set()


# --- what has to arrive -----------------------------------------------------------------------------------


def test_I2_a_message_that_never_came() -> None:
    group = good()
    del group.deliveries[LAST]
    assert broken(group) == {"I2", "I13"}
    group.unwanted = {QUEUE: {LAST}}
    assert broken(group) == set()


def test_I2_what_a_reset_skips_need_not_come() -> None:
    group = good()
    del group.deliveries[20:30]
    assert broken(group) == {"I2", "I10", "I13"}
    group.faults.append(moved(20.0, 30))
    assert broken(group) == set()
    group.faults[0] = moved(20.0, 29)
    assert broken(group) == {"I2", "I10", "I13"}
    group.faults[0] = moved(31.0, 30, certain=False)
    assert broken(group) == {"I10"}


def test_I2_what_a_reset_goes_back_to_has_to_come_again() -> None:
    group = good()
    group.faults.append(moved(60.0, 45))
    assert broken(group) == {"I2"}
    group.deliveries += [delivery(number, number + 20.0) for number in range(45, ENOUGH)]
    assert broken(group) == set()
    del group.deliveries[-1]
    assert broken(group) == {"I2"}
    group.faults[0] = moved(60.0, 45, certain=False)
    assert broken(group) == set()
    group.faults[0] = moved(60.0, 45)
    group.faults.append(fault(80.0))
    assert broken(group) == set()
    group.faults[1] = fault(95.0)
    assert broken(group) == {"I2"}


# --- in which order it arrives ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Kind)
def test_I10_a_gap(kind: Kind) -> None:
    group = good(kind)
    group.deliveries[3].offset, group.deliveries[4].offset = 4, 3
    assert "I10" in broken(group)


def test_I10_a_gap_by_a_filter_and_what_it_keeps_away() -> None:
    group = good()
    missed = group.deliveries.pop(20)
    group.unwanted = {QUEUE: {20}}
    assert broken(group) == set()
    group.unwanted = {QUEUE: {21}}
    assert broken(group) == {"I2", "I10", "I13"}
    group.unwanted = {QUEUE: {20}}
    group.deliveries.insert(20, missed)
    assert broken(group) == {"I10"}


def test_I10_what_was_skipped_comes_only_by_a_reset_that_goes_back() -> None:
    group = good()
    group.deliveries[20].began, group.deliveries[20].ended = 60.0, 60.1
    group.faults.append(moved(20.0, 21))
    assert broken(group) == {"I10"}
    group.faults.append(moved(59.0, 20, certain=False))
    assert broken(group) == set()


# --- redeliveries -----------------------------------------------------------------------------------------


def test_I11_twice_without_a_cause_and_with_one() -> None:
    group = good()
    group.deliveries.append(delivery(LAST, 60.0))
    assert broken(group) == {"I11", "I14"}
    group.faults.append(fault(55.0))
    assert broken(group) == set()


@pytest.mark.parametrize(
    ("cause", "fine"),
    [
        (fault(55.5), True),
        (fault(55.7), False),
        (fault(55.7, within=12.0), True),
        (fault(61.7, within=12.0), False),
        (fault(24.7), True),
        (fault(24.0), False),
        (fault(24.0, lasts=10.0), True),
        (fault(55.5, repeats=False), False),
        (moved(69.0, LAST, certain=False), True),
        (moved(69.0, LAST + 1), False),
        (moved(71.0, LAST, certain=False), False),
        (attrs.evolve(moved(69.0, LAST, certain=False), queue=OTHER), False),
    ],
)
def test_I11_what_was_committed_long_ago_does_not_come_again(cause: Fault, fine: bool) -> None:
    """The last message was finished at 49.6, and is redelivered at 70."""
    group = good()
    group.deliveries.append(delivery(LAST, 70.0))
    group.faults.append(cause)
    assert broken(group) == (set() if fine else {"I11"})


IN_TURN = (10.0, 11.0), (12.0, 13.0)
LATE_FIRST = (10.0, 40.0), (12.0, 13.0)
CUT_OFF = (10.0, 11.0), (12.0, None)


@pytest.mark.parametrize(
    ("before", "cause", "fine"),
    [
        (IN_TURN, None, False),
        (IN_TURN, fault(19.0), True),
        (IN_TURN, fault(19.1), False),
        (IN_TURN, fault(5.0, settles=6.0), False),
        (IN_TURN, fault(5.0, settles=7.0), True),
        (LATE_FIRST, fault(46.0), True),
        (LATE_FIRST, fault(46.1), False),
        (CUT_OFF, fault(12.5), True),
        (CUT_OFF, fault(90.0), True),
        (CUT_OFF, None, False),
    ],
)
def test_I11_what_comes_again_was_in_hand_or_not_committed_yet(
    before: tuple[tuple[float, float | None], ...], cause: Fault | None, fine: bool
) -> None:
    """The second of two messages is redelivered at 100."""
    group = Group(faults=[] if cause is None else [cause])
    group.deliveries = [
        delivery(number, at, ended=end, succeeded=end is not None)
        for number, (at, end) in ((0, before[0]), (1, before[1]), (1, (100.0, 101.0)))
    ]
    assert [violation.invariant for violation in check_copies(group)] == ([] if fine else ["I11"])


def test_I11_what_has_come_again_has_to_be_committed_again() -> None:
    """There are two kills. What was redelivered after the first one is finished, but not committed, at the second."""
    group = Group(kind=Kind.BROADCAST, faults=[fault(14.0, settles=0.0)])
    group.deliveries = [delivery(number, at + number) for at in (10.0, 30.0, 50.0) for number in (0, 1)]
    assert len(list(check_copies(group))) == 2
    group.faults.append(fault(33.0, settles=0.0))
    assert list(check_copies(group)) == []


def test_I11_a_broadcast_gets_again_what_the_killed_member_had_not_in_its_file() -> None:
    group = good(Kind.BROADCAST)
    group.deliveries.append(delivery(LAST, 70.0))
    assert broken(group) == {"I11"}
    group.faults.append(fault(50.0, settles=0.0, consumer="c-2"))
    assert broken(group) == {"I11"}
    group.faults.append(fault(50.0, settles=0.0, consumer="c-1"))
    assert broken(group) == set()


def test_I11_what_a_listener_holds_comes_again_and_what_it_has_released_does_not() -> None:
    group = good(Kind.ORDERLY)
    group.commits.clear()
    group.deliveries[LAST].held = True
    group.deliveries.append(delivery(LAST, 70.0))
    assert broken(group) == set()
    group.deliveries[LAST].held, group.deliveries[LAST].released = False, 55.0
    assert broken(group) == {"I11"}


@pytest.mark.parametrize(
    ("cause", "fine"),
    [
        (None, False),
        (fault(20.0), False),
        (fault(40.0), True),
        (fault(57.0), True),
        (fault(59.0), False),
    ],
)
def test_I11_what_is_dealt_with_is_committed_soon_unless_something_is_wrong(cause: Fault | None, fine: bool) -> None:
    """All but the last message are committed in time."""
    group = good()
    group.commits[QUEUE] = [(number + 5.0, number) for number in range(ENOUGH)] + [(99.0, ENOUGH)]
    group.faults += [] if cause is None else [cause]
    found = check_late_commits(group, 8.0, 100.0)
    assert [violation.invariant for violation in found] == ([] if fine else ["I11"])
    assert list(check_late_commits(group, 8.0, 57.0)) == []


def test_I11_what_is_open_is_not_committed_and_what_a_filter_keeps_away_is_not_waited_for() -> None:
    group = good(Kind.ORDERLY)
    group.commits[QUEUE] = [(0.0, 0)]
    assert len(list(check_late_commits(group, 8.0, 100.0))) == ENOUGH
    group.deliveries[20].held = True
    assert len(list(check_late_commits(group, 8.0, 100.0))) == 20
    del group.deliveries[20]
    assert len(list(check_late_commits(group, 8.0, 100.0))) == 20
    group.unwanted = {QUEUE: {20}}
    assert len(list(check_late_commits(group, 8.0, 100.0))) == LAST


# --- orderly groups ---------------------------------------------------------------------------------------


def test_I12_the_next_one_before_the_last_one_is_done() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries[3].ended = 4.6
    assert broken(group) == {"I12"}
    group.deliveries[3].succeeded = False
    assert broken(group) == {"I12", "I13"}


def test_I12_one_that_failed_comes_again_before_the_next() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries[3].succeeded = False
    assert broken(group) == {"I12", "I13"}
    group.deliveries.insert(4, delivery(3, 4.0, attempt=1))
    assert broken(group) == set()


def test_I12_one_call_may_have_several() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries[4].began, group.deliveries[4].ended = group.deliveries[3].began, group.deliveries[3].ended
    assert broken(group) == {"I12"}
    group.deliveries[3].call = group.deliveries[4].call = 7
    assert broken(group) == set()


def test_I12_two_members_at_a_time_while_a_lock_holds() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries.append(delivery(LAST, 49.55, consumer="c-2"))
    group.faults.append(fault(40.0))
    assert broken(group) == {"I12"}
    group.faults.append(fault(45.0, broker="broker-b"))
    assert broken(group) == {"I12"}
    group.faults.append(fault(19.0, broker="broker-a"))
    assert broken(group) == {"I12"}
    group.faults.append(fault(45.0, broker="broker-a"))
    assert broken(group) == set()


def test_I12_who_was_cut_off_has_ended() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries[LAST].ended, group.deliveries[LAST].succeeded = None, False
    group.deliveries.append(delivery(LAST, 49.55, consumer="c-2"))
    group.faults.append(fault(49.54))
    assert broken(group) == set()
    group.deliveries[-1].consumer = "c-1"
    assert broken(group) == {"I12"}


def test_I12_what_was_skipped_is_not_waited_for() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries[3].succeeded = False
    group.faults.append(moved(4.2, 4))
    assert broken(group) == set()


# --- commits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.CONCURRENT, Kind.ORDERLY, Kind.POLLED])
def test_I13_a_commit_of_what_is_not_done(kind: Kind) -> None:
    group = good(kind)
    group.commits[QUEUE] = [(0.0, 0), (10.0, 20), (100.0, ENOUGH)]
    assert broken(group) == {"I13"}
    group.faults.append(moved(9.0, 20, certain=False))
    assert broken(group) == set()
    group.faults[0] = moved(11.0, 20, certain=False)
    assert broken(group) == {"I13"}


def test_I13_a_commit_of_what_a_listener_holds() -> None:
    group = good(Kind.ORDERLY)
    group.deliveries[7].held = True
    assert broken(group) == {"I13"}
    group.deliveries[7].held, group.deliveries[7].released = False, 100.5
    assert broken(group) == {"I13"}
    group.deliveries[7].released = 99.0
    assert broken(group) == set()


@pytest.mark.parametrize(
    ("cause", "concurrent", "orderly"),
    [
        (None, False, False),
        (fault(90.0), True, False),
        (fault(70.0), False, False),
        (fault(90.0, broker="broker-a"), True, True),
        (fault(90.0, broker="broker-b"), True, False),
        (moved(90.0, 40, certain=False), True, True),
        (moved(90.0, 41, certain=False), False, False),
    ],
)
def test_I13_a_commit_that_falls(cause: Fault | None, concurrent: bool, orderly: bool) -> None:
    for kind, fine in ((Kind.CONCURRENT, concurrent), (Kind.ORDERLY, orderly)):
        group = good(kind)
        group.commits[QUEUE] += [(101.0, 40)]
        group.faults += [] if cause is None else [cause]
        assert broken(group) == (set() if fine else {"I13"})


def test_I13_where_a_group_stands_stays_as_it_is_across_a_crash() -> None:
    before = Observation(name="before", committed={("g", QUEUE): 3})
    assert list(check_stays(before, attrs.evolve(before, name="after"))) == []
    for committed in ({("g", QUEUE): 2}, {("g", OTHER): 3}):
        [violation] = check_stays(before, Observation(name="after", committed=committed))
        assert violation.invariant == "I13"


def test_I13_a_table_is_as_one_of_its_writes_left_it() -> None:
    def same(written: object, found: object) -> bool:
        return written == found

    assert list(check_table("t.json", {"a": 1}, [{"a": 0}, {"a": 1}], same)) == []
    assert [each.invariant for each in check_table("t.json", {"a": 2}, [{"a": 0}, {"a": 1}], same)] == ["I13"]


# --- retries and dead letters -----------------------------------------------------------------------------


def test_I14_a_bad_message_that_is_given_up_too_early() -> None:
    group = good()
    group.bad = {"m49"}
    group.deliveries[LAST].succeeded = False
    assert broken(group) == {"I14"}
    group.deliveries += [retry(LAST, at, attempt, succeeded=False) for attempt, at in ((1, 60.0), (2, 91.0))]
    group.dead_letters = ["m49"]
    assert broken(group) == set()
    group.dead_letters = ["m49", "m49"]
    assert broken(group) == {"I14"}
    group.dead_letters = ["m49", "m7"]
    assert broken(group) == {"I14"}


def test_I14_a_bad_message_that_a_reset_has_skipped_is_not_tried_on() -> None:
    group = good(Kind.ORDERLY)
    group.bad = {"m49"}
    group.commits.clear()
    group.deliveries[LAST].succeeded = False
    assert broken(group) == {"I14"}
    group.faults.append(moved(49.9, ENOUGH))
    assert broken(group) == set()


@pytest.mark.parametrize(("at", "faults", "expected"), [
    (59.7, False, set()),
    (59.5, False, {"I14"}),
    (59.5, True, {"I14"}),
    (66.0, False, {"I14"}),
    (66.0, True, set()),
])  # fmt: skip
def test_I14_a_retry_that_comes_too_early_or_too_late(at: float, faults: bool, expected: set[str]) -> None:
    group = good()
    group.deliveries[LAST].succeeded = False
    group.deliveries.append(retry(LAST, at, 1))
    group.faults += [fault(10.0)] if faults else []
    assert broken(group) == expected


def test_I14_what_no_broker_takes_back_comes_again_sooner_but_only_where_something_is_wrong() -> None:
    group = good()
    group.deliveries[LAST].succeeded = False
    group.deliveries.append(delivery(LAST, 54.7, attempt=1))
    assert broken(group) == {"I11", "I14"}
    group.faults.append(fault(49.0))
    assert broken(group) == set()
    group.deliveries[-1].began = 54.5
    assert broken(group) == {"I14"}


def test_I14_a_retry_that_comes_twice_or_without_a_reason() -> None:
    group = good()
    group.deliveries.append(retry(LAST, 60.0, 1))
    assert broken(group) == {"I14"}
    group.deliveries[LAST].succeeded = False
    assert broken(group) == set()
    group.deliveries.append(retry(LAST, 60.5, 1, offset=1))
    assert broken(group) == {"I14"}


# --- members ----------------------------------------------------------------------------------------------


def broadcast(*, joined: float, left: float | None = None, until: int = LAST) -> Group:
    """A broadcast whose second member gets everything up to a message, and then nothing more."""
    group = good(Kind.BROADCAST)
    group.lives.append(Life(name="c-2", joined=joined, left=left))
    group.owners[QUEUE] += ["c-2"] if left is None else []
    group.deliveries += [delivery(number, number + 0.5, consumer="c-2") for number in range(until)]
    return group


def test_I15_a_member_of_a_broadcast_that_misses_one() -> None:
    assert broken(broadcast(joined=40.0)) == {"I15"}
    assert broken(broadcast(joined=49.5)) == set()
    assert broken(broadcast(joined=40.0, until=ENOUGH)) == set()


@pytest.mark.parametrize(
    ("left", "faults", "fine"),
    [
        (54.1, [], False),
        (53.9, [], True),
        (80.0, [fault(60.0)], False),
        (80.0, [fault(60.0, lasts=20.0)], True),
        (80.0, [fault(60.0, lasts=20.0, consumer="c-1")], False),
        (80.0, [fault(79.0, consumer="c-2", repeats=False)], True),
        (80.0, [fault(80.0, consumer="c-2", repeats=False)], False),
    ],
)
def test_I15_a_member_that_left_has_got_what_it_had_time_for(left: float, faults: list[Fault], fine: bool) -> None:
    """The member never got the last message, which was sent at 49."""
    group = broadcast(joined=40.0, left=left)
    group.faults += faults
    assert broken(group) == (set() if fine else {"I15"})


def test_I15_a_member_that_came_back_goes_on_where_it_was() -> None:
    group = broadcast(joined=10.0, left=30.0, until=20)
    group.lives.append(Life(name="c-2", joined=60.0))
    group.owners[QUEUE].append("c-2")
    assert broken(group) == {"I15"}
    group.deliveries += [delivery(number, number + 41.0, consumer="c-2") for number in range(20, ENOUGH)]
    assert broken(group) == set()


def test_I18_a_queue_of_nobody_or_of_two() -> None:
    for owners in ([], ["c-1", "c-2"]):
        group = good()
        group.owners[QUEUE] = owners
        assert broken(group) == {"I18"}


def test_I20_what_is_left() -> None:
    assert [violation.invariant for violation in check_left(["3 new links"])] == ["I20"]


def test_I24_too_few_sends_to_say_anything() -> None:
    unknown = [attrs.evolve(send, outcome=Outcome.INFO) for send in SENDS]
    assert list(check_enough(SENDS)) == []
    assert [violation.invariant for violation in check_enough([*SENDS[1:], *unknown])] == ["I24"]
