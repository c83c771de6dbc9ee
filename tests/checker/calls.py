"""What callers are told: each call is answered once, and in time: I22."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from tests.checker.history import Violation

__all__ = ["Call", "check_calls"]

GRACE = 0.5
"""Seconds after its deadline by which a call has ended."""


@attrs.define(kw_only=True)
class Call:
    """A call of a client, or a future or callback of one.

    Attributes:
        name: For texts.
        within: The seconds that it may take; a caller that does something within it adds to them.
        answers: When it was answered, each time.
        is_over: Whether nobody waits for an answer any more, because the process of the caller has ended.
    """

    name: str
    began: float
    within: float
    answers: list[float] = attrs.field(factory=list)
    is_over: bool = False


def check_calls(calls: Iterable[Call]) -> Iterator[Violation]:
    """I22: each call is answered exactly once, half a second after its deadline at the latest."""
    for call in calls:
        if len(call.answers) > 1 or (not call.answers and not call.is_over):
            yield Violation("I22", f"{call.name} was answered {len(call.answers)} times")
        for at in call.answers[:1]:
            if at > call.began + call.within + GRACE:
                took = at - call.began
                yield Violation("I22", f"{call.name} was answered after {took:.2f} s instead of {call.within:.2f}")
