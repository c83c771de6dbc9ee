"""Seeded schedules break no promise: twelve of them in every run, two hundred in the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.schedules.judge import judge
from tests.schedules.plan import plan
from tests.schedules.run import run

ROOT = Path(__file__).parents[2]
QUICK = 12
ALL = 200


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed <= QUICK else pytest.mark.matrix) for seed in range(1, ALL + 1)]
)
def test_a_schedule_breaks_no_promise(seed: int) -> None:
    history = run(plan(seed))
    assert [str(violation) for violation in judge(history)] == [], f"python -m tests.schedules --count 1 --seed {seed}"


def test_a_schedule_takes_the_same_course_each_time() -> None:
    """In processes of their own: clients in other loops of this one share its source of randomness."""
    assert course() == course()


def course() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.schedules", "--count", "1", "--seed", "3"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=True,
    )
    return done.stdout
