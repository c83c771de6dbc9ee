"""Retries and dead letters: I14."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.checker.groups import Delivery, Group, Kind
from tests.checker.history import Outcome, Send, Violation

__all__ = ["RETRY_DELAYS", "check_retries", "check_tries"]

RETRY_DELAYS = (10.0, 30.0, 60.0, 120.0, 180.0, 240.0)
"""Seconds of the delay levels from 3 on: the delays after the first failure, the second and so on."""
KEPT_DELAY = 5.0
"""Seconds after which a consumer itself retries a message that no broker takes back."""
CLOCK = 0.01
"""Brokers use times in whole milliseconds."""
LATE = 5.0
"""Seconds that a retry may take on top of its delay, because other messages precede it."""


def check_retries(group: Group, sends: Iterable[Send]) -> Iterator[Violation]:
    """I14: a message that always fails is retried as often as allowed, and then becomes a dead letter."""
    if group.most_attempts is None:
        return
    attempts, refused = _attempts(group)
    stored = {send.id for send in sends if send.outcome is Outcome.OK}
    wanted = set(range(group.most_attempts + 1))
    # In an orderly group, a message that no broker takes as a dead letter stays, and is retried.
    more = bool(group.faults) and group.kind is Kind.ORDERLY
    for name in sorted(refused & stored):
        if not wanted <= attempts[name] or (attempts[name] != wanted and not more):
            yield Violation("I14", f"{group.name} tried {name} at the attempts {sorted(attempts[name])}")
        if name not in group.dead_letters:
            yield Violation("I14", f"{group.name} has no dead letter of {name}")
    for name in group.dead_letters:
        if name not in group.bad:
            yield Violation("I14", f"{group.name} has a dead letter of {name}, which failed once at most")
    if not group.faults:
        for name in sorted(set(group.dead_letters)):
            if group.dead_letters.count(name) > 1:
                yield Violation("I14", f"{group.name} has {group.dead_letters.count(name)} dead letters of {name}")


def _attempts(group: Group) -> tuple[dict[str, set[int]], set[str]]:
    """The attempts at which each message was delivered, and the rejected messages that no reset has skipped since."""
    attempts: dict[str, set[int]] = {}
    refused: set[str] = set()
    for each in group.deliveries:
        attempts.setdefault(each.id, set()).add(each.attempt)
        if each.id in group.bad and each.ended is not None and not group.is_skipped(each.queue, each.offset):
            refused.add(each.id)
    return attempts, refused


def check_tries(group: Group) -> Iterator[Violation]:
    """I14: a message sent back comes again after the delay of its attempt; without faults, once and on time."""
    if group.kind is not Kind.CONCURRENT:
        return
    tries: dict[str, dict[int, list[Delivery]]] = {}
    for each in group.deliveries:
        tries.setdefault(each.id, {}).setdefault(each.attempt, []).append(each)
    for name, attempts in tries.items():
        for attempt, deliveries in attempts.items():
            if not group.faults and len(deliveries) > 1:
                yield Violation("I14", f"{group.name} got {name} {len(deliveries)} times at the attempt {attempt}")
            if attempt - 1 in attempts:
                yield from _waited(group, attempts[attempt - 1], deliveries)


def _waited(group: Group, before: list[Delivery], after: list[Delivery]) -> Iterator[Violation]:
    """The first delivery of an attempt follows the first one of the attempt before neither too early nor too late."""
    failed = min((each.ended for each in before if each.ended is not None and not each.succeeded), default=None)
    first = after[0]
    if failed is None:
        yield Violation("I14", f"{first.consumer} got {first.id} at the attempt {first.attempt} before it had failed")
        return
    kept = bool(group.faults) and not first.retried
    waited, delay = first.began - failed, KEPT_DELAY if kept else RETRY_DELAYS[first.attempt - 1]
    if waited < delay - CLOCK or (not group.faults and waited > delay + LATE):
        yield Violation("I14", f"{first.consumer} got {first.id} again after {waited:.2f} s, not after {delay:g}")
