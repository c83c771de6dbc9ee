"""What a group of consumers did, and what happened to it: the deliveries, commits, members and faults of a run.

All times are seconds of the run's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum

import attrs

from tests.checker.history import Line, Send

__all__ = ["Delivery", "Fault", "Group", "Kind", "Life"]

NEVER = float("inf")


class Kind(Enum):
    """How a group consumes."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    BROADCAST = "broadcast"
    POLLED = "polled"
    """Lite pull consumers, whose program polls and commits."""


@attrs.define(kw_only=True)
class Delivery:
    """One call of a listener with one message, or the work on one that was polled.

    Attributes:
        consumer: Who got it; of a broadcast, whoever goes on with the same offsets has the same name.
        id: That of the send; "" when it cannot be told.
        queue: The queue that it came from, of the topic or of the retry topic.
        ended: None when it was cut off, or has not ended.
        succeeded: Whether the listener was content.
        attempt: How often the message has failed before.
        retried: Whether it came from the retry topic.
        call: Which call of a listener it was part of; None for one of its own.
        held: Whether the listener was content, and has yet to say that it may be committed.
        released: When the listener said so of what it held before; None when it may be committed as soon as it ended.
    """

    consumer: str
    queue: Line
    offset: int
    began: float
    ended: float | None = None
    succeeded: bool = False
    id: str = ""
    attempt: int = 0
    retried: bool = False
    call: int | None = None
    held: bool = False
    released: float | None = None


@attrs.frozen(kw_only=True)
class Fault:
    """Something that makes readers of queues begin again where they had committed; or a reset, which moves them.

    Attributes:
        what: For texts.
        lasts: For how many seconds members and brokers may disagree about it.
        settles: Seconds after that until all that it brings back has come: five between two commits, twenty between two
            rebalances.
        within: Seconds after which what is dealt with is committed so that it cannot be brought back.
        broker: The one that has lost its locks, and the offsets that it had not written; "" for none.
        consumer: Of a broadcast, the only member that it concerns; "" for all.
        queue: The queue that a reset moves to `offset`; None for other faults.
        certain: Whether it took effect; of a reset whose answer was lost nobody knows.
        repeats: Whether it may bring messages back; nothing but a kill does that to who keeps offsets in a file.
    """

    at: float
    what: str = ""
    lasts: float = 0.0
    settles: float = 25.0
    within: float = NEVER
    broker: str = ""
    consumer: str = ""
    queue: Line | None = None
    offset: int = 0
    certain: bool = True
    repeats: bool = True

    @property
    def until(self) -> float:
        """When it has no effects any more."""
        return self.at + self.lasts + self.settles

    def may_move(self, queue: Line, offset: int) -> bool:
        """Whether it may bring back a message: a reset only moves its queue, and nothing before its offset."""
        if not self.repeats:
            return False
        return self.queue is None or (self.queue == queue and offset >= self.offset)


@attrs.define(kw_only=True)
class Life:
    """A member while it was there.

    Attributes:
        left: When it left, was killed or cut off for good; None for one that stayed.
    """

    name: str
    joined: float = -NEVER
    left: float | None = None


@attrs.define(kw_only=True)
class Group:
    """A group of consumers.

    Attributes:
        deliveries: In the order in which they began.
        commits: By queue, (time, committed offset) whenever somebody saw another one at the broker.
        faults: What concerned it.
        lives: Its members; of a broadcast, one that came back under its name has several.
        unwanted: By queue, the offsets of messages that its filter does not let through.
        owners: By queue, the members that had it when all had been shared out for the last time.
        dead_letters: The ids of its dead letters.
        bad: Ids of messages with which no listener of it is ever content.
        most_attempts: After how many retries a message is a dead letter; None when not known.
    """

    name: str = "the group"
    kind: Kind = Kind.CONCURRENT
    deliveries: list[Delivery] = attrs.field(factory=list)
    commits: dict[Line, list[tuple[float, int]]] = attrs.field(factory=dict)
    faults: list[Fault] = attrs.field(factory=list)
    lives: list[Life] = attrs.field(factory=list)
    unwanted: Mapping[Line, AbstractSet[int]] = attrs.field(factory=dict)
    owners: dict[Line, list[str]] = attrs.field(factory=dict)
    dead_letters: list[str] = attrs.field(factory=list)
    bad: AbstractSet[str] = frozenset()
    most_attempts: int | None = None

    # --- what is written down -------------------------------------------------------------------------

    def note_commit(self, at: float, queue: Line, offset: int) -> None:
        """Somebody looked; only what has changed is kept."""
        known = self.commits.setdefault(queue, [])
        if not known or known[-1][1] != offset:
            known.append((at, offset))

    # --- what is asked of it --------------------------------------------------------------------------

    def reader(self, delivery: Delivery) -> str:
        """Who reads a queue from its beginning: the group, or in a broadcast each member."""
        return delivery.consumer if self.kind is Kind.BROADCAST else self.name

    def queues(self, *, retried: bool = True) -> Iterator[tuple[str, Line, list[Delivery]]]:
        """The deliveries of each reader and queue, in order."""
        found: dict[tuple[str, Line], list[Delivery]] = {}
        for each in sorted(self.deliveries, key=lambda each: each.began):
            if retried or not each.retried:
                found.setdefault((self.reader(each), each.queue), []).append(each)
        for (reader, line), deliveries in found.items():
            yield reader, line, deliveries

    def is_finished(self, delivery: Delivery) -> bool:
        """Whether what comes behind it may go on: its listener was content, or will not be asked again."""
        if delivery.ended is None:
            return False
        given_back = self.kind in (Kind.CONCURRENT, Kind.BROADCAST)
        given_up = self.most_attempts is not None and delivery.attempt >= self.most_attempts
        return delivery.succeeded or given_back or given_up

    def committable(self, delivery: Delivery) -> float:
        """When it may be committed; `NEVER` when it may not."""
        if delivery.ended is None or delivery.held or not self.is_finished(delivery):
            return NEVER
        return delivery.ended if delivery.released is None else delivery.released

    def is_unwanted(self, queue: Line, offset: int) -> bool:
        """Whether the group's filter keeps it away."""
        return offset in self.unwanted.get(queue, ())

    def is_skipped(self, queue: Line | None, offset: int, before: float = NEVER) -> bool:
        """Whether a reset has moved the group over it by then."""
        return any(
            fault.queue is not None and fault.queue == queue and offset < fault.offset and fault.at <= before
            for fault in self.faults
        )

    def faults_of(self, reader: str) -> list[Fault]:
        """Those that concern a reader."""
        return [fault for fault in self.faults if fault.consumer in ("", reader)]

    def wanted(self, sends: Iterable[Send]) -> list[Send]:
        """Those whose messages it has to get, as far as their places are known."""
        return [
            send
            for send in sends
            if send.line is None or send.place is None or not self.is_unwanted(send.line, send.place[1])
        ]
