"""From a seed to a schedule: who is there, and what happens when."""

from __future__ import annotations

import random

import attrs

from tests.checker import Kind, Send

__all__ = ["AMOUNT", "TAGS", "TOPIC", "Event", "Filter", "GroupPlan", "Plan", "plan"]

TOPIC = "Orders"
DISTURBED = 60.0
"""Seconds during which things happen; then all is healed."""
MOST_ATTEMPTS = 2
KINDS = (Kind.CONCURRENT, Kind.ORDERLY, Kind.ORDERLY, Kind.BROADCAST, Kind.POLLED, Kind.POLLED)
"""Of which a schedule has some."""
ONCE = (Kind.BROADCAST, Kind.POLLED)
"""What fails does not come again."""
TAGS = ("Aa", "BB", "c", None)
"""Of messages; the first two have the same hash code, by which brokers filter."""
AMOUNT = "amount"
"""A property of all messages, from 0 to 9."""
CALM = 5
"""Every fifth schedule: nothing happens, and more messages are ones that no listener is content with."""
ONLY_RESETS = 2
"""The remainder of the schedules, as many, in which groups are reset and nothing else happens."""
_EVENTS = (
    "join", "leave", "kill", "unplug", "restart broker", "kill broker", "cut links", "lose answers", "back", "skip",
    "restart",
)  # fmt: skip
_WEIGHTS = (5, 4, 3, 2, 2, 2, 3, 1, 2, 2, 3)


@attrs.frozen
class Filter:
    """Which messages a group wants; as brokers and consumers are told, and as this says of them."""

    tags: str | None = None
    sql: str | None = None

    def lets_through(self, send: Send) -> bool:
        """Whether the group has to get it."""
        if self.tags is not None:
            return send.tags in self.tags.split(" || ")
        return self.sql is None or int(send.properties[AMOUNT]) > 3 or send.tags == "c"


FILTERS = (Filter(), Filter(), Filter(), Filter(tags="Aa || c"), Filter(sql=f"{AMOUNT} > 3 OR TAGS = 'c'"))


@attrs.frozen
class Event:
    """Something that happens.

    Attributes:
        what: One of `_EVENTS`.
        group: For events of members and resets; the member is chosen among those that are there.
        broker: For events of brokers and resets.
        lasts: Seconds until a broker or a member is back; seconds by which a group goes back.
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
        commits: How it commits what is done. "auto": by itself. "hand": after each poll, or, in order, when a listener
            says so, which may also roll back or suspend. "ack": of a group that polls, message by message.
        seeks: Of a group that polls, the share of polls after which a member goes back or forth in a queue.
        assigns: Whether a group that polls shares its queues out itself, by `assign`.
        filter: Which messages it wants.
    """

    name: str
    kind: Kind
    members: int
    work: float
    trouble: float
    batch: int
    commits: str = "auto"
    seeks: float = 0.0
    assigns: bool = False
    filter: Filter = Filter()

    @property
    def refuses_bad(self) -> bool:
        """With others beside it in one call a bad message would take good ones along; and some kinds try only once."""
        return self.batch == 1 and self.kind not in ONCE


@attrs.frozen
class Plan:
    """A schedule.

    Attributes:
        pause: Seconds between two sends of a producer, on the average.
        bad: The share of messages that no listener is ever content with.
        tells_clients: Whether brokers tell the members of a reset, and not each queue's next pull.
    """

    seed: int
    brokers: int
    queues: int
    producers: int
    pause: float
    bad: float
    groups: tuple[GroupPlan, ...]
    events: tuple[Event, ...]
    tells_clients: bool = False


def plan(seed: int) -> Plan:
    """The schedule of a seed."""
    chance = random.Random(seed)
    is_calm = seed % CALM in (0, ONLY_RESETS)
    brokers = chance.choice((1, 2, 2, 3))
    kinds = list(KINDS)
    chance.shuffle(kinds)
    count, is_quiet = chance.choice((1, 1, 2, 3)), seed % CALM == 0
    groups = tuple(_group(chance, kind, number, is_quiet) for number, kind in enumerate(kinds[:count]))
    events = [_event(chance, groups, brokers) for _ in range(0 if is_calm else chance.randrange(3, 12))]
    if seed % CALM == ONLY_RESETS:
        events = [_reset(chance, group, brokers) for group in groups if group.kind is not Kind.BROADCAST]
    return Plan(
        seed,
        brokers,
        chance.choice((1, 2, 4)),
        chance.choice((1, 2)),
        chance.choice((0.3, 0.6)),
        0.03 if is_calm else chance.choice((0.0, 0.0, 0.02)),
        groups,
        tuple(sorted(events, key=lambda event: event.at)),
        tells_clients=chance.choice((True, False)),
    )


def _group(chance: random.Random, kind: Kind, number: int, is_quiet: bool) -> GroupPlan:
    ways = {Kind.ORDERLY: ("auto", "hand"), Kind.POLLED: ("auto", "hand", "ack")}
    return GroupPlan(
        name=f"{kind.value}_{number}",
        kind=kind,
        members=chance.choice((1, 2, 3)),
        work=chance.choice((0.0, 0.05, 0.5)),
        trouble=0.0 if kind in ONCE else chance.choice((0.0, 0.0, 0.1)),
        batch=chance.choice((1, 1, 4)),
        commits=chance.choice(ways.get(kind, ("auto",))),
        seeks=chance.choice((0.0, 0.0, 0.03)) if kind is Kind.POLLED and not is_quiet else 0.0,
        assigns=kind is Kind.POLLED and chance.random() < 0.4,
        filter=chance.choice(FILTERS),
    )


def _event(chance: random.Random, groups: tuple[GroupPlan, ...], brokers: int) -> Event:
    (what,) = chance.choices(_EVENTS, _WEIGHTS)
    group = chance.choice(groups)
    if group.kind is Kind.BROADCAST and what in ("back", "skip"):
        what = "restart"  # its offsets are its own
    elif group.kind is not Kind.BROADCAST and what == "restart":
        what = "join"  # nothing of a member outlives it
    return Event(chance.uniform(2.0, DISTURBED), what, group.name, chance.randrange(brokers), chance.uniform(0.5, 20.0))


def _reset(chance: random.Random, group: GroupPlan, brokers: int) -> Event:
    at = chance.uniform(10.0, 40.0)
    return Event(at, chance.choice(("back", "skip")), group.name, chance.randrange(brokers), chance.uniform(2.0, at))
