"""What happened in a schedule: sends, deliveries, commits, faults."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

__all__ = ["Delivery", "Fault", "History", "Kind", "Place", "Sent"]

Place = tuple[str, int]
"""A queue: the name of its broker and its number."""


class Kind(Enum):
    """How a group consumes."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    BROADCAST = "broadcast"
    POLLED = "polled"
    """Lite pull consumers, whose program polls and commits."""


@attrs.frozen(kw_only=True)
class Sent:
    """One send of a producer, which awaits each before the next.

    Attributes:
        name: Unique; the body of the message.
        outcome: "ok", "fail" when it is certain that it was not stored, "info" when nobody knows.
        place: Where it is, when that is known.
        offset: Its offset there; -1 when it is not known.
    """

    name: str
    producer: str
    began: float
    outcome: str
    place: Place | None = None
    offset: int = -1


@attrs.define(kw_only=True)
class Delivery:
    """One call of a listener with one message, or the work on one that was polled.

    Attributes:
        place: The queue that it came from, of the topic or of the retry topic.
        attempt: How often it has failed before.
        ended: None while the listener is at work, or when it was cut off.
        done: Whether the listener was content.
        retried: Whether it came from the retry topic.
    """

    name: str
    group: str
    member: str
    place: Place
    offset: int
    attempt: int
    began: float
    ended: float | None = None
    done: bool = False
    retried: bool = False


@attrs.frozen
class Fault:
    """Something that may make a group begin again.

    Attributes:
        what: In words.
        group: Whose members it concerns; "" for all.
        broker: Which one lost what it had not written, locks and offsets of the last seconds; "" for none.
        lasts: For how many seconds brokers may disagree about it.
    """

    at: float
    what: str
    group: str = ""
    broker: str = ""
    lasts: float = 0.0


@attrs.define
class History:
    """All of it.

    Attributes:
        groups: How each consumes.
        settled: When nothing was disturbed any more.
        stayed: By group, the members that were there at the end, each with when it joined.
        owners: By group and queue, the members that held it at the end.
        commits: By group and queue, (time, committed offset) whenever it was another one.
        dead_letters: By group, the names of its dead letters.
        left_over: What was open when all was closed: tasks and links.
    """

    groups: Mapping[str, Kind]
    most_attempts: int
    bad: frozenset[str] = frozenset()
    """Names of messages that no listener of a refusing group is ever content with."""
    refusing: frozenset[str] = frozenset()
    """Groups that refuse them."""
    settled: float = 0.0
    sends: list[Sent] = attrs.field(factory=list)
    deliveries: list[Delivery] = attrs.field(factory=list)
    faults: list[Fault] = attrs.field(factory=list)
    stayed: dict[str, dict[str, float]] = attrs.field(factory=dict)
    owners: dict[tuple[str, Place], list[str]] = attrs.field(factory=dict)
    commits: dict[tuple[str, Place], list[tuple[float, int]]] = attrs.field(factory=dict)
    dead_letters: dict[str, list[str]] = attrs.field(factory=dict)
    left_over: list[str] = attrs.field(factory=list)

    def is_refused(self, delivery: Delivery) -> bool:
        """Whether it is of a message that its group never takes."""
        return delivery.group in self.refusing and delivery.name in self.bad
