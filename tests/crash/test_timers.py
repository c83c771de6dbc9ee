"""Power losses and kills while timer messages wait: none is early or lost, and none is repeated without cause."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from tests.crash.by_run import by_run
from tests.crash.test_cleaning import disk_at
from tests.crash.timed import near_timer, problems_after, recorded


@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_DL4_the_workload_has_all_kinds_of_timer_messages(mode: str) -> None:
    recording = recorded(mode)
    driver = recording.driver
    delivered = driver.delivered()
    assert len(delivered) > 40
    assert sum("TIMER_ROLL_TIMES" in message.wire_properties for message in delivered) > 5
    assert sum(each.recalls is not None for each in driver.timed) > 5
    assert len(driver.checkpoints) > 20
    assert driver.opened > 5
    assert len(near_timer(recording)) > 60


@pytest.mark.slow
@pytest.mark.parametrize("points", by_run(12, 50, 150))
@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_DL3_DL4_DL5_no_crash_loses_hastens_or_brings_back_a_timer_message(mode: str, points: int) -> None:
    recording = recorded(mode)
    rng = Random(f"{mode}{points}")
    near = near_timer(recording)
    moments = {*rng.sample(near, min(points // 2, len(near))), *rng.sample(range(recording.length), points)}
    for at in sorted(moments):
        disk = disk_at(recording.recording, at)
        for kill, left in (
            (False, disk.left_none),
            (False, partial(disk.left_some, Random(at))),
            (True, disk.left_all),
        ):
            assert problems_after(recording, left(), at, kill=kill) == [], (at, kill)
