"""Judges what observers saw by what was sent: the promises of the broker, written once for every kind of test.

A `History` gathers what a run did: sends with their outcome, and what somebody saw of the messages. `check` gives the
broken promises, by the numbers of the invariants (I1, I4, ...). Nothing here knows how the run was made: simulated
power losses, killed processes and simulated networks all end up here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise

import attrs

__all__ = [
    "Cause",
    "Consumption",
    "Delivery",
    "History",
    "Line",
    "Observation",
    "Outcome",
    "Seen",
    "Send",
    "Violation",
    "check",
    "check_copies",
    "check_order",
    "check_same_files",
]

Queue = tuple[str, int]


class Outcome(Enum):
    """What a producer knows of its send."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"
    """Unknown: it may have been stored or not."""


@attrs.frozen(kw_only=True)
class Send:
    """One call of a producer.

    Attributes:
        id: Unique in the history; whoever sees the message must be able to tell it, from its key or body.
        place: (queue id, queue offset) as acknowledged.
        position: Where the acknowledged message id says that the record stands; None when not known.
        optional: Whether the message may be gone for a good reason: its topic was deleted, its file cleaned.
        repeatable: Whether it may be stored more than once.
        producer: Sends of one producer to one queue, each awaited before the next, are in order.
    """

    id: str
    topic: str
    body: bytes
    outcome: Outcome
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    place: tuple[int, int] | None = None
    position: int | None = None
    optional: bool = False
    repeatable: bool = False
    producer: str | None = None


@attrs.frozen(kw_only=True)
class Seen:
    """A message as an observer got it. `id` is "" when the observer cannot tell which one it is."""

    id: str
    topic: str
    queue_id: int
    offset: int
    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    position: int | None = None


@attrs.frozen(kw_only=True)
class Observation:
    """What one observer saw.

    Attributes:
        name: For texts.
        seen: The messages, in the order in which they came.
        complete: Whether it is everything that the store held at that moment: a read of all queues.
        sends_before: How many of the history's sends had begun by then; what is missing in a complete observation of
            these must not come back later. None when sends were under way.
        bounds: (first offset, offset behind the last) of each queue, for complete observations.
        committed: The offsets of groups, by (group, topic, queue id).
        problems: What a check of the store's files found.
    """

    name: str
    seen: list[Seen] = attrs.field(factory=list)
    complete: bool = True
    sends_before: int | None = None
    bounds: Mapping[Queue, tuple[int, int]] = attrs.field(factory=dict)
    committed: Mapping[tuple[str, str, int], int] = attrs.field(factory=dict)
    problems: list[str] = attrs.field(factory=list)


@attrs.define
class History:
    """What happened in a run.

    Attributes:
        sends: In the order in which they began.
        observations: In the order in which they were made.
        durable: Whether what was acknowledged or seen has to survive whatever happened between the observations.
        once: Whether a send can be stored only once, as no producer sends again.
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


def check(history: History) -> list[Violation]:
    """Every promise that the history shows broken; none when all held."""
    sends = {send.id: send for send in history.sends}
    if len(sends) != len(history.sends):
        raise ValueError("two sends of a history have the same id")
    found: list[Violation] = []
    for observation in history.observations:
        found += _genuine(observation, sends)
        found += _places(observation, sends, history.once)
        found += _dense(observation)
        found += _committed(observation)
        found += [Violation("I7", f"{observation.name}: {problem}") for problem in observation.problems]
        if observation.complete:
            found += _kept(observation, history)
        if history.once:
            found += _once(observation, sends)
    found += _one_name(history)
    found += _nothing_comes_back(history)
    found += _order(history)
    if history.durable:
        found += _durable_before_visible(history, sends)
    return found


def check_same_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[Violation]:
    """I21: recovering what was just recovered changes nothing."""
    return [
        Violation("I21", f"{path} differs after a second recovery")
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


# --- one rule each ---------------------------------------------------------------------------------------


def _kept(observation: Observation, history: History) -> Iterator[Violation]:
    """I1: what was acknowledged is there."""
    there = {each.id for each in observation.seen}
    known = history.sends if observation.sends_before is None else history.sends[: observation.sends_before]
    for send in known:
        if send.outcome is Outcome.OK and not send.optional and send.id not in there:
            at = "" if send.place is None else f", acknowledged at queue {send.place[0]} offset {send.place[1]}"
            yield Violation("I1", f"{observation.name}: {send.id} of {send.topic} is lost{at}")


def _genuine(observation: Observation, sends: Mapping[str, Send]) -> Iterator[Violation]:
    """I5, I3: what is seen was sent, as it was sent, and did not fail."""
    for each in observation.seen:
        send = sends.get(each.id)
        where = f"{observation.name}: {each.topic} {each.queue_id} at {each.offset}"
        if send is None:
            yield Violation("I5", f"{where} has a message that nobody sent: {each.body[:60]!r}")
            continue
        if send.outcome is Outcome.FAIL:
            yield Violation("I3", f"{where} has {send.id}, whose send failed")
        for name in ("topic", "body", "tags", "keys", "properties"):
            sent, got = getattr(send, name), getattr(each, name)
            if sent != got:
                yield Violation("I5", f"{where} has {send.id} with another {name}: {got!r:.80} for {sent!r:.80}")


def _places(observation: Observation, sends: Mapping[str, Send], once: bool) -> Iterator[Violation]:
    """I6: the acknowledgement names a place where the message is; the only one where nobody sends again."""
    seen: dict[str, list[Seen]] = {}
    for each in observation.seen:
        seen.setdefault(each.id, []).append(each)
    for id_, found in seen.items():
        send = sends.get(id_)
        if send is None or send.outcome is not Outcome.OK or not (once or observation.complete):
            continue
        where = f"{observation.name}: {id_}"
        places = {(each.queue_id, each.offset) for each in found}
        if send.place is not None and (send.place not in places or (once and len(places) > 1)):
            yield Violation("I6", f"{where} was acknowledged at {send.place}, seen at {sorted(places)}")
        positions = {each.position for each in found}
        if send.position is not None and None not in positions and send.position not in positions:
            yield Violation("I6", f"{where} was acknowledged at position {send.position}, stands at {positions}")


def _dense(observation: Observation) -> Iterator[Violation]:
    """I7: a queue holds every offset between its ends, once."""
    if not observation.complete:
        return
    offsets: dict[Queue, list[int]] = {queue: [] for queue in observation.bounds}
    for each in observation.seen:
        offsets.setdefault((each.topic, each.queue_id), []).append(each.offset)
    for queue, there in offsets.items():
        first, end = observation.bounds.get(queue, (min(there, default=0), max(there, default=-1) + 1))
        if there != list(range(first, end)):
            yield Violation("I7", f"{observation.name}: {queue} from {first} to {end} holds {_short(there)}")


def _committed(observation: Observation) -> Iterator[Violation]:
    """I13: no group stands behind the end of a queue."""
    for (group, topic, queue_id), offset in observation.committed.items():
        end = observation.bounds.get((topic, queue_id), (0, 0))[1]
        if not 0 <= offset <= end:
            yield Violation("I13", f"{observation.name}: {group} stands at {offset} of {topic} {queue_id} with {end}")


def _once(observation: Observation, sends: Mapping[str, Send]) -> Iterator[Violation]:
    """I5: nothing is stored twice. For complete observations: consumers may be given a message again."""
    places: dict[str, tuple[int, int]] = {}
    for each in observation.seen if observation.complete else ():
        if each.id in sends and sends[each.id].repeatable:
            continue
        before = places.setdefault(each.id, (each.queue_id, each.offset))
        if before != (each.queue_id, each.offset):
            yield Violation("I5", f"{observation.name}: {each.id} is at {before} and {(each.queue_id, each.offset)}")


def _one_name(history: History) -> Iterator[Violation]:
    """I4: a place names one message, for everybody and for ever."""
    names: dict[tuple[str, int, int], str] = {}
    optional = {send.id for send in history.sends if send.optional}
    for send in history.sends:
        if history.durable and send.outcome is Outcome.OK and send.place is not None and not send.optional:
            before = names.setdefault((send.topic, *send.place), send.id)
            if before != send.id:
                yield Violation("I4", f"{send.topic} {send.place} was acknowledged for {before} and {send.id}")
    for observation in history.observations:
        for each in observation.seen:
            if each.id in optional:
                continue
            before = names.setdefault((each.topic, each.queue_id, each.offset), each.id)
            if before != each.id:
                place = f"{each.topic} {each.queue_id} at {each.offset}"
                yield Violation("I4", f"{observation.name}: {place} is {each.id}, and was {before}")


def _nothing_comes_back(history: History) -> Iterator[Violation]:
    """I5: what a complete observation did not hold of the sends before it is gone for good."""
    gone: set[str] = set()
    for observation in history.observations:
        there = {each.id for each in observation.seen}
        for lost in sorted(gone & there):
            yield Violation("I5", f"{observation.name}: {lost} has come back to life")
        if observation.complete and observation.sends_before is not None:
            gone |= {send.id for send in history.sends[: observation.sends_before]} - there


def _order(history: History) -> Iterator[Violation]:
    """I8: offsets of one producer on one queue rise."""
    lines: dict[tuple[str, str, int], list[tuple[str, int]]] = {}
    for send in history.sends:
        if send.producer is not None and send.outcome is Outcome.OK and send.place is not None:
            lines.setdefault((send.producer, send.topic, send.place[0]), []).append((send.id, send.place[1]))
    for (producer, topic, queue_id), line in lines.items():
        for (first, low), (second, high) in pairwise(line):
            if high <= low:
                text = f"{producer} on {topic} {queue_id}: {first} has offset {low}, {second} after it {high}"
                yield Violation("I8", text)


def _durable_before_visible(history: History, sends: Mapping[str, Send]) -> Iterator[Violation]:
    """I9: what somebody has seen is in every complete observation after it."""
    visible: dict[str, str] = {}
    for observation in history.observations:
        there = {each.id for each in observation.seen}
        if observation.complete:
            for lost in sorted(visible.keys() - there):
                yield Violation("I9", f"{observation.name}: {lost} is gone, which {visible[lost]} had seen")
        for each in there:
            send = sends.get(each)
            if send is not None and not send.optional:
                visible.setdefault(each, observation.name)


def _short(offsets: list[int]) -> str:
    text = ",".join(map(str, offsets))
    return text if len(text) < 80 else f"{text[:40]}...{text[-30:]}"


# --- consuming in order ----------------------------------------------------------------------------------

Line = tuple[str, str, int]
"""Topic, broker and queue id."""


@attrs.frozen(kw_only=True)
class Delivery:
    """One call of a listener.

    Attributes:
        ended: None when it was cut off, or has not ended.
        succeeded: Whether it may be committed.
    """

    consumer: str
    queue: Line
    offset: int
    began: float
    ended: float | None
    succeeded: bool


@attrs.define
class Consumption:
    """What a group did that consumes in order.

    Attributes:
        deliveries: In any order.
        commits: (time, queue, committed offset), as somebody saw them at the broker.
        forgotten: (time, broker name) of each start of a broker, which remembers no locks.
    """

    deliveries: list[Delivery] = attrs.field(factory=list)
    commits: list[tuple[float, Line, int]] = attrs.field(factory=list)
    forgotten: list[tuple[float, str]] = attrs.field(factory=list)


def check_order(consumption: Consumption) -> list[Violation]:
    """Every promise about order that a group broke; none when all held."""
    lines: dict[Line, list[Delivery]] = {}
    for delivery in sorted(consumption.deliveries, key=lambda each: each.began):
        lines.setdefault(delivery.queue, []).append(delivery)
    found: list[Violation] = []
    for queue, deliveries in lines.items():
        found += _in_turn(queue, deliveries)
        found += _one_at_a_time(queue, deliveries, consumption.forgotten)
    found += _commits(consumption.commits, lines)
    return found


def _in_turn(queue: Line, deliveries: list[Delivery]) -> Iterator[Violation]:
    """I10, I12: a message comes for the first time once the one before it is finished, and none is left out."""
    finished: dict[int, float] = {}
    for each in deliveries:
        if each.succeeded and each.ended is not None:
            finished[each.offset] = min(each.ended, finished.get(each.offset, each.ended))
    seen: set[int] = set()
    for each in deliveries:
        before = each.offset - 1
        if each.offset not in seen and before >= 0 and finished.get(before, float("inf")) > each.began:
            invariant = "I12" if before in seen else "I10"
            text = f"{queue}: {each.consumer} got {each.offset} at {each.began:.3f}, before {before} was finished"
            yield Violation(invariant, text)
        seen.add(each.offset)


def _one_at_a_time(queue: Line, deliveries: list[Delivery], forgotten: list[tuple[float, str]]) -> Iterator[Violation]:
    """I12: never two listeners in one queue; only a broker that has forgotten its locks is an excuse."""
    for first, second in pairwise(deliveries):
        if first.ended is not None and first.ended <= second.began:
            continue
        if first.ended is None and first.consumer != second.consumer and not first.succeeded:
            continue  # cut off: its member was killed, or closed in the middle
        if not any(broker == queue[1] and first.began <= time <= second.began for time, broker in forgotten):
            yield Violation(
                "I12",
                f"{queue}: {second.consumer} got {second.offset} at {second.began:.3f} while {first.consumer} was at "
                f"work on {first.offset} from {first.began:.3f} to {first.ended}",
            )


def _commits(commits: list[tuple[float, Line, int]], lines: Mapping[Line, list[Delivery]]) -> Iterator[Violation]:
    """I13: committed is what is finished, and it never falls."""
    highest: dict[Line, int] = {}
    for time, queue, offset in sorted(commits):
        if offset < highest.get(queue, 0):
            yield Violation("I13", f"{queue}: {offset} is committed at {time:.3f}, after {highest[queue]}")
        highest[queue] = max(offset, highest.get(queue, 0))
        done = {
            each.offset
            for each in lines.get(queue, ())
            if each.succeeded and each.ended is not None and each.ended <= time
        }
        open_ones = [number for number in range(offset) if number not in done]
        if open_ones:
            yield Violation("I13", f"{queue}: {offset} is committed at {time:.3f}, and {open_ones[0]} is not finished")


# --- what comes again ------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Cause:
    """Something that makes readers of queues begin again where they had committed.

    Attributes:
        lasts: For how long after `at` what is done may not get committed.
        within: Time after which what is dealt with is committed so that the cause cannot bring it back.
    """

    at: float
    lasts: float = 0.0
    within: float


def check_copies(deliveries: list[Delivery], causes: list[Cause]) -> list[Violation]:
    """I11: what one reader of queues gets again was in hand when something happened, or not committed yet.

    Args:
        deliveries: Of one group, or of one member of a broadcast, in any order.
        causes: What happened to it.
    """
    lines: dict[Line, list[Delivery]] = {}
    for delivery in sorted(deliveries, key=lambda each: each.began):
        lines.setdefault(delivery.queue, []).append(delivery)
    return [violation for queue, line in lines.items() for violation in _copies(queue, line, causes)]


def _copies(queue: Line, deliveries: list[Delivery], causes: list[Cause]) -> Iterator[Violation]:
    committable = _committable(deliveries)
    last: dict[int, Delivery] = {}
    for each in deliveries:
        before = last.get(each.offset)
        last[each.offset] = each
        if before is None or (before.ended is not None and not before.succeeded):
            continue  # the first one; or it has failed, and has to come again
        since, until = before.began, committable[each.offset]
        if not any(
            cause.at <= min(each.began, until + cause.within) and since <= cause.at + cause.lasts for cause in causes
        ):
            yield Violation(
                "I11",
                f"{queue}: {each.consumer} got {each.offset} at {each.began:.3f}, which {before.consumer} had got at "
                f"{since:.3f} and could commit at {until:.3f}",
            )


def _committable(deliveries: list[Delivery]) -> dict[int, float]:
    """When each offset and all before it were finished for the first time."""
    finished: dict[int, float] = {}
    for each in deliveries:
        done = each.ended if each.succeeded and each.ended is not None else float("inf")
        finished[each.offset] = min(done, finished.get(each.offset, done))
    at, found = 0.0, {}
    for offset in sorted(finished):
        at = max(at, finished[offset])
        found[offset] = at
    return found
