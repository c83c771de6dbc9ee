"""Whether the promises were kept. Pure: it passes what the book recorded and what brokers hold to the checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import attrs

from tests.chaos.book import ACKNOWLEDGED, UNDER_WAY, Book
from tests.chaos.ways import Way
from tests.checker import (
    Fault,
    History,
    Kind,
    Life,
    Line,
    Observation,
    Outcome,
    Seen,
    Send,
    Violation,
    check,
    check_copies,
    check_order,
    check_rising,
    check_unseen,
)

SHOWN = 5


@dataclass(frozen=True)
class Stored:
    """A message as it lies in a broker."""

    body: str
    queue: Line
    offset: int


@dataclass
class Verdict:
    """What was found, by kind; empty where all is well."""

    violations: dict[str, list[str]] = field(default_factory=dict)
    duplicates: int = 0

    def add(self, kind: str, found: Iterable[object]) -> None:
        """Several of a kind."""
        self.violations[kind] = [str(each) for each in found]

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
    sends = _sends(book)
    verdict.add("wrongly stored", check(History(sends, [_stored(stored)])))
    verdict.add("unanswered", [each.body for each in book.sent if each.state == UNDER_WAY])
    verdict.add("out of order", check_rising(_placed(sends, stored)))
    for group, way in groups.items():
        verdict.add(f"wrongly delivered to {group}", _delivered(book, group, way, sends))
    verdict.add("late", book.late)
    verdict.add("strange", book.strange)
    for kind, found in left.items():
        verdict.add(kind, found)
    verdict.duplicates = sum(count - 1 for count in Counter(each.body for each in stored).values())
    return verdict


def _sends(book: Book) -> list[Send]:
    """The sends; whether failed ones are stored is unknown. Sends of one key were awaited one by one."""
    return [
        Send(
            id=each.body,
            topic="",
            body=each.body.encode(),
            outcome=Outcome.OK if each.state == ACKNOWLEDGED else Outcome.INFO,
            repeatable=each.key is None,
            producer=each.key,
        )
        for each in book.sent
    ]


def _stored(stored: Sequence[Stored]) -> Observation:
    seen = [
        Seen(id=each.body, topic="", broker=each.queue[1], queue_id=each.queue[2], offset=each.offset,
             body=each.body.encode())
        for each in sorted(stored, key=lambda each: (each.queue, each.offset))
    ]  # fmt: skip
    return Observation(name="the brokers", seen=seen)


def _placed(sends: Iterable[Send], stored: Sequence[Stored]) -> Iterator[Send]:
    """Acknowledged sends, with each place where their message is stored.

    When a broker is away its keys may move to other queues, and come back: each queue is looked at by itself.
    """
    places: dict[str, list[Stored]] = {}
    for each in sorted(stored, key=lambda each: each.offset):
        places.setdefault(each.body, []).append(each)
    for send in sends:
        for each in places.get(send.id, ()):
            yield attrs.evolve(send, broker=each.queue[1], place=(each.queue[2], each.offset))


def _delivered(book: Book, group: str, way: Way, sends: Sequence[Send]) -> list[Violation]:
    """What a group missed or got out of order, and redeliveries to a broadcast, whose offsets no broker can lose."""
    restarts = [Fault(at=at, what="restart", broker=name) for at, name in book.restarts if way is not Way.BROADCAST]
    consumed = attrs.evolve(
        book.consumed[group], name=group, kind=Kind[way.name], lives=[Life(name=group)], faults=restarts
    )
    found = list(check_unseen(consumed, sends))
    found += check_order(consumed) if way is Way.ORDERLY else ()
    found += check_copies(consumed) if way is Way.BROADCAST else ()
    return found
