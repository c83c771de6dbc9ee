"""A few schedules of producers that together have every way to send and every event."""

from __future__ import annotations

from tests.schedules.producers.plan import ENDS, WAYS

__all__ = ["LEAST", "QUICK"]

QUICK = (9, 37, 102, 119, 126, 145, 163, 192)
"""Their seeds; `python -m tests.schedules --producers --cover 8` finds such ones."""
LEAST = {
    **{way: 10 for ways in WAYS.values() for way in ways},
    **{f"executor: {end}": 20 for end in ENDS},
    "join": 30,
    "leave": 13,
    "kill": 13,
    "unplug": 2,
    "restart broker": 30,
    "kill broker": 30,
    "cut links": 20,
    "stall links": 20,
    "lose answers": 13,
    "refuse sends": 13,
    "delay sends": 13,
    "clock forward": 20,
    "clock back": 20,
    "checker raises": 5,
    "checker says nonsense": 5,
    "checker hangs": 4,
    "killed in an executor": 30,
    "recalled": 10,
    "recalled too late": 2,
    "given up": 5,
}
"""In how many of a hundred schedules each has to happen; in the quick ones, once."""
