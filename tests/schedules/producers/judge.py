"""Passes the record of a schedule of producers to the checker."""

from __future__ import annotations

import attrs

from tests import checker
from tests.checker import (
    Asking,
    Send,
    Violation,
    check,
    check_calls,
    check_enough,
    check_left,
    check_timed,
    check_transactions,
    check_unseen,
)
from tests.schedules.producers.history import History
from tests.schedules.producers.plan import Plan

__all__ = ["KNOWN_WITHIN", "judge"]

KNOWN_WITHIN = 65.0
"""Seconds after which brokers know all producers, and clients all brokers: a round of heartbeats and one of routes."""


def judge(history: History, plan: Plan) -> list[Violation]:
    """All violations."""
    once = plan.is_calm
    sends = [_with_recall(history, send) for send in sorted(history.sends, key=lambda send: send.began)]
    aside = sorted(history.aside, key=lambda send: send.began)
    observed = [*history.observed]
    found = [*check_enough([*sends, *(each.send for each in history.transactions.values())])]
    found += check(checker.History(sends, observed, once=once))
    found += check(checker.History(aside, history.observed_aside, once=False))
    got = [each for group in history.groups.values() for each in group.deliveries]
    for topic, group in history.groups.items():
        found += check_unseen(group, [send for send in sends if send.topic == topic and not send.optional])
    found += check_timed(history.timed.values(), got, history.restarts, history.clock, history.faults)
    asking = Asking(calm=history.settled + KNOWN_WITHIN, until=history.until)
    found += check_transactions(history.transactions.values(), got, asking, history.faults, once=once)
    found += check_calls(history.calls)
    return [*found, *history.wrong, *check_left(history.left_over)]


def _with_recall(history: History, send: Send) -> Send:
    """A message that was recalled, or perhaps was, need not come."""
    timed = history.timed.get(send.id)
    recalled = timed is not None and (timed.is_unsure or timed.recalled is not None)
    return attrs.evolve(send, optional=True) if recalled else send
