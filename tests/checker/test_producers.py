"""The checks of calls, timed messages and transactions: records written by hand, each with the promise it breaks."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.checker import (
    Asking,
    Call,
    Delivery,
    Fault,
    History,
    Observation,
    Outcome,
    Restart,
    Send,
    Timed,
    Transaction,
    WallClock,
    check,
    check_calls,
    check_timed,
    check_transactions,
)

EPOCH = 1000.0
EVEN = WallClock([(0.0, EPOCH)])
SENT = Send(id="m", topic="T", body=b"m", outcome=Outcome.OK, broker="a", began=10.0, ended=10.1)


def got(at: float, broker: str = "a") -> Delivery:
    return Delivery(consumer="c", queue=("T", broker, 0), offset=0, id="m", began=at)


# --- calls ------------------------------------------------------------------------------------------------


def call(*answers: float, **fields: Any) -> Call:
    return Call(name="a send", began=10.0, within=3.0, answers=list(answers), **fields)


@pytest.mark.parametrize("good", [call(10.0), call(13.5), call(is_over=True), call(12.0, is_over=True)])
def test_a_call_is_answered_once_and_in_time(good: Call) -> None:
    assert list(check_calls([good])) == []


@pytest.mark.parametrize("bad", [call(), call(13.6), call(10.0, 11.0), call(10.0, 11.0, is_over=True)])
def test_I22_a_call_is_not_answered_once_or_not_in_time(bad: Call) -> None:
    assert [each.invariant for each in check_calls([bad])] == ["I22"]


# --- messages that wait ----------------------------------------------------------------------------------

BACK, FORTH = WallClock([(0.0, EPOCH), (12.0, EPOCH - 3)]), WallClock([(0.0, EPOCH), (12.0, EPOCH + 3)])
LEVEL = Timed(send=SENT, delay=5.0, is_level=True)
DELAY = Timed(send=SENT, delay=5.0)
MOMENT = Timed(send=SENT, deliver_at=EPOCH + 15.0)
RECALLED = attrs.evolve(MOMENT, recalled=14.0)
AWAY, ELSEWHERE = Restart(broker="a", at=13.0, back=14.0), Restart(broker="b", at=13.0, back=14.0)
AWAY_FAULT = Fault(at=13.0, lasts=1.0, settles=35.0)


def timed(
    message: Timed, *deliveries: Delivery, clock: WallClock = EVEN, restarts: tuple[Restart, ...] = (), faults: Any = ()
) -> set[str]:
    return {each.invariant for each in check_timed([message], deliveries, restarts, clock, faults)}


@pytest.mark.parametrize("message", [LEVEL, DELAY, MOMENT])
@pytest.mark.parametrize("clock", [EVEN, BACK, FORTH])
def test_I16_a_message_is_neither_early_nor_late_whatever_the_clock_does(message: Timed, clock: WallClock) -> None:
    assert timed(message, got(15.0), clock=clock) == timed(message, got(16.0), clock=clock) == set()
    assert timed(message, got(14.99), clock=clock) == timed(message, got(16.3), clock=clock) == {"I16"}


def test_I16_the_second_copy_of_a_recalled_message_may_be_a_later_one() -> None:
    twice = attrs.evolve(RECALLED, copies={"a": 1, "b": 1})
    assert timed(twice, got(18.0, "b")) == set()
    assert timed(twice, got(18.0, "a")) == {"I16"}
    assert timed(attrs.evolve(MOMENT, copies={"a": 1, "b": 1}), got(18.0, "b")) == {"I16"}


@pytest.mark.parametrize("message", [LEVEL, DELAY, MOMENT])
def test_I16_after_a_restart_it_is_due_by_the_wall_clock(message: Timed) -> None:
    assert timed(message, got(14.5), clock=FORTH, restarts=(AWAY,)) == set()
    assert timed(message, got(14.5), clock=FORTH, restarts=(ELSEWHERE,)) == {"I16"}
    assert timed(message, got(14.5), restarts=(AWAY,)) == {"I16"}
    assert timed(message, got(20.0), restarts=(AWAY,), faults=[AWAY_FAULT]) == set()
    assert timed(message, got(51.0), restarts=(AWAY,), faults=[AWAY_FAULT]) == {"I16"}


def test_I16_a_try_that_was_given_up_may_come_later_and_find_another_clock() -> None:
    later = WallClock([(0.0, EPOCH), (12.5, EPOCH + 3)])
    unknown = attrs.evolve(MOMENT, send=attrs.evolve(SENT, outcome=Outcome.INFO))
    assert timed(unknown, got(12.6), clock=later) == timed(MOMENT, got(12.6), got(15.0), clock=later) == set()
    assert timed(unknown, got(11.9), clock=later) == timed(MOMENT, got(12.6), clock=later) == {"I16"}


def test_I16_a_level_does_not_wait_for_longer_than_its_delay_where_the_clock_was_set_back() -> None:
    assert timed(LEVEL, got(14.5), clock=BACK, restarts=(AWAY,)) == set()
    assert timed(DELAY, got(14.5), clock=BACK, restarts=(AWAY,)) == {"I16"}


def test_I16_a_recalled_message_never_comes() -> None:
    assert timed(RECALLED) == set()
    assert timed(RECALLED, got(15.5)) == {"I16"}
    assert timed(RECALLED, got(15.5, "b")) == set()  # another copy, of which the broker that was asked knows nothing
    assert timed(attrs.evolve(RECALLED, copies={"a": 2}), got(15.5)) == set()
    assert timed(attrs.evolve(RECALLED, recalled=15.2), got(15.5)) == set()


# --- transactions ----------------------------------------------------------------------------------------

ASKING = Asking(calm=0.0, until=700.0)


def begun(**fields: Any) -> Transaction:
    return Transaction(**{"send": SENT, "copies": 1, **fields})


def judged(transaction: Transaction, *deliveries: Delivery, once: bool = False, faults: Any = ()) -> set[str]:
    return {each.invariant for each in check_transactions([transaction], deliveries, ASKING, faults, once=once)}


def rounds(count: int, start: float = 40.0, every: float = 30.0) -> list[float]:
    return [start + number * every for number in range(count)]


GOOD: dict[str, tuple[Transaction, list[Delivery]]] = {
    "committed": (begun(commits=[11.0]), [got(11.0)]),
    "committed twice": (begun(commits=[11.0, 40.0], copies=2), [got(11.0), got(41.0)]),
    "rolled back": (begun(rollbacks=[11.0]), []),
    "asked, then committed": (begun(commits=[100.0], asked=rounds(3)), [got(100.1)]),
    "never known": (begun(asked=rounds(15), discarded=[15]), []),
    "not begun for sure": (begun(send=attrs.evolve(SENT, outcome=Outcome.INFO), copies=0), []),
}
BAD: dict[str, tuple[Transaction, list[Delivery]]] = {
    "a half message is visible": (begun(commits=[11.0]), [got(10.5)]),
    "a rolled back one is visible": (begun(rollbacks=[11.0]), [got(11.0)]),
    "a committed one is not": (begun(commits=[11.0]), []),
    "never asked": (begun(), []),
    "not asked any more": (begun(asked=rounds(3)), []),
    "asked too often": (begun(asked=rounds(16), discarded=[15]), []),
    "asked too soon": (begun(asked=rounds(2, every=10.0), commits=[50.0]), [got(50.0)]),
    "given up too soon": (begun(asked=rounds(3), discarded=[3]), []),
    "given up though known": (begun(asked=rounds(2), rollbacks=[70.0], discarded=[15]), []),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_transactions_pass(name: str) -> None:
    transaction, deliveries = GOOD[name]
    assert judged(transaction, *deliveries) == set()


@pytest.mark.parametrize("name", BAD)
def test_I17_bad_transactions_do_not(name: str) -> None:
    transaction, deliveries = BAD[name]
    assert judged(transaction, *deliveries) == {"I17"}


def test_I17_exactly_once_where_nothing_goes_wrong() -> None:
    twice = GOOD["committed twice"]
    assert judged(twice[0], *twice[1], once=True) == {"I17"}
    assert judged(begun(asked=rounds(14), discarded=[15]), once=True) == {"I17"}


def test_I17_a_fault_may_delay_a_question() -> None:
    transaction, deliveries = BAD["asked too soon"]
    assert judged(transaction, *deliveries, faults=[Fault(at=39.0, lasts=5.0)]) == set()


# --- what was stored when -------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "is_lost"), [({}, True), ({"stored_by": 30.0}, False), ({"ended": 21.0}, False)])
def test_I1_a_message_has_to_be_there_from_its_time_on(change: dict[str, Any], is_lost: bool) -> None:
    history = History([attrs.evolve(SENT, **change)], [Observation(name="a broker", at=20.0)])
    assert [each.invariant for each in check(history)] == ["I1"] * is_lost
