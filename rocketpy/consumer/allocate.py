"""Who consumes which queue: every member of a group computes it for itself, and all must agree. Pure.

A strategy gets the queues of one topic and the ids of the members, both sorted as Java sorts them, and answers with the
queues of one member. Plays the part of AllocateMessageQueueAveragely and AllocateMessageQueueAveragelyByCircle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue

__all__ = ["Strategy", "allocate", "averagely", "by_circle", "java_sorted", "strategy"]

Strategy: TypeAlias = Callable[[Sequence[MessageQueue], Sequence[str], int], list[MessageQueue]]
"""From sorted queues, sorted ids and the place of one member among them to the queues of that member."""


def averagely(queues: Sequence[MessageQueue], ids: Sequence[str], index: int) -> list[MessageQueue]:
    """One run of neighbours for each; the first members get one more when it does not come out even."""
    share, rest = divmod(len(queues), len(ids))
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(queues: Sequence[MessageQueue], ids: Sequence[str], index: int) -> list[MessageQueue]:
    """Dealt out like cards, one by one."""
    return list(queues[index :: len(ids)])


_STRATEGIES: dict[str, Strategy] = {"averagely": averagely, "by_circle": by_circle}


def strategy(name: str) -> Strategy:
    """The strategy that a setting names.

    Raises:
        ConfigError: there is none of that name.
    """
    found = _STRATEGIES.get(name)
    if found is None:
        raise ConfigError(f"there is no allocation strategy {name!r}, only {', '.join(_STRATEGIES)}")
    return found


def allocate(
    share_out: Strategy, queues: Collection[MessageQueue], ids: Collection[str], client_id: str
) -> list[MessageQueue]:
    """The queues of one member; none when the group does not count it as a member."""
    members = java_sorted(ids)
    if client_id not in members:
        return []
    return share_out(sorted(queues), members, members.index(client_id))


def java_sorted(texts: Collection[str]) -> list[str]:
    """Each text once, in the order of Java's String.compareTo: by UTF-16 code units."""
    return sorted(set(texts), key=lambda text: text.encode("utf-16-be", "surrogatepass"))
