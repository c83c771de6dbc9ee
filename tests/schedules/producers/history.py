"""What happened in a schedule of producers, for the checker."""

from __future__ import annotations

from collections import Counter

import attrs

from tests.checker import Call, Fault, Group, Observation, Restart, Send, Timed, Transaction, Violation, WallClock

__all__ = ["History"]


@attrs.define
class History:
    """The record of one schedule.

    Attributes:
        groups: The groups of consumers, by their topics.
        sends: In the order in which their outcomes became known. Those in a transaction have unknown outcomes here.
        aside: Those that wait for a time, or for the end of a transaction, as they stand in topics of the broker's own.
        observed: What consumers got, and what brokers held after each recovery and at the end.
        observed_aside: The same for the broker's own topics.
        timed: What is not to be delivered at once, by id.
        transactions: By id.
        calls: All calls that were made.
        restarts: When brokers were away.
        clock: The wall clock of all.
        faults: What happened.
        settled: The time from which on there were no more faults.
        until: When the run stopped observing.
        wrong: What callers were told and cannot be true.
        left_over: What was still open after everything was closed.
        had: How often each event, and each way to send, has occurred.
    """

    groups: dict[str, Group]
    clock: WallClock
    sends: list[Send] = attrs.field(factory=list)
    aside: list[Send] = attrs.field(factory=list)
    observed: list[Observation] = attrs.field(factory=list)
    observed_aside: list[Observation] = attrs.field(factory=list)
    timed: dict[str, Timed] = attrs.field(factory=dict)
    transactions: dict[str, Transaction] = attrs.field(factory=dict)
    calls: list[Call] = attrs.field(factory=list)
    restarts: list[Restart] = attrs.field(factory=list)
    faults: list[Fault] = attrs.field(factory=list)
    settled: float = 0.0
    until: float = 0.0
    wrong: list[Violation] = attrs.field(factory=list)
    left_over: list[str] = attrs.field(factory=list)
    had: Counter[str] = attrs.field(factory=Counter)
