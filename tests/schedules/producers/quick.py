"""Which schedules of producers every test run tries: a few that together have every way to send and every event."""

from __future__ import annotations

from tests.schedules.producers.plan import ENDS, WAYS

__all__ = ["LEAST", "QUICK"]

QUICK = (9, 37, 102, 119, 126, 145, 163, 192)
"""Their seeds; `python -m tests.schedules --producers --cover 8` finds such ones."""
LEAST = {
    **{way: 20 for ways in WAYS.values() for way in ways},
    **{f"executor: {end}": 40 for end in ENDS},
    "join": 60,
    "leave": 25,
    "kill": 25,
    "unplug": 3,
    "restart broker": 60,
    "kill broker": 60,
    "cut links": 40,
    "stall links": 40,
    "lose answers": 25,
    "refuse sends": 25,
    "delay sends": 25,
    "clock forward": 40,
    "clock back": 40,
    "checker raises": 10,
    "checker says nonsense": 10,
    "checker hangs": 8,
    "killed in an executor": 60,
    "recalled": 20,
    "recalled too late": 3,
    "given up": 10,
}
"""In how many of all schedules each has to happen; in the quick ones, once."""
