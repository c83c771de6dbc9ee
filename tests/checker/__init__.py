"""Checks what observers saw and consumers got against what was sent: one check of each promise, for all kinds of test.

A `History` holds sends with their outcomes, and observations of the stored messages; `check` compares them. A `Group`
holds what a consumer group did, and what happened to it; `check_group` judges that. If a run does not record
everything, it calls the checks of single promises instead. Violations have the numbers of the invariants (I1, I4, ...).
Nothing here knows how the run was made: simulated power losses, killed processes, cut sockets and simulated networks
all end up here.
"""

from __future__ import annotations

from tests.checker.arrivals import check_gaps, check_resets, check_unseen
from tests.checker.calls import Call, check_calls
from tests.checker.commits import check_commits, check_ends, check_stays, check_table
from tests.checker.copies import check_copies, check_late_commits
from tests.checker.groups import Delivery, Fault, Group, Kind, Life
from tests.checker.history import History, Line, Observation, Outcome, Seen, Send, Violation
from tests.checker.membership import check_left, check_owners
from tests.checker.order import check_order, check_turns
from tests.checker.retries import check_retries, check_tries
from tests.checker.sends import ENOUGH, check_enough, check_failed, check_rising
from tests.checker.stored import check, check_same_files
from tests.checker.timed import Restart, Timed, WallClock, check_timed
from tests.checker.transactions import Asking, Transaction, check_transactions

__all__ = [
    "ENOUGH",
    "Asking",
    "Call",
    "Delivery",
    "Fault",
    "Group",
    "History",
    "Kind",
    "Life",
    "Line",
    "Observation",
    "Outcome",
    "Restart",
    "Seen",
    "Send",
    "Timed",
    "Transaction",
    "Violation",
    "WallClock",
    "check",
    "check_calls",
    "check_commits",
    "check_copies",
    "check_ends",
    "check_enough",
    "check_failed",
    "check_gaps",
    "check_group",
    "check_late_commits",
    "check_left",
    "check_order",
    "check_owners",
    "check_resets",
    "check_retries",
    "check_rising",
    "check_same_files",
    "check_stays",
    "check_table",
    "check_timed",
    "check_transactions",
    "check_tries",
    "check_turns",
    "check_unseen",
]


def check_group(group: Group, sends: list[Send]) -> list[Violation]:
    """I2, I10 to I15 and I18, for a group that was recorded completely; late commits need a bound of their own."""
    return [
        *check_unseen(group, sends),
        *check_gaps(group),
        *check_resets(group, sends),
        *check_copies(group),
        *(check_turns(group) if group.kind is Kind.ORDERLY else ()),
        *check_commits(group),
        *check_retries(group, sends),
        *check_tries(group),
        *check_owners(group),
    ]
