"""Which schedules every test run tries: a few that together have every event, each of them in several schedules.

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
    "nothing": 20,
    "join": 80,
    "leave": 40,
    "kill": 40,
    "unplug": 25,
    "restart broker": 30,
    "kill broker": 30,
    "cut links": 40,
    "lose answers": 10,
    "reset back": 50,
    "reset skip": 40,
    "sought back": 15,
    "sought forth": 15,
    "assigned": 30,
    "filtered by tags": 50,
    "filtered by SQL92": 50,
    "committed by hand in order": 50,
    "rolled back": 50,
    "suspended": 50,
    "returned to a file": 15,
} | {kind.value: 30 for kind in Kind}
"""In how many of all schedules each event has to happen, and each kind of group has to be there; in the quick ones,
once."""


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
