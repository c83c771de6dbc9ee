"""What is said of deliveries: hand-written ones, each with the verdict it must get."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kill.content import GROUPS
from tests.kill.deliveries import CAUSE_WITHIN, NO_CAUSE, duplicates, judge
from tests.kill.history import Delivery, Fault, History, Send

GROUP = GROUPS[0]
OF_GROUP = f"consumer-{GROUP}-0-0"


def history(*offsets: int, acked: int | None = None, faults: tuple[Fault, ...] = ()) -> History:
    """One group gets a queue in this order, the other one all of it."""
    made = History()
    count = len(set(offsets)) if acked is None else acked
    made.sends = [Send(f"p-{n}", "ok", n, n, queue_id=0, offset=n) for n in range(count)]
    for at, offset in enumerate(offsets, 1000):
        made.deliveries.append(Delivery(f"p-{offset}", at, GROUP, OF_GROUP, 0, offset, "", True))
    for other in GROUPS[1:]:
        for offset in range(count):
            made.deliveries.append(Delivery(f"p-{offset}", 1000 + offset, other, "other", 0, offset, "", True))
    made.faults = list(faults)
    return made


def broken(made: History) -> list[str]:
    return [each.invariant for each in judge(made)]


def test_everything_in_order_is_right():
    assert broken(history(0, 1, 2)) == []


@pytest.mark.parametrize("offsets", [(0, 1), (1, 2), ()])
def test_what_a_group_never_gets_is_unseen(offsets):
    assert broken(history(*offsets, acked=3)).count("I2") == 3 - len(offsets)


@pytest.mark.parametrize("offsets", [(0, 2, 1), (1, 0, 2), (0, 1, 3, 2)])
def test_a_first_delivery_after_a_gap_is_out_of_order(offsets):
    assert "I10" in broken(history(*offsets))


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (Fault("kill", 1001.5, "broker"), "kill of broker"),
        (Fault("kill", 1001.5, OF_GROUP), "kill of consumer"),
        (Fault("kill", 1001.5, f"consumer-{GROUPS[1]}-0-0"), NO_CAUSE),
        (Fault("kill", 1001.5, "producer-0-0"), NO_CAUSE),
        (Fault("kill", 999.0 - CAUSE_WITHIN, "broker"), NO_CAUSE),
        (Fault("kill", 1003.5, "broker"), NO_CAUSE),
    ],
)
def test_a_second_delivery_needs_a_cause(fault, cause):
    made = history(0, 1, 0, faults=(fault,))
    assert duplicates(made) == Counter({cause: 1})
    assert broken(made) == (["I11"] if cause == NO_CAUSE else [])
