"""Seeded schedules of producers break no promise: three in `./dev test`, fifty in `--all`, a hundred in a night."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.schedules.producers.judge import judge
from tests.schedules.producers.plan import plan
from tests.schedules.producers.quick import LEAST, QUICK
from tests.schedules.producers.run import run

ROOT = Path(__file__).parents[3]
ALL = 100
BY_DAY = 50
SEEDS = sorted({*range(1, ALL + 1), *QUICK})
FEW = QUICK[:3]
"""Those of `./dev test`."""


def marks(seed: int) -> tuple[pytest.MarkDecorator, ...]:
    """In which runs a schedule is."""
    if seed in QUICK:
        return () if seed in FEW else (pytest.mark.slow,)
    return (pytest.mark.matrix,) if seed <= BY_DAY else (pytest.mark.matrix, pytest.mark.nightly)


@cache
def outcome(seed: int) -> tuple[list[str], Counter[str]]:
    """The violations in a schedule, and what happened in it."""
    made = plan(seed)
    history = run(made)
    return [str(violation) for violation in judge(history, made)], history.had


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=marks(seed)) for seed in SEEDS])
def test_a_schedule_of_producers_breaks_no_promise(seed: int) -> None:
    violations, _ = outcome(seed)
    assert violations == [], f"python -m tests.schedules --producers --count 1 --seed {seed}"


def rare(seeds: Iterable[int], least: dict[str, int]) -> dict[str, int]:
    """What happened in too few schedules."""
    found = Counter(name for seed in seeds for name, times in outcome(seed)[1].items() if times)
    return {name: found[name] for name, wanted in least.items() if found[name] < wanted}


@pytest.mark.slow
def test_the_quick_schedules_have_everything() -> None:
    assert rare(QUICK, dict.fromkeys(LEAST, 1)) == {}, "choose others: python -m tests.schedules --producers --cover 8"


@pytest.mark.matrix
def test_those_by_day_have_a_share_of_everything() -> None:
    assert rare(range(1, BY_DAY + 1), {name: max(1, wanted // 3) for name, wanted in LEAST.items()}) == {}


@pytest.mark.matrix
@pytest.mark.nightly
def test_all_schedules_have_enough_of_everything() -> None:
    assert rare(range(1, ALL + 1), LEAST) == {}


@pytest.mark.slow
def test_a_schedule_takes_the_same_course_each_time() -> None:
    """In processes of their own: clients in other loops of this one share its source of randomness."""
    assert course() == course()


def course() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.schedules", "--producers", "--count", "1", "--seed", "3"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=True,
    )
    return done.stdout
