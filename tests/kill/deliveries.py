"""What the groups of a kill loop got, judged: everything acknowledged, in order, and nothing twice without a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.checker import Violation
from tests.kill.content import GROUPS
from tests.kill.history import Delivery, Fault, History

CAUSE_WITHIN = 25_000.0
"""Milliseconds: the five seconds between two commits of a consumer, and a round of sharing out the queues."""
NO_CAUSE = "no cause"

Place = tuple[str, int, int]


def judge(history: History) -> list[Violation]:
    """I2, I10 and I11."""
    return [*_unseen(history), *_out_of_order(history), *_without_cause(history)]


def duplicates(history: History) -> Counter[str]:
    """Deliveries of what the group had got before, by what made the group begin again."""
    return Counter(cause for _, cause in _repeated(history))


def _in_order(history: History) -> list[Delivery]:
    return sorted(history.deliveries, key=lambda each: each.at)


def _place(delivery: Delivery) -> Place:
    return delivery.group, delivery.queue_id, delivery.offset


def _unseen(history: History) -> Iterator[Violation]:
    """I2: what was acknowledged reaches every group."""
    got = {_place(each) for each in history.deliveries}
    for send in history.sends:
        for group in GROUPS if send.kind == "ok" else ():
            if (group, send.queue_id, send.offset) not in got:
                yield Violation("I2", f"{group} never got {send.name}, queue {send.queue_id} offset {send.offset}")


def _out_of_order(history: History) -> Iterator[Violation]:
    """I10: what a group gets of a queue for the first time follows what it got before, without a gap."""
    following: dict[tuple[str, int], int] = {}
    for each in _in_order(history):
        queue = each.group, each.queue_id
        wanted = following.get(queue, 0)
        if each.offset > wanted:
            yield Violation("I10", f"{each.consumer} got queue {each.queue_id} at {each.offset}, not at {wanted}")
        following[queue] = max(wanted, each.offset + 1)


def _without_cause(history: History) -> Iterator[Violation]:
    """I11: nothing comes twice when nothing has happened."""
    for each, cause in _repeated(history):
        if cause == NO_CAUSE:
            yield Violation("I11", f"{each.consumer} got queue {each.queue_id} at {each.offset} again")


def _repeated(history: History) -> Iterator[tuple[Delivery, str]]:
    """Deliveries of what the group had got before, each with the last fault that may explain it."""
    first: dict[Place, float] = {}
    faults = sorted(history.faults, key=lambda each: each.at)
    for each in _in_order(history):
        before = first.setdefault(_place(each), each.at)
        if before != each.at:
            causes = [
                fault for fault in faults if before - CAUSE_WITHIN <= fault.at <= each.at and _concerns(fault, each)
            ]
            yield each, f"{causes[-1].kind} of {_who(causes[-1])}" if causes else NO_CAUSE


def _concerns(fault: Fault, delivery: Delivery) -> bool:
    """Whether a fault may make the group share out its queues anew, or forget how far it was."""
    return fault.target == "broker" or f"-{delivery.group}-" in fault.target


def _who(fault: Fault) -> str:
    return fault.target.split("-")[0]
