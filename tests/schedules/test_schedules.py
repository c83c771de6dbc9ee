"""Seeded schedules break no promise: twelve of them in every run, two hundred in the whole."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from rocketpy import LitePullConsumer, PushConsumer
from rocketpy.consumer import pull
from tests.schedules import members
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


@pytest.mark.slow
def test_consumers_that_seldom_commit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a minute between two commits, and pulls that commit nothing on the way."""
    seldom = {"persist_consumer_offset_interval": 60.0}
    monkeypatch.setattr(pull, "COMMITS", 0)
    monkeypatch.setattr(members, "PushConsumer", partial(PushConsumer, **seldom))
    monkeypatch.setattr(members, "LitePullConsumer", partial(LitePullConsumer, auto_commit_interval=60.0, **seldom))
    found = [violation for seed in (1, 2) for violation in judge(run(plan(seed)))]
    assert {violation.invariant for violation in found} == {"I11"}
    assert any("had committed" in violation.text for violation in found)
    assert any(" got " in violation.text for violation in found), "something came again that had long been done"


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
