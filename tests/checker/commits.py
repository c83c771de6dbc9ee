"""How far groups have committed: I13."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.checker.groups import NEVER, Group, Kind
from tests.checker.history import Line, Observation, Violation

__all__ = ["check_commits", "check_ends", "check_stays", "check_table"]


def check_ends(observation: Observation) -> Iterator[Violation]:
    """I13: no committed offset is beyond the end of its queue."""
    for (group, line), offset in observation.committed.items():
        end = observation.bounds.get(line, (0, 0))[1]
        if not 0 <= offset <= end:
            yield Violation("I13", f"{observation.name}: {group} has committed {line} to {offset}, its end is {end}")


def check_stays(before: Observation, after: Observation) -> Iterator[Violation]:
    """I13: a committed offset stays the same unless a consumer commits, whatever happens to the broker meanwhile."""
    for who, at in after.committed.items():
        if at != before.committed.get(who):
            text = f"{after.name}: the offset of {who} was {before.committed.get(who)}, and is {at}"
            yield Violation("I13", f"{text}, though no consumer committed")


def check_table(name: str, found: Any, allowed: Sequence[Any], fits: Callable[[Any, Any], bool]) -> Iterator[Violation]:
    """I13: a broker's table is the result of one of its writes, and not older than the last completed one.

    Args:
        name: The name of the file.
        found: Its content.
        allowed: What was written, from the last write on that is known to be complete.
        fits: Whether a content may be the result of such a write.
    """
    if not any(fits(written, found) for written in allowed):
        yield Violation("I13", f"{name} holds {found} instead of one of {allowed}")


def check_commits(group: Group) -> Iterator[Violation]:
    """I13: only finished messages are committed, and a committed offset moves back only by a reset."""
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
                    yield Violation("I13", f"{text} before {below} was finished")
            checked = max(checked, offset)
        for (_, before), (at, after) in pairwise(commits):
            if after < before and not _may_fall(group, queue, at, after):
                yield Violation("I13", f"{group.name} had committed {queue} to {before}, and at {at:.2f} to {after}")


def _may_fall(group: Group, queue: Line, at: float, offset: int) -> bool:
    """Whether an offset may move back: by a reset, by a broker that has lost the last commits, or because two members
    have the queue for a moment, which must not happen in an orderly group.
    """
    causes = [fault for fault in group.faults if fault.at <= at <= fault.until and fault.may_move(queue, offset)]
    if group.kind is Kind.ORDERLY:
        return any(fault.broker == queue[1] or fault.queue is not None for fault in causes)
    return bool(causes)
