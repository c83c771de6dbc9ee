"""Passes the record of a schedule to the checker."""

from __future__ import annotations

from tests import checker
from tests.checker import Kind, Violation, check, check_enough, check_group, check_late_commits, check_left
from tests.schedules.history import History

__all__ = ["COMMITTED_WITHIN", "WRITTEN_WITHIN", "judge"]

COMMITTED_WITHIN = 6.0
"""Seconds after which a broker knows what was dealt with: five between two commits, and one for their way."""
SEEN_WITHIN = 2.0
"""Seconds beyond that: a message that was polled with others waits for them, and commits are looked at now and then."""
WRITTEN_WITHIN = 6.0
"""Seconds after which it has that on its disk too, and knows it when it is back: five between two writes."""


def judge(history: History) -> list[Violation]:
    """All violations. A producer retries a send that is not answered, so a message may be stored twice."""
    sends = sorted(history.sends, key=lambda send: send.began)
    found = [*check_enough(sends), *check(checker.History(sends, list(history.observed.values()), once=False))]
    for group in history.groups.values():
        found += check_group(group, sends)
        if group.kind is not Kind.BROADCAST:
            found += check_late_commits(group, COMMITTED_WITHIN + SEEN_WITHIN, history.settled)
    return [*found, *check_left(history.left_over)]
