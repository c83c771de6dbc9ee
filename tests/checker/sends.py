"""Promises about sends alone, and about failed sends: I3, I8, I24."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tests.checker.history import History, Line, Outcome, Send, Violation

__all__ = ["ENOUGH", "check_enough", "check_failed", "check_rising"]

ENOUGH = 50
"""The fewest acknowledged sends with which a run proves anything."""


def check_failed(history: History) -> Iterator[Violation]:
    """I3: no observer sees a message whose send certainly failed."""
    failed = {send.id for send in history.sends if send.outcome is Outcome.FAIL}
    for observation in history.observations:
        for each in observation.seen:
            if each.id in failed:
                where = f"{observation.name}: {each.topic} {each.queue_id} at {each.offset}"
                yield Violation("I3", f"{where} has {each.id}, whose send failed")


def check_rising(sends: Iterable[Send]) -> Iterator[Violation]:
    """I8: the offsets of one producer in one queue increase.

    Args:
        sends: In the order in which they began. A message that is stored more than once may appear once for each
            place, with the lowest offset first.
    """
    lines: dict[tuple[str, Line], list[tuple[str, int]]] = {}
    for send in sends:
        if send.producer is not None and send.outcome is Outcome.OK and send.place is not None:
            line = send.topic, send.broker, send.place[0]
            lines.setdefault((send.producer, line), []).append((send.id, send.place[1]))
    for (producer, line), told in lines.items():
        for (first, low), (second, high) in pairwise(told):
            if high <= low:
                yield Violation("I8", f"{producer} on {line}: {first} has offset {low}, {second} after it {high}")


def check_enough(sends: Sequence[Send], least: int = ENOUGH) -> Iterator[Violation]:
    """I24: a run counts only if enough was sent."""
    acknowledged = sum(send.outcome is Outcome.OK for send in sends)
    if acknowledged < least:
        yield Violation("I24", f"only {acknowledged} of {len(sends)} sends were acknowledged")
