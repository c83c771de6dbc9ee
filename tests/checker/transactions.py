"""Transactions: who decided what, who was asked, and what became visible: I17."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import attrs

from tests.checker.groups import NEVER, Delivery, Fault
from tests.checker.history import Outcome, Send, Violation

__all__ = ["Asking", "Transaction", "check_transactions"]

SLACK = 1.0
"""Seconds that asking may take beyond its interval."""


@attrs.frozen(kw_only=True)
class Asking:
    """How brokers ask about transactions.

    Attributes:
        first: Seconds for which they do not ask about a new one.
        every: Seconds between two rounds.
        most: How often they ask about one.
        calm: From when on every broker and every producer is there and knows the other.
        until: When the run stopped observing.
    """

    first: float = 6.0
    every: float = 30.0
    most: int = 15
    calm: float
    until: float


@attrs.define(kw_only=True)
class Transaction:
    """A transaction.

    Attributes:
        send: How its half message was sent.
        commits: When an executor or a checker returned COMMIT.
        rollbacks: When one returned ROLLBACK.
        asked: When a checker was called.
        copies: How many half messages of it brokers have stored: none, or several if the producer sent it again.
        discarded: The number of checks of each that was given up.
    """

    send: Send
    commits: list[float] = attrs.field(factory=list)
    rollbacks: list[float] = attrs.field(factory=list)
    asked: list[float] = attrs.field(factory=list)
    copies: int = 0
    discarded: list[int] = attrs.field(factory=list)

    @property
    def decided(self) -> float:
        """When it was first known how it ends."""
        return min([*self.commits, *self.rollbacks], default=NEVER)


def check_transactions(
    transactions: Iterable[Transaction],
    deliveries: Iterable[Delivery],
    asking: Asking,
    faults: Sequence[Fault],
    *,
    once: bool = False,
) -> Iterator[Violation]:
    """I17: what was committed is visible, nothing else ever is, and unknown ones are asked about up to the limit.

    Args:
        transactions: All of the run.
        deliveries: What consumers got.
        asking: How brokers ask.
        faults: What happened, a checker that hangs included.
        once: Whether nothing happened, so that what was committed is visible exactly once.
    """
    found: dict[str, list[Delivery]] = {}
    for each in deliveries:
        found.setdefault(each.id, []).append(each)
    for transaction in transactions:
        yield from _visible(transaction, found.get(transaction.send.id, []), once=once)
        yield from _asked(transaction, asking, faults)
        yield from _given_up(transaction, asking, once=once)


def _visible(transaction: Transaction, got: Sequence[Delivery], *, once: bool) -> Iterator[Violation]:
    name, committed = transaction.send.id, min(transaction.commits, default=NEVER)
    for each in got:
        if each.began < committed:
            what = "was rolled back" if transaction.rollbacks else "had not been committed"
            yield Violation("I17", f"{name} {what}, and was delivered at {each.began:.3f}")
    if committed < NEVER and not got:
        yield Violation("I17", f"{name} was committed at {committed:.3f}, and was never delivered")
    if once and len(got) > 1:
        yield Violation("I17", f"{name} was delivered {len(got)} times, and nothing went wrong")


def _asked(transaction: Transaction, asking: Asking, faults: Sequence[Fault]) -> Iterator[Violation]:
    """Not too often, and from when on all is calm, not too seldom."""
    name, asked, copies = transaction.send.id, transaction.asked, max(1, transaction.copies)
    if len(asked) > asking.most * copies:
        yield Violation("I17", f"{name} was asked about {len(asked)} times, with {copies} half messages")
    if copies > 1:
        return
    for one, other in pairwise(asked):
        disturbed = any(fault.at <= other and fault.until >= one - asking.every for fault in faults)
        if other - one < asking.every - SLACK and not disturbed:
            yield Violation("I17", f"{name} was asked about at {one:.2f}, and again at {other:.2f}")
    if transaction.send.outcome is not Outcome.OK:
        return
    since, wait = max(transaction.send.ended, asking.calm), asking.first + asking.every + SLACK
    later = [at for at in asked if at >= since and at <= transaction.decided]
    known = not transaction.discarded and transaction.decided == NEVER
    for at in [*later, *([asking.until] if known else [])]:
        if at - since > wait:
            yield Violation("I17", f"nobody was asked about {name} from {since:.2f} to {at:.2f}")
        since, wait = at, asking.every + SLACK


def _given_up(transaction: Transaction, asking: Asking, *, once: bool) -> Iterator[Violation]:
    name = transaction.send.id
    for checks in transaction.discarded:
        if transaction.decided < NEVER:
            yield Violation("I17", f"{name} was given up, and it was known how it ends")
        if checks < asking.most:
            yield Violation("I17", f"{name} was given up after {checks} checks instead of {asking.most}")
        if once and len(transaction.asked) != asking.most:
            yield Violation("I17", f"{name} was given up after asking {len(transaction.asked)} times")
    if transaction.send.outcome is not Outcome.OK or transaction.decided < NEVER or transaction.discarded:
        return
    if asking.until > max(transaction.send.ended, asking.calm) + (asking.most + 2) * asking.every:
        yield Violation("I17", f"{name} was not given up after {asking.most} checks")
