"""In which way each consumer of a run consumes: the ways go round the surfaces, from one seed to the next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

GROUPS = {"trio": "chaos-of-trio", "asyncio": "chaos-of-asyncio", "blocking": "chaos-of-blocking"}


class Way(Enum):
    """How a consumer gets its messages."""

    CONCURRENT = "by a listener, several messages at a time"
    ORDERLY = "by a listener, in order, with locks"
    POLLED = "by lite pull, acknowledging each message"
    BROADCAST = "by a listener, with offsets in a file"


def ways(seed: int) -> Mapping[str, Way]:
    """The way of each group."""
    known = list(Way)
    return {group: known[(seed + number) % len(known)] for number, group in enumerate(GROUPS.values())}
