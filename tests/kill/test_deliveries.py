"""What is said of deliveries: hand-written ones, each with the verdict it must get."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.checker import Line, Outcome, Violation
from tests.checker import Send as Sent
from tests.kill import deliveries
from tests.kill.content import BROADCAST, BROKER, GROUPS, ORDERLY, TOPIC
from tests.kill.deliveries import CAUSE_WITHIN, FILE_WITHIN, NO_CAUSE, duplicates
from tests.kill.history import Delivery, Fault, History, Send
from tests.kill.plan import PAUSE_SECONDS

GROUP, IN_ORDER, TO_ALL = "audit", ORDERLY[0], BROADCAST[0]
MEMBER, OTHER = "consumer-1-0", "consumer-0-0"
"""The process with a member of every group, and one that has none of the broadcast."""


def history(
    *offsets: int, acked: int | None = None, faults: tuple[Fault, ...] = (), group: str = GROUP, apart: float = 1.0
) -> History:
    """One group gets a queue in this order, the other ones all of it."""
    made = History()
    count = len(set(offsets)) if acked is None else acked
    made.sends = [Send(f"p-{n}", "ok", n, n, queue_id=0, offset=n) for n in range(count)]
    for each in GROUPS:
        for number, offset in enumerate(offsets if each == group else range(count)):
            at = 1000 + number * apart
            made.ended[len(made.deliveries)] = at + apart / 2
            made.deliveries.append(Delivery(f"p-{offset}", at, each, MEMBER, 0, offset, "", True))
    made.faults = list(faults)
    return made


def judge(made: History, committed: dict[tuple[str, Line], int] | None = None) -> list[Violation]:
    sends = [
        Sent(id=each.name, topic=TOPIC, body=b"", outcome=Outcome.OK, place=(each.queue_id, each.offset), broker=BROKER)
        for each in made.sends
    ]
    return deliveries.judge(made, sends, committed)


def broken(made: History) -> list[str]:
    return [each.invariant for each in judge(made)]


def test_everything_in_order_is_right():
    assert broken(history(0, 1, 2)) == []


@pytest.mark.parametrize("offsets", [(0, 1), (1, 2), ()])
@pytest.mark.parametrize("group", GROUPS)
def test_what_a_group_never_gets_is_unseen(offsets, group):
    number = "I15" if group in BROADCAST else "I2"
    assert broken(history(*offsets, acked=3, group=group)).count(number) == 3 - len(offsets)


@pytest.mark.parametrize("offsets", [(0, 2, 1), (1, 0, 2), (0, 1, 3, 2)])
@pytest.mark.parametrize("group", GROUPS)
def test_a_first_delivery_after_a_gap_is_out_of_order(offsets, group):
    assert "I10" in broken(history(*offsets, group=group))


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (Fault("kill", 1001.5, "broker"), "kill of broker"),
        (Fault("kill", 1001.5, OTHER), "kill of consumer"),
        (Fault("kill", 1001.5, "producer-0-0"), NO_CAUSE),
        (Fault("kill", 999.0 - CAUSE_WITHIN * 1000, "broker"), NO_CAUSE),
        (Fault("kill", 1003.5, "broker"), NO_CAUSE),
    ],
)
def test_a_second_delivery_needs_a_cause(fault, cause):
    made = history(0, 1, 0, faults=(fault,))
    assert duplicates(made) == Counter({cause: 1})
    assert broken(made) == (["I11"] if cause == NO_CAUSE else [])


@pytest.mark.parametrize(
    ("faults", "fine"),
    [
        ([("kill", 1500.0, MEMBER)], True),
        ([("kill", 1000.0 + FILE_WITHIN * 1000, MEMBER)], True),
        ([("kill", 1001.0 + FILE_WITHIN * 1000, MEMBER)], False),
        ([("pause", 1500.0, MEMBER), ("go on", 7500.0, MEMBER), ("kill", 8500.0, MEMBER)], True),
        ([("pause", 500.0, MEMBER), ("go on", 900.0, MEMBER), ("kill", 1500.0, MEMBER)], True),
        ([("pause", 1500.0, MEMBER), ("go on", 7500.0, MEMBER)], False),
        ([("kill", 1500.0, OTHER)], False),
        ([("kill", 1500.0, "broker")], False),
        ([("start", 1500.0, MEMBER)], False),
    ],
)
def test_a_broadcast_repeats_only_what_was_not_in_the_file_of_a_killed_member(faults, fine):
    apart = 2 * PAUSE_SECONDS * 1000
    made = history(0, 0, group=TO_ALL, apart=apart, faults=tuple(Fault(*each) for each in faults))
    assert broken(made) == ([] if fine else ["I11"])


def test_a_member_of_a_broadcast_repeats_nothing_before_it_is_killed():
    faults = (Fault("pause", 500.0, MEMBER), Fault("go on", 900.0, MEMBER), Fault("kill", 1500.0, MEMBER))
    assert broken(history(0, 0, group=TO_ALL, apart=1, faults=faults)) == ["I11"]


def test_a_group_in_order_gets_a_message_once_the_one_before_it_is_done():
    made = history(0, 1, 2, group=IN_ORDER)
    number = next(number for number, each in enumerate(made.deliveries) if each.group == IN_ORDER)
    made.ended[number] += 1.0
    assert "I12" in broken(made)
    del made.ended[number]
    assert "I12" in broken(made)


def test_two_members_in_one_queue_at_a_time_need_a_broker_that_was_killed():
    made = history(0, 0, group=IN_ORDER, faults=(Fault("start", 999.0, OTHER),))
    first, second = (number for number, each in enumerate(made.deliveries) if each.group == IN_ORDER)
    made.ended[first] = made.deliveries[second].at + 0.25
    made.deliveries[second] = made.deliveries[second]._replace(consumer=OTHER)
    assert broken(made) == ["I12"]
    made.faults.append(Fault("kill", 1000.5, "broker"))
    assert broken(made) == []


def test_what_a_group_in_order_has_committed_is_done():
    made = history(0, 1, 2, group=IN_ORDER)
    assert judge(made, {(IN_ORDER, (TOPIC, BROKER, 0)): 3}) == []
    del made.ended[next(number for number, each in enumerate(made.deliveries) if each[2::3] == (IN_ORDER, 2))]
    assert judge(made, {(IN_ORDER, (TOPIC, BROKER, 0)): 2}) == []
    assert [each.invariant for each in judge(made, {(IN_ORDER, (TOPIC, BROKER, 0)): 3})] == ["I13"]
