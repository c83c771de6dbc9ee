"""What is done to whom in which cycle of a kill loop, all of it from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

LEAST_SECONDS, MOST_SECONDS = 0.02, 1.5
MOST_ACKS = 400
PAUSE_SECONDS = 6.0
IN_THE_START = 0.35
"""Seconds within which a broker is still starting."""


@dataclass(frozen=True)
class Cycle:
    """One life of the broker, ended by SIGKILL.

    Attributes:
        after_acks: Kill right after so many acknowledgements; 0 to kill after a time.
        after_seconds: Kill so long after the broker serves, or after it was started.
        from_start: Count from the start of the process, so that recovery itself may be hit.
        also: What else is done before: name server, producer, consumer, pause broker, pause consumer.
    """

    after_acks: int
    after_seconds: float
    from_start: bool
    also: str


def plan(cycles: int, seed: int) -> list[Cycle]:
    """The cycles of a run: every second one ends right after an acknowledgement, the others at random."""
    rng = random.Random(seed)
    also = _others(cycles, rng)
    return [_cycle(number, also.get(number, ""), rng) for number in range(cycles)]


def _cycle(number: int, also: str, rng: random.Random) -> Cycle:
    if number % 2:
        return Cycle(rng.choice((1, 2, 3, rng.randint(1, MOST_ACKS))), 0.0, False, also)
    if number % 8 == 6 and not also:
        return Cycle(0, rng.uniform(LEAST_SECONDS, IN_THE_START), True, also)
    return Cycle(0, rng.uniform(LEAST_SECONDS, MOST_SECONDS), False, also)


def _others(cycles: int, rng: random.Random) -> dict[int, str]:
    """Which cycles get another fault beside: a sixth of them each, but at least what fits."""
    often, seldom = max(1, min(5, cycles // 5), cycles // 10), max(1, cycles // 20)
    wanted = ["name server", "consumer", "producer"] * often + ["pause broker", "pause consumer"] * seldom
    numbers = list(range(1, cycles))
    rng.shuffle(numbers)
    return dict(zip(numbers, wanted, strict=False))
