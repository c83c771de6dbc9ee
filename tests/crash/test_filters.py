"""Power losses and kills while topics are filtered by SQL92 and again are not: no reader misses what it asks for."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from rocketpy.seams import wall_clock
from tests.crash.by_run import by_run
from tests.crash.driver import Driver
from tests.crash.filtered import codes, damaged_extension, near_extension, problems_after, recorded
from tests.crash.judge import LATER, Moment, judge
from tests.crash.test_cleaning import disk_at


@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_F6_the_workload_has_both_kinds_of_units(mode: str) -> None:
    recording = recorded(mode)
    disk = disk_at(recording, recording.length).left_all()
    with wall_clock(lambda: LATER):
        driver = Driver(disk, recording.workload.config())
    kinds = codes(driver)
    driver.store.abandon()
    assert 10 < sum(kinds) < len(kinds) - 10


@pytest.mark.slow
@pytest.mark.parametrize("points", by_run(6, 40, 80))
@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_F6_ST21_no_crash_lets_a_filter_miss_what_is_left(mode: str, points: int) -> None:
    recording = recorded(mode)
    rng = Random(f"{mode}{points}")
    near = near_extension(recording)
    assert len(near) > 20
    for at in sorted({*rng.sample(near, min(points // 2, len(near))), *rng.sample(range(recording.length), points)}):
        disk = disk_at(recording, at)
        for kill, left in (
            (False, disk.left_none),
            (False, partial(disk.left_some, Random(at))),
            (True, disk.left_all),
        ):
            assert problems_after(recording, left()) == [], (at, kill)
            verdict = judge(Moment.of(recording, at, kill=kill), left())
            assert (verdict.refused, verdict.violations) == ("", []), (at, kill)


@pytest.mark.slow
@pytest.mark.parametrize("points", by_run(4, 30, 60))
@pytest.mark.parametrize("kind", ["lost", "zeros", "longer"])
def test_F6_ST21_no_damaged_extension_lets_a_filter_miss_anything(kind: str, points: int) -> None:
    """As a power loss may leave it on a disk that does not keep what it said it would."""
    recording = recorded("ASYNC_FLUSH")
    rng, struck = Random(f"{kind}{points}"), 0
    for at in sorted(rng.sample(range(recording.length // 3, recording.length), points)):
        disk = disk_at(recording, at).left_all()
        struck += damaged_extension(disk, kind, rng)
        assert problems_after(recording, disk, flushes_hold=False) == [], at
    assert struck >= points // 2
