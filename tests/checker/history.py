"""The record of a run: sends with their outcomes, and observations of the stored messages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

__all__ = ["History", "Line", "Observation", "Outcome", "Seen", "Send", "Violation"]

Line = tuple[str, str, int]
"""A queue: topic, broker and queue id. In a run with one broker, its name may be ""."""


class Outcome(Enum):
    """What a producer knows about its send."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"
    """Unknown: it may have been stored or not."""


@attrs.frozen(kw_only=True)
class Send:
    """One call of a producer.

    Attributes:
        id: Unique in the history; every observer can read it from the message's key or body.
        place: (queue id, queue offset) as acknowledged.
        broker: The broker of that queue.
        position: The position of the record in the log according to the acknowledged message id; None if not known.
        optional: Whether the message may be gone for a good reason: its topic was deleted, or its file was cleaned up.
        repeatable: Whether it may be stored more than once.
        producer: The producer. Its sends to one queue, each awaited before the next, are in order.
        began: When the call began, in the run's seconds.
        ended: When its outcome was known.
        stored_by: From when on it has to be in its topic; None if that is when its outcome was known.
    """

    id: str
    topic: str
    body: bytes
    outcome: Outcome
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    place: tuple[int, int] | None = None
    broker: str = ""
    position: int | None = None
    optional: bool = False
    repeatable: bool = False
    producer: str | None = None
    began: float = 0.0
    ended: float = 0.0
    stored_by: float | None = None

    @property
    def line(self) -> Line | None:
        """The queue that it was acknowledged in."""
        return None if self.place is None else (self.topic, self.broker, self.place[0])


@attrs.frozen(kw_only=True)
class Seen:
    """A message as an observer got it. `id` is "" if the observer cannot identify it."""

    id: str
    topic: str
    queue_id: int
    offset: int
    body: bytes
    broker: str = ""
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    position: int | None = None

    @property
    def line(self) -> Line:
        """The queue that it was seen in."""
        return self.topic, self.broker, self.queue_id


@attrs.frozen(kw_only=True)
class Observation:
    """What one observer saw.

    Attributes:
        name: Its name, for texts.
        seen: The messages, in the order in which they arrived.
        complete: Whether it is everything that the stores held at that moment: a read of all queues.
        sends_before: How many of the history's sends had begun by then; those that are missing in a complete
            observation must not appear later. None if sends were under way.
        bounds: (first offset, offset after the last) of each queue, for complete observations.
        committed: The offsets of groups, by group and queue.
        problems: What a check of the store's files found.
        at: When it was made; what is acknowledged at that moment or later need not be there.
    """

    name: str
    seen: list[Seen] = attrs.field(factory=list)
    complete: bool = True
    sends_before: int | None = None
    bounds: Mapping[Line, tuple[int, int]] = attrs.field(factory=dict)
    committed: Mapping[tuple[str, Line], int] = attrs.field(factory=dict)
    problems: list[str] = attrs.field(factory=list)
    at: float = float("inf")


@attrs.define
class History:
    """What happened in a run.

    Attributes:
        sends: In the order in which they began.
        observations: In the order in which they were made.
        durable: Whether acknowledged and observed messages have to survive whatever happened between the observations.
        once: Whether a message can be stored only once, because no producer retries.
    """

    sends: list[Send] = attrs.field(factory=list)
    observations: list[Observation] = attrs.field(factory=list)
    durable: bool = True
    once: bool = True


@attrs.frozen
class Violation:
    """A promise that was broken."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"
