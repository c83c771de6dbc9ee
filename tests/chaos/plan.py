"""What is done to whom, and when: all of it comes from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

BROKERS = 2
CUT, HOLD, REFUSE, KILL, STOP = "cut", "hold", "refuse", "kill", "stop"
_WEIGHTS = {CUT: 4, HOLD: 2, REFUSE: 2, KILL: 3, STOP: 1}
_LASTS = {CUT: (0.0, 0.0), HOLD: (0.3, 2.5), REFUSE: (0.3, 2.0), KILL: (0.3, 2.5), STOP: (0.3, 2.0)}
_PAUSE = (0.2, 1.8)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        at: seconds from the beginning.
        what: sockets are cut once, or everything to the broker is held back, or connections are refused, or the broker
            is killed, or stopped in order.
        broker: its number.
        lasts: seconds until that is over.
    """

    at: float
    what: str
    broker: int
    lasts: float


def plan(seconds: float, seed: int) -> list[Fault]:
    """The faults of a run; those of one broker do not overlap."""
    chance = random.Random(seed)
    faults = []
    for broker in range(BROKERS):
        at = chance.uniform(*_PAUSE)
        while at < seconds:
            what = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            lasts = chance.uniform(*_LASTS[what])
            faults.append(Fault(at, what, broker, lasts))
            at += lasts + chance.uniform(*_PAUSE)
    return sorted(faults, key=lambda fault: fault.at)
