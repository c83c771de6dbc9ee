"""The promises to groups of consumers, by the numbers of the invariants, held against a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise

from tests import checker
from tests.checker import Cause, Violation, check_copies
from tests.schedules.history import Delivery, Fault, History, Kind, Place

__all__ = ["judge"]

CAUSE_WITHIN = 25.0
"""Seconds between a fault and what comes twice of it: five between two commits, twenty between two rebalances."""
COMMITTED_WITHIN = 6.0
"""Seconds after which a broker knows what was dealt with: five between two commits, and one for their way."""
SEEN_WITHIN = 2.0
"""Seconds beyond that: a message that was polled with others waits for them, and commits are looked at now and then."""
WRITTEN_WITHIN = 6.0
"""Seconds after which it has that on its disk too, and knows it when it is back: five between two writes."""
LOCK_LIFE = 60.0
"""Seconds for which a broker keeps a lock that nobody renews; one that was restarted knows of none."""


def judge(history: History) -> list[Violation]:
    """What was broken."""
    checks = (
        _too_little,
        _unseen,
        _undead,
        _sends_in_order,
        _gaps,
        _twice,
        _late_commits,
        _order,
        _commits,
        _retries,
        _tries,
        _broadcast,
        _owners,
        _left,
    )
    return [violation for check in checks for violation in check(history)]


RETRY_DELAYS = (10.0, 30.0)
"""Seconds of the delay levels 3 and 4, after which what has failed once and twice comes again."""
CLOCK = 0.01
"""Brokers tell the time in whole milliseconds."""
LATE = 5.0
"""Seconds that a retry may take besides, with other messages before it."""
ENOUGH = 50
"""Acknowledged sends without which a run says nothing."""


def _too_little(history: History) -> Iterator[Violation]:
    """I24: a run counts only where something was sent."""
    acknowledged = sum(send.outcome == "ok" for send in history.sends)
    if acknowledged < ENOUGH:
        yield Violation("I24", f"only {acknowledged} of {len(history.sends)} sends were acknowledged")


def _sharing(history: History) -> list[str]:
    """Groups whose members share the messages."""
    return [group for group, kind in history.groups.items() if kind is not Kind.BROADCAST]


def _unseen(history: History) -> Iterator[Violation]:
    """I2: what was acknowledged reaches every group."""
    for group in _sharing(history):
        got = {each.name for each in history.deliveries if each.group == group}
        for send in history.sends:
            if send.outcome == "ok" and send.name not in got:
                yield Violation("I2", f"{group} never got {send.name} of {send.place} at {send.offset}")


def _undead(history: History) -> Iterator[Violation]:
    """I3: what certainly failed is never delivered."""
    failed = {send.name for send in history.sends if send.outcome == "fail"}
    for each in history.deliveries:
        if each.name in failed:
            yield Violation("I3", f"{each.member} got {each.name}, which was never sent")


def _sends_in_order(history: History) -> Iterator[Violation]:
    """I8: offsets of one producer in one queue rise."""
    last: dict[tuple[str, Place], int] = {}
    for send in history.sends:
        if send.outcome == "ok" and send.place is not None:
            before = last.get((send.producer, send.place), -1)
            if send.offset <= before:
                yield Violation("I8", f"{send.name} is at {send.offset} of {send.place}, after {before}")
            last[send.producer, send.place] = send.offset


def _gaps(history: History) -> Iterator[Violation]:
    """I10: what comes for the first time follows what came before, without a gap."""
    following: dict[tuple[str, Place], int] = {}
    for each in history.deliveries:
        if each.retried:
            continue
        key = _reader(history, each), each.place
        wanted = following.get(key, 0)
        if each.offset > wanted:
            yield Violation("I10", f"{each.member} got {each.place} at {each.offset}, not at {wanted}")
        following[key] = max(wanted, each.offset + 1)


def _reader(history: History, delivery: Delivery) -> str:
    """Who reads a queue from its beginning: the group, or in a broadcast each member."""
    return delivery.member if history.groups[delivery.group] is Kind.BROADCAST else delivery.group


def _twice(history: History) -> Iterator[Violation]:
    """I11: what comes twice was in hand when something went wrong, or not committed yet."""
    readers: dict[tuple[str, str], list[checker.Delivery]] = {}
    for each in history.deliveries:
        readers.setdefault((each.group, _reader(history, each)), []).append(_as_delivery(each))
    for (group, _), deliveries in readers.items():
        yield from check_copies(deliveries, [_cause(fault) for fault in _faults(history.faults, group)])


def _late_commits(history: History) -> Iterator[Violation]:
    """I11: what is dealt with gets committed soon where nothing is wrong, or a kill would bring more of it back."""
    for (group, place), commits in history.commits.items():
        faults = _faults(history.faults, group)
        for offset, dealt in sorted(_dealt_up_to(history, group, place).items()):
            by = dealt + COMMITTED_WITHIN + SEEN_WITHIN
            if by > history.settled or any(
                fault.at <= by and dealt <= fault.at + fault.lasts + CAUSE_WITHIN for fault in faults
            ):
                continue
            committed = max((known for at, known in commits if at <= by), default=0)
            if committed <= offset:
                text = f"{group} had dealt with {place} up to {offset} at {dealt:.2f}"
                yield Violation("I11", f"{text}, and had committed {committed} at {by:.2f}")


def _dealt_up_to(history: History, group: str, place: Place) -> dict[int, float]:
    """When each offset of a queue of the topic and all before it were dealt with."""
    firsts: dict[int, float] = {}
    for each in history.deliveries:
        if (each.group, each.place, each.retried) == (group, place, False) and _is_dealt_with(history, each):
            firsts[each.offset] = min(each.ended or 0.0, firsts.get(each.offset, float("inf")))
    at, found = 0.0, {}
    for number, offset in enumerate(sorted(firsts)):
        if number != offset:
            break  # one is open, and so nothing behind it can be committed
        at = found[offset] = max(at, firsts[offset])
    return found


def _as_delivery(each: Delivery) -> checker.Delivery:
    return checker.Delivery(
        consumer=each.member,
        queue=("retry" if each.retried else "topic", *each.place),
        offset=each.offset,
        began=each.began,
        ended=each.ended,
        succeeded=each.done,
    )


def _cause(fault: Fault) -> Cause:
    """Until when it may bring back what was dealt with, and for how long."""
    within = COMMITTED_WITHIN + (WRITTEN_WITHIN if fault.broker else 0.0)
    within = float("inf") if fault.what == "seek" else within
    return Cause(at=fault.at, lasts=fault.lasts + CAUSE_WITHIN, within=within)


def _faults(
    faults: Iterable[Fault], group: str, since: float = -float("inf"), until: float = float("inf")
) -> list[Fault]:
    return [
        fault
        for fault in faults
        if since <= fault.at + fault.lasts and fault.at <= until and fault.group in ("", group)
    ]


# --- in order ----------------------------------------------------------------------------------------------


def _order(history: History) -> Iterator[Violation]:
    """I12: in order, and one at a time."""
    for group in [group for group, kind in history.groups.items() if kind is Kind.ORDERLY]:
        by_place: dict[Place, list[Delivery]] = {}
        for each in history.deliveries:
            if each.group == group:
                by_place.setdefault(each.place, []).append(each)
        for deliveries in by_place.values():
            yield from _one_after_the_other(history, deliveries)
            yield from _one_at_a_time(history, deliveries)


def _one_after_the_other(history: History, deliveries: list[Delivery]) -> Iterator[Violation]:
    firsts: dict[int, Delivery] = {}
    for each in deliveries:
        firsts.setdefault(each.offset, each)
    for before, after in pairwise(firsts[offset] for offset in sorted(firsts)):
        fine = any(
            (each.member, each.began) == (after.member, after.began)  # one call with both
            or (_is_dealt_with(history, each) and (each.ended or 0.0) <= after.began)
            for each in deliveries
            if each.offset == before.offset
        )
        if not fine:
            yield Violation(
                "I12", f"{after.member} got {after.place} at {after.offset} before {before.offset} was done"
            )


def _one_at_a_time(history: History, deliveries: list[Delivery]) -> Iterator[Violation]:
    lasting = [each for each in deliveries if each.ended is not None and each.ended > each.began]
    for one, other in combinations(lasting, 2):
        if one.member == other.member and one.began == other.began:
            continue  # one call with several messages
        overlap = min(one.ended or 0.0, other.ended or 0.0) - max(one.began, other.began)
        if overlap > 1e-9 and not _locks_lost(history, one.place, max(one.began, other.began)):
            yield Violation(
                "I12",
                f"{one.member} and {other.member} had {one.place} at {one.offset} and {other.offset} at the same time",
            )


def _locks_lost(history: History, place: Place, at: float) -> bool:
    """Whether the broker of a queue has forgotten who had it."""
    return any(fault.broker == place[0] and at - LOCK_LIFE <= fault.at <= at for fault in history.faults)


def _is_dealt_with(history: History, delivery: Delivery) -> bool:
    """Whether its listener was content, or will not be asked again."""
    if delivery.ended is None:
        return False
    if delivery.done or history.groups[delivery.group] is Kind.CONCURRENT:
        return True  # what failed is given back at once
    return history.is_refused(delivery) and delivery.attempt >= history.most_attempts


# --- commits ----------------------------------------------------------------------------------------------


def _commits(history: History) -> Iterator[Violation]:
    """I13: nothing is committed that is not dealt with, and commits do not fall."""
    for (group, place), commits in history.commits.items():
        dealt: dict[int, float] = {}
        for each in history.deliveries:
            if each.group == group and each.place == place and not each.retried and _is_dealt_with(history, each):
                dealt[each.offset] = min(dealt.get(each.offset, each.ended or 0.0), each.ended or 0.0)
        checked = 0
        for at, offset in commits:
            for below in range(checked, offset):
                if dealt.get(below, float("inf")) > at:
                    yield Violation("I13", f"{group} has committed {place} to {offset} at {at:.2f} without {below}")
            checked = max(checked, offset)
        for (_, before), (at, after) in pairwise(commits):
            if after < before and not _may_fall(history, group, place, at):
                yield Violation("I13", f"{group} had committed {place} to {before}, and at {at:.2f} to {after}")


def _may_fall(history: History, group: str, place: Place, at: float) -> bool:
    """Where two members have a queue for a moment, each commits how far it is; in order only a broker may go back."""
    causes = _faults(history.faults, group, at - CAUSE_WITHIN, at)
    if history.groups[group] is Kind.ORDERLY:
        return any(cause.broker == place[0] for cause in causes)
    return bool(causes)


# --- what fails -------------------------------------------------------------------------------------------


def _retries(history: History) -> Iterator[Violation]:
    """I14: what is never good enough is tried as often as it may be, and is a dead letter then."""
    stored = {send.name for send in history.sends if send.outcome == "ok"}
    for group in _sharing(history):
        attempts: dict[str, set[int]] = {}
        refused: set[str] = set()
        for each in history.deliveries:
            if each.group == group:
                attempts.setdefault(each.name, set()).add(each.attempt)
                if history.is_refused(each) and each.ended is not None:
                    refused.add(each.name)
        dead = history.dead_letters.get(group, [])
        for name in sorted(refused & stored):
            wanted = set(range(history.most_attempts + 1))
            # In order, a message that no broker takes as a dead letter stays, and is tried again.
            more = bool(history.faults) and history.groups[group] is Kind.ORDERLY
            if not wanted <= attempts[name] or (attempts[name] != wanted and not more):
                yield Violation("I14", f"{group} tried {name} at the attempts {sorted(attempts[name])}")
            if name not in dead:
                yield Violation("I14", f"{group} has no dead letter of {name}")
        for name in dead:
            if group not in history.refusing or name not in history.bad:
                yield Violation("I14", f"{group} has a dead letter of {name}, which failed once at most")
        if not history.faults:
            for name in sorted(set(dead)):
                if dead.count(name) > 1:
                    yield Violation("I14", f"{group} has {dead.count(name)} dead letters of {name}")


def _tries(history: History) -> Iterator[Violation]:
    """I14: what is given back comes again after the delay of its attempt; once, and soon, where nothing happens."""
    for group in [group for group, kind in history.groups.items() if kind is Kind.CONCURRENT]:
        tries: dict[str, dict[int, list[Delivery]]] = {}
        for each in history.deliveries:
            if each.group == group:
                tries.setdefault(each.name, {}).setdefault(each.attempt, []).append(each)
        for name, attempts in tries.items():
            for attempt, deliveries in attempts.items():
                if not history.faults and len(deliveries) > 1:
                    yield Violation("I14", f"{group} got {name} {len(deliveries)} times at the attempt {attempt}")
                if attempt - 1 in attempts:
                    yield from _waited(history, attempts[attempt - 1], deliveries)


def _waited(history: History, before: list[Delivery], after: list[Delivery]) -> Iterator[Violation]:
    """The first of the next attempt comes neither too early after the first of the last one, nor too late."""
    failed = min((each.ended for each in before if each.ended is not None and not each.done), default=None)
    first = after[0]
    if failed is None:
        yield Violation("I14", f"{first.member} got {first.name} at the attempt {first.attempt}, and it had not failed")
        return
    waited, delay = first.began - failed, RETRY_DELAYS[first.attempt - 1]
    if waited < delay - CLOCK or (not history.faults and waited > delay + LATE):
        yield Violation("I14", f"{first.member} got {first.name} again after {waited:.2f} s, not after {delay:g}")


def _broadcast(history: History) -> Iterator[Violation]:
    """I15: every member that is there gets all."""
    for group in history.groups.keys() - set(_sharing(history)):
        for member, joined in history.stayed[group].items():
            got = {each.name for each in history.deliveries if each.member == member}
            for send in history.sends:
                if send.outcome == "ok" and send.began > joined and send.name not in got:
                    yield Violation("I15", f"{member} never got {send.name}")


# --- the end ----------------------------------------------------------------------------------------------


def _owners(history: History) -> Iterator[Violation]:
    """I18: each queue has exactly one owner in a group, or all members of a broadcast."""
    for (group, place), owners in history.owners.items():
        wanted = len(history.stayed[group]) if history.groups[group] is Kind.BROADCAST else 1
        if len(owners) != wanted:
            yield Violation("I18", f"{place} belongs to {owners or 'nobody'} in {group}")


def _left(history: History) -> Iterator[Violation]:
    """I20: nothing is left when all is closed."""
    for what in history.left_over:
        yield Violation("I20", what)
