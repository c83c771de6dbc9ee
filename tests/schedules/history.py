"""What happened in a schedule, for the checker: sends, what each member got, and what each group did."""

from __future__ import annotations

from collections import Counter

import attrs

from tests.checker import Group, Observation, Send

__all__ = ["History"]


@attrs.define
class History:
    """The record of one schedule.

    Attributes:
        groups: The groups, by name.
        sends: In the order in which their outcomes became known.
        observed: What each member got from the topic's queues, and at the end what the brokers hold.
        bad: Ids of messages that all listeners fail on, in groups that reject them.
        settled: The time from which on there were no more faults.
        left_over: What was still open after everything was closed: tasks and links.
        had: How often each event that a plan may contain has occurred.
    """

    groups: dict[str, Group]
    sends: list[Send] = attrs.field(factory=list)
    observed: dict[str, Observation] = attrs.field(factory=dict)
    bad: set[str] = attrs.field(factory=set)
    settled: float = 0.0
    left_over: list[str] = attrs.field(factory=list)
    had: Counter[str] = attrs.field(factory=Counter)
