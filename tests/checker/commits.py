"""How far groups have committed: I13."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.checker.groups import NEVER, Group, Kind
from tests.checker.history import Line, Observation, Violation

__all__ = ["check_commits", "check_ends", "check_stays", "check_table"]


def check_ends(observation: Observation) -> Iterator[Violation]:
    """I13: no group stands behind the end of a queue."""
    for (group, line), offset in observation.committed.items():
        end = observation.bounds.get(line, (0, 0))[1]
        if not 0 <= offset <= end:
            yield Violation("I13", f"{observation.name}: {group} stands at {offset} of {line} with {end}")


def check_stays(before: Observation, after: Observation) -> Iterator[Violation]:
    """I13: where a group stands stays as it is while nobody commits, whatever happens to the broker meanwhile."""
    for who, at in after.committed.items():
        if at != before.committed.get(who):
            text = f"{after.name}: {who} stood at {before.committed.get(who)}, and stands at {at}"
            yield Violation("I13", f"{text}, though nobody committed")


def check_table(name: str, found: Any, allowed: Sequence[Any], fits: Callable[[Any, Any], bool]) -> Iterator[Violation]:
    """I13: a broker's table is as one of its writes left it, and not older than the last one that was done.

    Args:
        name: Of the file.
        found: Its content.
        allowed: What it was given to write from the last time on that is known to have been done.
        fits: Whether a content may come from such a write.
    """
    if not any(fits(written, found) for written in allowed):
        yield Violation("I13", f"{name} holds {found}, allowed is {allowed}")


def check_commits(group: Group) -> Iterator[Violation]:
    """I13: nothing is committed that is not dealt with, and what is committed does not fall but by a reset."""
    for queue, commits in group.commits.items():
        dealt: dict[int, float] = {}
        for each in group.deliveries:
            if each.queue == queue:
                dealt[each.offset] = min(group.committable(each), dealt.get(each.offset, NEVER))
        checked = 0
        for at, offset in commits:
            for below in range(checked, offset):
                fine = group.is_unwanted(queue, below) or group.is_skipped(queue, below, at)
                if dealt.get(below, NEVER) > at and not fine:
                    text = f"{group.name} has committed {queue} to {offset} at {at:.2f}"
                    yield Violation("I13", f"{text} without {below}")
            checked = max(checked, offset)
        for (_, before), (at, after) in pairwise(commits):
            if after < before and not _may_fall(group, queue, at, after):
                yield Violation("I13", f"{group.name} had committed {queue} to {before}, and at {at:.2f} to {after}")


def _may_fall(group: Group, queue: Line, at: float, offset: int) -> bool:
    """By a reset; by a broker that has lost the last ones; and where two members have a queue for a moment.

    In order nobody has a queue that another one has.
    """
    causes = [fault for fault in group.faults if fault.at <= at <= fault.until and fault.may_move(queue, offset)]
    if group.kind is Kind.ORDERLY:
        return any(fault.broker == queue[1] or fault.queue is not None for fault in causes)
    return bool(causes)
