"""From a seed to a schedule: who is there, and what happens when."""

from __future__ import annotations

import random

import attrs

from tests.schedules.history import Kind

__all__ = ["TOPIC", "Event", "GroupPlan", "Plan", "plan"]

TOPIC = "Orders"
DISTURBED = 60.0
"""Seconds during which things happen; then all is healed."""
MOST_ATTEMPTS = 2
KINDS = (Kind.CONCURRENT, Kind.ORDERLY, Kind.ORDERLY, Kind.BROADCAST, Kind.POLLED, Kind.POLLED)
"""Of which a schedule has some."""
ONCE = (Kind.BROADCAST, Kind.POLLED)
"""What fails does not come again."""
CALM = 5
"""Every fifth schedule: nothing happens, and more messages are ones that no listener is content with."""
_EVENTS = ("join", "leave", "kill", "unplug", "restart broker", "kill broker", "cut links", "lose answers")
_WEIGHTS = (5, 4, 3, 2, 2, 2, 3, 1)


@attrs.frozen
class Event:
    """Something that happens.

    Attributes:
        what: One of "join", "leave", "kill", "unplug", "restart broker", "kill broker", "cut links", "lose answers".
        group: For events of members; the member is chosen among those that are there.
        broker: For events of brokers.
        lasts: Seconds until a broker that was killed is back.
    """

    at: float
    what: str
    group: str = ""
    broker: int = 0
    lasts: float = 0.0


@attrs.frozen
class GroupPlan:
    """A group.

    Attributes:
        members: At the beginning.
        work: A listener takes up to so many seconds for a message.
        trouble: The share of deliveries that fail once more than they need to.
        commits: Of a group that polls, in which of the three ways: "auto", "hand" or "ack".
        seeks: Of a group that polls, the share of polls after which a member goes back in a queue.
    """

    name: str
    kind: Kind
    members: int
    work: float
    trouble: float
    batch: int
    commits: str = "auto"
    seeks: float = 0.0

    @property
    def refuses_bad(self) -> bool:
        """With others beside it in one call a bad message would take good ones along; and some kinds try only once."""
        return self.batch == 1 and self.kind not in ONCE


@attrs.frozen
class Plan:
    """A schedule."""

    seed: int
    brokers: int
    queues: int
    producers: int
    pause: float
    """Seconds between two sends of a producer, on the average."""
    bad: float
    """The share of messages that no listener is ever content with."""
    groups: tuple[GroupPlan, ...]
    events: tuple[Event, ...]


def plan(seed: int) -> Plan:
    """The schedule of a seed."""
    chance = random.Random(seed)
    is_calm = seed % CALM == 0
    brokers = chance.choice((1, 2, 2, 3))
    kinds = list(KINDS)
    chance.shuffle(kinds)
    groups = tuple(
        _group(chance, kind, number, is_calm) for number, kind in enumerate(kinds[: chance.choice((1, 1, 2, 3))])
    )
    events = [_event(chance, groups, brokers) for _ in range(0 if is_calm else chance.randrange(3, 12))]
    return Plan(
        seed,
        brokers,
        chance.choice((1, 2, 4)),
        chance.choice((1, 2)),
        chance.choice((0.2, 0.5)),
        0.03 if is_calm else chance.choice((0.0, 0.0, 0.02)),
        groups,
        tuple(sorted(events, key=lambda event: event.at)),
    )


def _group(chance: random.Random, kind: Kind, number: int, is_calm: bool) -> GroupPlan:
    return GroupPlan(
        name=f"{kind.value}_{number}",
        kind=kind,
        members=chance.choice((1, 2, 3)),
        work=chance.choice((0.0, 0.05, 0.5)),
        trouble=0.0 if kind in ONCE else chance.choice((0.0, 0.0, 0.1)),
        batch=chance.choice((1, 1, 4)),
        commits=chance.choice(("auto", "hand", "ack")),
        seeks=0.0 if is_calm else chance.choice((0.0, 0.0, 0.02)),
    )


def _event(chance: random.Random, groups: tuple[GroupPlan, ...], brokers: int) -> Event:
    (what,) = chance.choices(_EVENTS, _WEIGHTS)
    return Event(
        chance.uniform(2.0, DISTURBED),
        what,
        chance.choice(groups).name,
        chance.randrange(brokers),
        chance.uniform(0.5, 20.0),
    )
