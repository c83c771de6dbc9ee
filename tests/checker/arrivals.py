"""What has to reach a group, and in which order messages arrive for the first time: I2, I10, I15."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tests.checker.groups import Delivery, Fault, Group, Kind, Life
from tests.checker.history import Line, Outcome, Send, Violation

__all__ = ["check_gaps", "check_resets", "check_unseen"]

PROMPT = 5.0
"""Seconds in which a message reaches a listener if there are no faults."""
RESET_WITHIN = 30.0
"""Seconds in which a group continues at the offset to which it was reset."""


def check_unseen(group: Group, sends: Iterable[Send]) -> Iterator[Violation]:
    """I2, and I15 for a broadcast: acknowledged messages reach the group, or each member of the broadcast.

    Args:
        group: The group.
        sends: All sends of the run.
    """
    wanted = [send for send in group.wanted(sends) if send.outcome is Outcome.OK]
    if group.kind is Kind.BROADCAST:
        yield from _broadcast(group, wanted)
        return
    got = {each.id for each in group.deliveries}
    for send in wanted:
        if send.id not in got and not (send.place and group.is_skipped(send.line, send.place[1])):
            yield Violation("I2", f"{group.name} never got {send.id} of {send.line} at {send.place}")


def _broadcast(group: Group, sends: Sequence[Send]) -> Iterator[Violation]:
    """Every member gets what was sent after it joined; one that left, only what it had time for.

    A member that came back continues where it was, so it also gets what was sent while it was away.
    """
    lives: dict[str, list[Life]] = {}
    for life in group.lives or [Life(name=each.consumer) for each in group.deliveries[:1]] or [Life(name=group.name)]:
        lives.setdefault(life.name, []).append(life)
    for name, mine in lives.items():
        got = {each.id for each in group.deliveries if each.consumer == name}
        ready = _ready(group, mine[-1])
        for send in sends:
            if send.id not in got and send.began > mine[0].joined and max(send.ended, ready) + PROMPT <= _end(mine[-1]):
                yield Violation("I15", f"{name} of {group.name} never got {send.id} of {send.line} at {send.place}")


def _ready(group: Group, life: Life) -> float:
    """The time from which on nothing kept a member from getting messages."""
    if life.left is None:
        return life.joined
    disturbed = [fault.at + fault.lasts for fault in group.faults_of(life.name) if fault.at < life.left]
    return max([life.joined, *disturbed])


def _end(life: Life) -> float:
    return float("inf") if life.left is None else life.left


def check_gaps(group: Group) -> Iterator[Violation]:
    """I10: messages arrive for the first time without a gap, except for filters and resets."""
    for reader, line, deliveries in group.queues():
        yield from _gaps(group, reader, line, deliveries)


def _gaps(group: Group, reader: str, line: Line, deliveries: list[Delivery]) -> Iterator[Violation]:
    following, got = 0, set[int]()
    for each in deliveries:
        missing = [
            offset
            for offset in range(following, each.offset)
            if not group.is_unwanted(line, offset) and not group.is_skipped(line, offset, each.began)
        ]
        if missing:
            text = f"{each.consumer} got {line} at {each.offset}"
            yield Violation("I10", f"{text} before {reader} had got {missing[0]}")
        if each.offset < following and each.offset not in got and not _moved(group, reader, each):
            yield Violation("I10", f"{each.consumer} got {line} at {each.offset}, which {reader} had skipped")
        if group.is_unwanted(line, each.offset):
            yield Violation("I10", f"{each.consumer} got {line} at {each.offset}, which the filter rejects")
        got.add(each.offset)
        following = max(following, each.offset + 1)


def _moved(group: Group, reader: str, delivery: Delivery) -> bool:
    """Whether a fault or a reset may have moved the reader back to a message that it had skipped."""
    return any(
        fault.at <= delivery.began and fault.may_move(delivery.queue, delivery.offset)
        for fault in group.faults_of(reader)
    )


def check_resets(group: Group, sends: Iterable[Send]) -> Iterator[Violation]:
    """I2: a group that was reset gets everything from the new offset on, including what it had got before."""
    wanted = [send for send in group.wanted(sends) if send.outcome is Outcome.OK and send.place is not None]
    for reset in group.faults:
        if reset.queue is None or not reset.certain or _is_disturbed(group, reset):
            continue
        got = {each.id for each in group.deliveries if each.began >= reset.at}
        for send in wanted:
            if send.line != reset.queue or send.place is None or send.place[1] < reset.offset or send.id in got:
                continue
            if not group.is_skipped(send.line, send.place[1]):
                text = f"{group.name} was reset to {reset.offset} of {reset.queue} at {reset.at:.2f}"
                yield Violation("I2", f"{text}, and has not got {send.id} at {send.place[1]} since")


def _is_disturbed(group: Group, reset: Fault) -> bool:
    """Whether something else may have moved the group at the same time: then either may have come last."""
    return any(
        fault is not reset
        and (fault.queue is None or fault.queue == reset.queue)
        and fault.at <= reset.at + RESET_WITHIN
        and fault.until >= reset.at
        for fault in group.faults
    )
