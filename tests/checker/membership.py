"""Which member has which queue in the end, and what is left open when everything is closed: I18, I20."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.checker.groups import Group, Kind
from tests.checker.history import Violation

__all__ = ["check_left", "check_owners"]


def check_owners(group: Group) -> Iterator[Violation]:
    """I18: each queue has exactly one owner, or all members of a broadcast."""
    stayed = [life for life in group.lives if life.left is None]
    wanted = len(stayed) if group.kind is Kind.BROADCAST else 1
    for queue, owners in group.owners.items():
        if len(owners) != wanted:
            yield Violation("I18", f"{queue} belongs to {owners or 'no member'} in {group.name}")


def check_left(left_over: Iterable[str]) -> Iterator[Violation]:
    """I20: nothing is left open when everything is closed."""
    for what in left_over:
        yield Violation("I20", what)
