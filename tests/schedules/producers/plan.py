"""From a seed to a schedule: which producers there are, and what happens when."""

from __future__ import annotations

import random

import attrs

__all__ = ["DISTURBED", "QUESTIONS", "TOPIC", "WAYS", "Event", "Plan", "Team", "plan"]

TOPIC = "Orders"
QUESTIONS = "Questions"
"""The topic of requests."""
DISTURBED = 40.0
"""Seconds during which messages are sent and things happen; then all is healed."""
CALM = 5
"""In every fifth schedule nothing goes wrong, so that everything has to be there exactly once."""
PATIENT = 8
"""Every eighth schedule with transactions goes on until brokers give up those that nobody knows the end of."""
WAYS = {
    "plain": ("send", "send", "keyed", "queue", "batch", "oneway", "many", "called back", "large"),
    "lingering": ("together",),
    "waiting": ("level", "delay", "deliver_at", "delay", "deliver_at", "recall", "send"),
    "asking": ("request", "request", "send"),
    "transacting": ("transaction", "transaction", "transaction", "send"),
}
"""The kinds of teams, and the ways in which their members send."""
ENDS = (
    "commit", "commit", "commit", "rollback", "unknown", "unknown", "raise", "nonsense", "slow", "never", "die",
    "broker dies", "broker restarts",
)  # fmt: skip
"""What executors do."""
NO_FAULTS = ("commit", "commit", "rollback", "unknown", "raise", "nonsense", "slow", "never")
"""What executors do in a schedule in which nothing goes wrong."""
_EVENTS = (
    "join", "leave", "kill", "unplug", "restart broker", "kill broker", "cut links", "stall links", "lose answers",
    "refuse sends", "delay sends", "clock forward", "clock back",
)  # fmt: skip
_WEIGHTS = (8, 6, 8, 1, 6, 6, 6, 6, 4, 4, 4, 6, 6)
_STEPS = (0.2, 3.0, 12.0, 3600.0)


@attrs.frozen
class Event:
    """Something that happens.

    Attributes:
        what: One of `_EVENTS`.
        team: For events of producers; the member is chosen among those that are present.
        broker: For events of brokers.
        lasts: Seconds until a broker is back or a link goes on, by which sends are late, or by which the clock is set.
    """

    at: float
    what: str
    team: str = ""
    broker: int = 0
    lasts: float = 0.0


@attrs.frozen
class Team:
    """The producers of a group.

    Attributes:
        kind: One of `WAYS`.
        members: How many there are at the beginning.
        pause: Average seconds between two sends of one of them.
        linger: As in the settings of a producer.
        latency: Whether they avoid slow brokers.
    """

    name: str
    kind: str
    members: int
    pause: float
    linger: float | None = None
    latency: bool = False


@attrs.frozen
class Plan:
    """A schedule.

    Attributes:
        is_patient: Whether it goes on until brokers have given up the transactions that nobody knows the end of.
    """

    seed: int
    brokers: int
    queues: int
    teams: tuple[Team, ...]
    events: tuple[Event, ...]
    is_patient: bool = False

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong: everything is stored exactly once."""
        return not self.events


def plan(seed: int) -> Plan:
    """The schedule of a seed."""
    chance = random.Random(f"producers {seed}")
    brokers = chance.choice((1, 2, 2, 3))
    kinds = [kind for kind in WAYS if kind != "transacting"]
    chance.shuffle(kinds)
    chosen = ["transacting", *kinds][: chance.choice((2, 2, 3))] if seed % 4 else kinds[: chance.choice((1, 2))]
    teams = tuple(_team(chance, kind) for kind in chosen)
    is_calm = seed % CALM == 0
    events = [_event(chance, teams, brokers) for _ in range(0 if is_calm else chance.randrange(3, 11))]
    return Plan(
        seed,
        brokers,
        chance.choice((1, 2, 4)),
        teams,
        tuple(sorted(events, key=lambda event: event.at)),
        is_patient="transacting" in chosen and seed % PATIENT == 1,
    )


def _team(chance: random.Random, kind: str) -> Team:
    return Team(
        name=kind,
        kind=kind,
        members=chance.choice((1, 2, 2)),
        pause=chance.choice((1.5, 2.5)),
        linger=chance.choice((0.01, 0.2)) if kind == "lingering" else None,
        latency=chance.random() < 0.3,
    )


def _event(chance: random.Random, teams: tuple[Team, ...], brokers: int) -> Event:
    (what,) = chance.choices(_EVENTS, _WEIGHTS)
    lasts = chance.choice(_STEPS) if what.startswith("clock") else chance.uniform(0.5, 20.0)
    return Event(chance.uniform(2.0, DISTURBED), what, chance.choice(teams).name, chance.randrange(brokers), lasts)
