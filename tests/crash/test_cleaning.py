"""Power losses and kills while files are deleted, with and without the extension of consume queues."""

from __future__ import annotations

from functools import lru_cache
from random import Random

import pytest

from rocketpy.seams import wall_clock
from tests.crash.driver import CLOCK, Driver
from tests.crash.judge import Moment, judge
from tests.crash.sim_disk import SimDisk
from tests.crash.workloads import Recording, Workload, play

LENGTH = 500
EXT = (("enable_consume_queue_ext", True), ("mapped_file_size_consume_queue_ext", 1024))
SMALL_INDEX = (("max_hash_slot_num", 20), ("max_index_num", 20))


def clean(driver: Driver) -> None:
    """Delete the files of the log, and what only led there, as the service of the broker does."""
    retention = driver.store.retention
    while (file := retention.take_log_file()) is not None:
        for each in driver.sent:
            if 0 <= each.position < file.end and each.removed is None:
                each.removed = driver.now
        retention.remove(file)
    for queue in retention.queues():
        retention.correct_queue(queue)
        while (folder := retention.delete_queue_file(queue)) is not None:
            retention.settle(folder)
    while (index := retention.take_index_file()) is not None:
        retention.remove_index_file(index)


def cleaned(driver: Driver, rng: Random, turn: int) -> None:
    """Messages of several queues, of which the older ones are cleaned; one topic falls silent."""
    if turn == 0:
        for topic in ("Silent", "Orders", "Bills"):
            driver.create_topic(topic)
        driver.save()
    if turn < 6:
        driver.put("Silent", 0, 200)
    for _ in range(2):
        driver.put(rng.choice(("Orders", "Bills")), rng.randrange(2), rng.randint(200, 900))
    driver.turn()
    if turn % 3 == 2:
        driver.flush()
    if turn % 4 == 3:
        clean(driver)
    if turn % 11 == 10:
        driver.reopen(kill=bool(turn % 2))


@lru_cache(maxsize=4)
def recorded(mode: str, ext: bool) -> Recording:
    settings = (("flush_disk_type", mode), *SMALL_INDEX, *(EXT if ext else ()))
    workload = Workload(f"cleaned-{mode}-{ext}", cleaned, settings, 0)
    disk = SimDisk()
    disk.record()
    with wall_clock(lambda: CLOCK):
        driver = Driver(disk, workload.config(), rng=Random(workload.name))
    play(workload, driver, LENGTH)
    return Recording(workload, disk, driver.sent, driver.saves, driver.visible)


def disk_at(recording: Recording, at: int) -> SimDisk:
    disk = SimDisk()
    for entry in (recording.disk.journal or ())[:at]:
        disk.apply(*entry)
    return disk


@pytest.mark.slow
@pytest.mark.parametrize("points", [8, pytest.param(25, marks=pytest.mark.crash)])
@pytest.mark.parametrize("ext", [False, True])
@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_ST14_ST21_no_crash_amid_the_cleaning_loses_what_is_left(mode: str, ext: bool, points: int) -> None:
    recording = recorded(mode, ext)
    unlinked = [index for index, entry in enumerate(recording.disk.journal or ()) if entry[0] == "unlink"]
    assert len(unlinked) > 8
    rng = Random(f"{mode}{ext}")
    near = [index + step for index in unlinked for step in (0, 1, 2)]
    chosen = {*rng.sample(near, min(points, len(near))), *rng.sample(range(recording.length), points)}
    for at in sorted(chosen):
        disk = disk_at(recording, at)
        for left, kill in ((disk.left_none(), False), (disk.left_some(rng), False), (disk.left_all(), True)):
            verdict = judge(Moment.of(recording, at, kill=kill), left)
            assert (verdict.refused, verdict.violations) == ("", []), (at, kill)
