"""Redeliveries: I11."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.groups import NEVER, Delivery, Group
from tests.checker.history import Line, Violation

__all__ = ["check_copies", "check_late_commits"]


def check_copies(group: Group) -> Iterator[Violation]:
    """I11: what a reader of queues gets again was in progress at a fault, or not committed yet."""
    for reader, line, deliveries in group.queues():
        yield from _copies(group, reader, line, deliveries)


def _copies(group: Group, reader: str, line: Line, deliveries: list[Delivery]) -> Iterator[Violation]:
    faults = group.faults_of(reader)
    last: dict[int, Delivery] = {}
    for each in deliveries:
        before = last.get(each.offset)
        last[each.offset] = each
        if before is None or (before.ended is not None and group.committable(before) == NEVER):
            continue  # this is the first delivery; or the last one failed, and the message has to come again
        since, until = before.began, _committable_up_to(group, last, each.offset, before)
        if not any(
            fault.at <= min(each.began, until + fault.within) and since <= fault.until
            for fault in faults
            if fault.may_move(line, each.offset)
        ):
            yield Violation(
                "I11",
                f"{line}: {each.consumer} got {each.offset} at {each.began:.3f}, which {before.consumer} had got at "
                f"{since:.3f} and could commit at {until:.3f}",
            )


def _committable_up_to(group: Group, last: dict[int, Delivery], offset: int, delivery: Delivery) -> float:
    """When a delivery, and the last deliveries of everything before it, could be committed.

    What was redelivered has to be committed again by the member that got it.
    """
    return max(group.committable(each) for each in (*(last[known] for known in last if known < offset), delivery))


def check_late_commits(group: Group, within: float, settled: float) -> Iterator[Violation]:
    """I11: without faults, finished messages are committed soon, or a kill would cause more redeliveries than it may.

    Args:
        group: The group; not a broadcast, whose commits cannot be observed.
        within: The seconds that a commit may take.
        settled: When the run stopped observing.
    """
    for queue, commits in group.commits.items():
        for offset, dealt in sorted(_dealt_up_to(group, queue).items()):
            by = dealt + within
            if by > settled or any(fault.at <= by and dealt <= fault.until for fault in group.faults):
                continue
            committed = max((known for at, known in commits if at <= by), default=0)
            if committed <= offset:
                text = f"{group.name} had finished {queue} up to {offset} at {dealt:.2f}"
                yield Violation("I11", f"{text}, and had committed {committed} at {by:.2f}")


def _dealt_up_to(group: Group, queue: Line) -> dict[int, float]:
    """When each offset of a queue and all before it could be committed, up to the first that could not."""
    firsts: dict[int, float] = {}
    for each in group.deliveries:
        if each.queue == queue:
            firsts[each.offset] = min(group.committable(each), firsts.get(each.offset, NEVER))
    found: dict[int, float] = {}
    at, following = 0.0, 0
    for offset in sorted(firsts):
        if firsts[offset] == NEVER or not all(group.is_unwanted(queue, each) for each in range(following, offset)):
            break  # this one is not finished, so nothing after it can be committed
        at = found[offset] = max(at, firsts[offset])
        following = offset + 1
    return found
