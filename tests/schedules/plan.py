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
"""The tags of messages; the first two have the same hash code, by which brokers filter."""
AMOUNT = "amount"
"""A property of all messages, from 0 to 9."""
CALM = 5
"""Every fifth schedule has no events, and more messages that every listener fails on."""
ONLY_RESETS = 2
"""Seeds with this remainder modulo `CALM` make schedules in which groups are reset and nothing else happens."""
_EVENTS = (
    "join", "leave", "kill", "unplug", "restart broker", "kill broker", "cut links", "lose answers", "back", "skip",
    "restart",
)  # fmt: skip
_WEIGHTS = (5, 4, 3, 2, 2, 2, 3, 1, 2, 2, 3)


@attrs.frozen
class Filter:
    """Which messages a group wants: as an expression for brokers and consumers, and as a function here."""

    tags: str | None = None
    sql: str | None = None

    def lets_through(self, send: Send) -> bool:
        """Whether the group has to get the message."""
        if self.tags is not None:
            return send.tags in self.tags.split(" || ")
        return self.sql is None or int(send.properties[AMOUNT]) > 3 or send.tags == "c"


FILTERS = (Filter(), Filter(), Filter(), Filter(tags="Aa || c"), Filter(sql=f"{AMOUNT} > 3 OR TAGS = 'c'"))


@attrs.frozen
class Event:
    """Something that happens.

    Attributes:
        what: One of `_EVENTS`.
        group: For events of members, and for resets; the member is chosen among those that are present.
        broker: For events of brokers, and for resets.
        lasts: Seconds until a broker or a member is back, or by which a group is reset.
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
        members: The number of members at the beginning.
        work: The most seconds that a listener takes for a message.
        trouble: The share of good messages whose first attempt fails.
        commits: How it commits what is finished. "auto": automatically. "hand": after each poll, or in an orderly group
            when a listener says so, which may also roll back or suspend. "ack": in a polling group, by message.
        seeks: In a polling group, the share of polls after which a member seeks back or forward in a queue.
        assigns: Whether a polling group shares out its queues itself, with `assign`.
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
        pause: Average seconds between two sends of a producer.
        bad: The share of messages that every listener fails on.
        tells_clients: Whether brokers send resets to the members, instead of reporting them in answers to pulls.
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
        what = "restart"  # its members keep their own offsets
    elif group.kind is not Kind.BROADCAST and what == "restart":
        what = "join"  # a member leaves nothing behind
    return Event(chance.uniform(2.0, DISTURBED), what, group.name, chance.randrange(brokers), chance.uniform(0.5, 20.0))


def _reset(chance: random.Random, group: GroupPlan, brokers: int) -> Event:
    at = chance.uniform(10.0, 40.0)
    return Event(at, chance.choice(("back", "skip")), group.name, chance.randrange(brokers), chance.uniform(2.0, at))
