"""What happened in a schedule, for the checker: sends, what each member got, and what each group did."""

from __future__ import annotations

from collections import Counter

import attrs

from tests.checker import Group, Observation, Send

__all__ = ["History"]


@attrs.define
class History:
    """All of it.

    Attributes:
        groups: By name.
        sends: In the order in which their outcome was known.
        observed: What each member got of the topic's queues; and in the end what the brokers hold.
        bad: Ids of messages that no listener of a group that refuses them is ever content with.
        settled: When nothing was disturbed any more.
        left_over: What was open when all was closed: tasks and links.
        had: How often what a plan may draw came about.
    """

    groups: dict[str, Group]
    sends: list[Send] = attrs.field(factory=list)
    observed: dict[str, Observation] = attrs.field(factory=dict)
    bad: set[str] = attrs.field(factory=set)
    settled: float = 0.0
    left_over: list[str] = attrs.field(factory=list)
    had: Counter[str] = attrs.field(factory=Counter)
