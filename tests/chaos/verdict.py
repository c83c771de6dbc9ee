"""Whether the promises were kept. Pure: it compares the book with what brokers hold."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import attrs

from tests.chaos.book import ACKNOWLEDGED, UNDER_WAY, Book
from tests.chaos.ways import Way
from tests.checker import Violation, check_copies, check_order

SHOWN = 5


@dataclass(frozen=True)
class Stored:
    """A message as it lies in a broker."""

    body: str
    queue: str
    offset: int


@dataclass
class Verdict:
    """What was found, by kind; empty where all is well."""

    violations: dict[str, list[str]] = field(default_factory=dict)
    duplicates: int = 0

    def add(self, kind: str, found: Iterable[str]) -> None:
        """Several of a kind."""
        self.violations[kind] = list(found)

    @property
    def count(self) -> int:
        """All of them."""
        return sum(map(len, self.violations.values()))

    def lines(self) -> list[str]:
        """The first ones of each kind."""
        shown = []
        for kind, found in self.violations.items():
            shown += [f"{kind}: {each}" for each in found[:SHOWN]]
            if len(found) > SHOWN:
                shown.append(f"{kind}: and {len(found) - SHOWN} more")
        return shown


def judge(
    book: Book, stored: Sequence[Stored], groups: Mapping[str, Way], left: Mapping[str, Sequence[str]]
) -> Verdict:
    """Judge a run.

    Args:
        book: what clients saw.
        stored: what brokers hold.
        groups: who had to get everything, and in which way.
        left: what should not be there any more, by kind: threads, tasks, warnings.
    """
    verdict = Verdict()
    acknowledged = book.acknowledged()
    times = Counter(each.body for each in stored)
    verdict.add("lost", sorted(acknowledged - times.keys()))
    verdict.add("unanswered", [each.body for each in book.sent if each.state == UNDER_WAY])
    verdict.add("out of order", _out_of_order(book, stored))
    keyed = {each.body for each in book.sent if each.key is not None}
    verdict.add("keyed and twice", sorted(body for body in keyed if times[body] > 1))
    for group, way in groups.items():
        verdict.add(f"not delivered to {group}", sorted(acknowledged - book.delivered[group]))
        verdict.add(f"wrongly delivered to {group}", map(str, _wrongly_delivered(book, group, way)))
    verdict.add("late", book.late)
    verdict.add("strange", book.strange)
    for kind, found in left.items():
        verdict.add(kind, found)
    verdict.duplicates = sum(count - 1 for count in times.values())
    return verdict


def _wrongly_delivered(book: Book, group: str, way: Way) -> list[Violation]:
    """What breaks the order of a group in order, or comes again to a broadcast, whose offsets no broker can lose."""
    consumed = attrs.evolve(book.consumed[group], forgotten=book.restarts)
    if way is Way.ORDERLY:
        return check_order(consumed)
    return check_copies(consumed.deliveries, []) if way is Way.BROADCAST else []


def _out_of_order(book: Book, stored: Sequence[Stored]) -> list[str]:
    """Acknowledged messages of one key that lie in one queue in another order than that in which they were sent.

    When a broker is away its keys may move to other queues, and come back: each queue is looked at by itself.
    """
    turn = {each.body: (each.key, number) for number, each in enumerate(book.sent) if each.state == ACKNOWLEDGED}
    queues: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for each in stored:
        key = turn.get(each.body, (None, 0))[0]
        if key is not None:
            queues[key, each.queue].append(each)
    wrong = []
    for (key, queue), found in queues.items():
        found.sort(key=lambda each: each.offset)
        for earlier, later in itertools.pairwise(found):
            if turn[earlier.body][1] > turn[later.body][1]:
                wrong.append(f"{earlier.body} lies before {later.body} in {queue}, of key {key}")
    return wrong
