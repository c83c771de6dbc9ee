"""Sends, deliveries, faults and groups written by hand, for the tests of the checker."""

from __future__ import annotations

from typing import Any

import attrs

from tests.checker import ENOUGH, Delivery, Fault, Group, Kind, Life, Outcome, Send, check_group

QUEUE, OTHER = ("T", "broker-a", 0), ("T", "broker-b", 0)
RETRY = "%RETRY%c", "broker-a", 0
LAST = ENOUGH - 1


def sent(number: int, **changes: Any) -> Send:
    made = Send(id=f"m{number}", topic="T", body=b"", outcome=Outcome.OK, place=(0, number), broker="broker-a",
                producer="p", began=float(number), ended=float(number))  # fmt: skip
    return attrs.evolve(made, **changes)


def delivery(number: int, at: float, **changes: Any) -> Delivery:
    made = Delivery(
        id=f"m{number}", consumer="c-1", queue=QUEUE, offset=number, began=at, ended=at + 0.1, succeeded=True
    )
    return attrs.evolve(made, **changes)


def retry(number: int, at: float, attempt: int, **changes: Any) -> Delivery:
    """A delivery from the retry topic, which holds nothing else."""
    made = {"attempt": attempt, "retried": True, "queue": RETRY, "offset": attempt - 1}
    return delivery(number, at, **{**made, **changes})


def fault(at: float, **changes: Any) -> Fault:
    return Fault(**{"at": at, "within": 6.0, **changes})


def moved(at: float, to: int, **changes: Any) -> Fault:
    """A reset."""
    return Fault(at=at, queue=QUEUE, offset=to, **changes)


SENDS = [sent(number) for number in range(ENOUGH)]


def good(kind: Kind = Kind.CONCURRENT) -> Group:
    """Fifty messages, each delivered once in its turn, all committed."""
    group = Group(name="c", kind=kind, most_attempts=2)
    group.deliveries = [delivery(number, number + 0.5) for number in range(ENOUGH)]
    group.commits[QUEUE] = [(0.0, -1), (100.0, ENOUGH)]
    group.owners[QUEUE] = ["c-1"]
    group.lives = [Life(name="c-1", joined=-1.0)]
    return group


def broken(group: Group, sends: list[Send] = SENDS) -> set[str]:
    return {violation.invariant for violation in check_group(group, sends)}
