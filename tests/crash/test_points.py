"""Power losses by the thousand: no promise is broken, and each kind of fault really was there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.runner import PLAN, plan, run_point
from tests.crash.workloads import WORKLOADS, recording

ROOT = Path(__file__).parents[2]


def run(*arguments: str, within: float) -> dict[str, list[int]]:
    """The table that the runner prints, by class."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash", *arguments],
        capture_output=True,
        text=True,
        timeout=within,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = re.findall(r"^(T\d+|all) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) ", done.stdout, re.MULTILINE)
    return {name: [int(number) for number in numbers] for name, *numbers in rows}


@pytest.mark.slow
def test_two_hundred_power_losses_break_no_promise() -> None:
    table = run("--points", "200", "--seed", "7", "--processes", "1", within=240)
    assert table.keys() == {*PLAN, "all"}
    points, fired, acknowledged, _, violations = table["all"]
    assert points == 200
    assert fired >= 0.98 * points
    assert acknowledged > 20 * points
    assert violations == 0


@pytest.mark.crash
def test_ten_thousand_power_losses_break_no_promise() -> None:
    table = run("--points", "10000", "--seed", "1", within=1800)
    assert {name: row[0] for name, row in table.items() if name != "all"} == {
        name: count for name, (count, _, _) in PLAN.items()
    }
    assert all(row[1] >= 0.8 * row[0] and row[4] == 0 for row in table.values())
    assert table["T10"][3] == table["T10"][1], "every damage is told"


def test_the_plan_has_the_asked_number_of_points() -> None:
    for asked in (10_000, 200_000):
        jobs = plan(asked, 1, PLAN)
        assert abs(sum(len(job.numbers) for job in jobs) - asked) <= 0.06 * asked
        assert len({(job.kind, number) for job in jobs for number in job.numbers}) == sum(
            len(job.numbers) for job in jobs
        )
    assert len(WORKLOADS) == 40


@pytest.mark.slow
def test_every_workload_does_enough() -> None:
    for index, workload in enumerate(WORKLOADS):
        recorded = recording(index)
        assert recorded.length >= 250, workload.name
        assert sum(each.durable is not None for each in recorded.sent) >= 20, workload.name


@pytest.mark.parametrize("line", ["T3:11:4", "T6:3:4", "T10:9:4", "T3:557:3", "T3:1455:3"])
def test_a_point_can_be_repeated(line: str) -> None:
    first, second = run_point(line), run_point(line)
    assert (first.points, first.violations) == (1, 0)
    assert (first.acknowledged, first.lost, first.refused) == (second.acknowledged, second.lost, second.refused)
