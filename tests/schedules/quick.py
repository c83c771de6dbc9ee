"""A few schedules that together have every event, each of them in several schedules.

An event that only one of them has would be lost as soon as a change of the library moves times a little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from math import sqrt

from tests.checker import Kind
from tests.schedules.history import History

__all__ = ["LEAST", "QUICK", "cover", "had"]

QUICK = (13, 25, 49, 54, 55, 59, 66, 78, 85, 86, 91, 94, 100)
"""Their seeds; `python -m tests.schedules --cover 13` finds such ones."""
LEAST = {
    "nothing": 10,
    "join": 40,
    "leave": 20,
    "kill": 20,
    "unplug": 13,
    "restart broker": 15,
    "kill broker": 15,
    "cut links": 20,
    "lose answers": 5,
    "reset back": 25,
    "reset skip": 20,
    "sought back": 8,
    "sought forth": 8,
    "assigned": 15,
    "filtered by tags": 25,
    "filtered by SQL92": 25,
    "committed by hand in order": 25,
    "rolled back": 25,
    "suspended": 25,
    "returned to a file": 8,
} | {kind.value: 15 for kind in Kind}
"""In how many of a hundred schedules each event has to happen, and each kind of group has to be there; in the quick
ones, once."""


def had(history: History) -> Counter[str]:
    """What happened in a schedule, or that nothing did, and the kinds of its groups."""
    groups = history.groups.values()
    calm = Counter({"nothing": int(not any(group.faults for group in groups))})
    return history.had + calm + Counter(group.kind.value for group in groups)


def cover(
    found: Mapping[int, Collection[str]], work: Mapping[int, int], count: int, least: Collection[str] = LEAST.keys()
) -> list[int]:
    """Choose rather small schedules, so that each event is in several of them. Returns their seeds, sorted.

    Args:
        found: by seed, what happened in its schedule.
        work: by seed, how many messages its schedule sends and delivers.
        count: how many to choose.
        least: the events that count.
    """

    def worth(seed: int) -> float:
        return sum(4.0 ** -times[name] for name in found[seed] if name in least) / sqrt(work[seed])

    chosen: list[int] = []
    times = Counter[str]()
    for _ in range(min(count, len(found))):
        best = max((seed for seed in sorted(found) if seed not in chosen), key=worth)
        chosen.append(best)
        times.update(set(found[best]).intersection(least))
    return sorted(chosen)
