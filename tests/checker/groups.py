"""What a consumer group did, and what happened to it: the deliveries, commits, members and faults of a run.

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
    """One call of a listener with one message, or the processing of one polled message.

    Attributes:
        consumer: The member that got it. In a broadcast, a member that continues with the same offsets has the same
            name.
        id: The id of the send; "" if it is not known.
        queue: The queue that it came from, of the topic or of the retry topic.
        ended: When it ended; None if it was cut off, or has not ended.
        succeeded: Whether the listener succeeded.
        attempt: How often the message has failed before.
        retried: Whether it came from the retry topic.
        call: The number of the listener call that it was part of; None for a call of its own.
        held: Whether the listener succeeded but did not allow a commit yet.
        released: When the listener allowed to commit what it held before; None if it may be committed as soon as it
            ended.
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
    """Something that makes readers of queues start again at their committed offsets; or a reset, which moves them.

    Attributes:
        what: Its name, for texts.
        lasts: For how many seconds members and brokers may disagree about it.
        settles: Seconds after that until all messages that it causes to be redelivered have arrived: five between two
            commits, twenty between two rebalances.
        within: Seconds after which finished messages are committed, so that it cannot cause their redelivery.
        broker: The broker that has lost its locks, and the offsets that it had not written; "" if none has.
        consumer: In a broadcast, the only member that it affects; "" for all members.
        queue: The queue that a reset moves to `offset`; None for other faults.
        certain: Whether it is known to have taken effect; it is not for a reset whose answer was lost.
        repeats: Whether it may cause redeliveries; for members that keep their offsets in a file, only a kill does.
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
        """The time after which it has no more effects."""
        return self.at + self.lasts + self.settles

    def may_move(self, queue: Line, offset: int) -> bool:
        """Whether it may cause the redelivery of a message: a reset only of its queue, and only from its offset on."""
        if not self.repeats:
            return False
        return self.queue is None or (self.queue == queue and offset >= self.offset)


@attrs.define(kw_only=True)
class Life:
    """The time that a member spent in the group.

    Attributes:
        left: When it left, was killed, or was cut off for good; None if it stayed.
    """

    name: str
    joined: float = -NEVER
    left: float | None = None


@attrs.define(kw_only=True)
class Group:
    """A group of consumers.

    Attributes:
        deliveries: In the order in which they began.
        commits: By queue, (time, committed offset) for each change that was observed at the broker.
        faults: The faults and resets that affected it.
        lives: The times of its members; a member of a broadcast that came back under its name has several.
        unwanted: By queue, the offsets of messages that its filter rejects.
        owners: By queue, the members that had it after the last rebalance.
        dead_letters: The ids of its dead letters.
        bad: Ids of messages that all of its listeners fail on.
        most_attempts: After how many retries a message becomes a dead letter; None if it is not known.
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

    # --- recording ------------------------------------------------------------------------------------

    def note_commit(self, at: float, queue: Line, offset: int) -> None:
        """Record an observed offset, if it has changed."""
        known = self.commits.setdefault(queue, [])
        if not known or known[-1][1] != offset:
            known.append((at, offset))

    # --- for the checks -------------------------------------------------------------------------------

    def reader(self, delivery: Delivery) -> str:
        """The name of what reads the queue as a whole: the group, or in a broadcast the member."""
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
        """Whether the next message may follow: the listener succeeded, or the message will not be retried."""
        if delivery.ended is None:
            return False
        given_back = self.kind in (Kind.CONCURRENT, Kind.BROADCAST)
        given_up = self.most_attempts is not None and delivery.attempt >= self.most_attempts
        return delivery.succeeded or given_back or given_up

    def committable(self, delivery: Delivery) -> float:
        """When it may be committed; `NEVER` if it may not."""
        if delivery.ended is None or delivery.held or not self.is_finished(delivery):
            return NEVER
        return delivery.ended if delivery.released is None else delivery.released

    def is_unwanted(self, queue: Line, offset: int) -> bool:
        """Whether the group's filter rejects it."""
        return offset in self.unwanted.get(queue, ())

    def is_skipped(self, queue: Line | None, offset: int, before: float = NEVER) -> bool:
        """Whether a reset has moved the group past it by then."""
        return any(
            fault.queue is not None and fault.queue == queue and offset < fault.offset and fault.at <= before
            for fault in self.faults
        )

    def faults_of(self, reader: str) -> list[Fault]:
        """The faults that affect a reader."""
        return [fault for fault in self.faults if fault.consumer in ("", reader)]

    def wanted(self, sends: Iterable[Send]) -> list[Send]:
        """The sends whose messages it has to get, if their places are known."""
        return [
            send
            for send in sends
            if send.line is None or send.place is None or not self.is_unwanted(send.line, send.place[1])
        ]
