"""Orderly consumption: I12."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.checker.arrivals import check_gaps
from tests.checker.commits import check_commits
from tests.checker.groups import Delivery, Group
from tests.checker.history import Line, Violation

__all__ = ["check_order", "check_turns"]

LOCK_HELD = 30.0
"""Seconds for which a member relies on a lock that the broker, which may have forgotten it, has not confirmed."""


def check_order(group: Group) -> list[Violation]:
    """Violations of I10, I12 and I13 by an orderly group."""
    return [*check_gaps(group), *check_turns(group), *check_commits(group)]


def check_turns(group: Group) -> Iterator[Violation]:
    """I12: a message arrives only after the one before it is finished, and a queue never has two running listeners."""
    for _, line, deliveries in group.queues():
        yield from _in_turn(group, line, deliveries)
        yield from _one_at_a_time(group, line, deliveries)


def _in_turn(group: Group, line: Line, deliveries: list[Delivery]) -> Iterator[Violation]:
    firsts: dict[int, Delivery] = {}
    finished: dict[int, float] = {}
    calls: dict[int, set[int | None]] = {}
    for each in deliveries:
        firsts.setdefault(each.offset, each)
        calls.setdefault(each.offset, set()).add(each.call)
        if group.is_finished(each) and each.ended is not None:
            finished[each.offset] = min(each.ended, finished.get(each.offset, each.ended))
    for before, after in pairwise(firsts[offset] for offset in sorted(firsts)):
        in_time = finished.get(before.offset, float("inf")) <= after.began
        together = after.call is not None and after.call in calls[before.offset]
        if not (in_time or together or group.is_skipped(line, before.offset, after.began)):
            text = f"{line}: {after.consumer} got {after.offset} at {after.began:.3f}"
            yield Violation("I12", f"{text}, before {before.offset} was finished")


def _one_at_a_time(group: Group, line: Line, deliveries: list[Delivery]) -> Iterator[Violation]:
    """Listeners overlap only if the broker has forgotten its locks."""
    forgotten = [fault.at for fault in group.faults if fault.broker == line[1]]
    for first, second in pairwise(deliveries):
        if _one_call(first, second) or (first.ended is not None and first.ended <= second.began):
            continue
        if first.ended is None and first.consumer != second.consumer:
            continue  # cut off: its member was killed, or closed in the middle
        if not any(second.began - LOCK_HELD <= at <= second.began for at in forgotten):
            yield Violation(
                "I12",
                f"{line}: {second.consumer} got {second.offset} at {second.began:.3f} while {first.consumer} was "
                f"processing {first.offset}, from {first.began:.3f} to {first.ended}",
            )


def _one_call(one: Delivery, other: Delivery) -> bool:
    return one.call is not None and one.call == other.call
