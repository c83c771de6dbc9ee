"""Runs crash points: plans them by class, spreads them over processes, and counts what they showed."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

import attrs

from tests.checker import Violation
from tests.crash import classes, deep
from tests.crash.case import Case, Result, case_rng, sites
from tests.crash.judge import Verdict
from tests.crash.sim_disk import SimDisk
from tests.crash.workloads import WORKLOADS, WRITE_TABLES, recording
from tests.garbage import OBJECTS_A_COLLECTION

__all__ = ["PLAN", "Count", "Job", "forget_recordings", "plan", "run_job", "run_jobs", "run_point"]

PLAN = {
    "T1": (1500, 20_000, "crash at every operation, nothing or everything kept"),
    "T2": (2500, 40_000, "last write torn at a byte"),
    "T3": (2500, 60_000, "any sectors of what was not synced"),
    "T4": (800, 20_000, "files disagree"),
    "T5": (500, 10_000, "roll-over"),
    "T6": (500, 10_000, "crash during recovery, up to 3 deep"),
    "T7": (400, 10_000, "stale bytes behind a truncation"),
    "T8": (300, 300, "configuration files, each step"),
    "T9": (500, 10_000, "the n-th call fails"),
    "T10": (400, 15_000, "rot in the synced region"),
    "T11": (100, 5_000, "the clock moved"),
}
"""Points of each class in 10,000 and in 200,000, and what it is."""

PICK = {**classes.PICK, **deep.PICK}
RUN = {**classes.RUN, **deep.RUN}
MOST_TEXTS = 20


@attrs.frozen
class Job:
    """Points of one class on one recording, which share its replay."""

    kind: str
    workload: int
    seed: int
    numbers: tuple[int, ...]


@attrs.define
class Count:
    """What the points of a class showed.

    Attributes:
        fired: Points at which the fault of the class really was there.
        acknowledged: Messages that had been promised to survive.
        covered: Points at which at least one had been.
        refused: Points at which the store said that it is damaged.
        lost: Messages of unknown outcome that were lost, as they may be.
        seconds: Of one core.
        texts: Lines that repeat a point, with what it broke.
    """

    points: int = 0
    fired: int = 0
    acknowledged: int = 0
    covered: int = 0
    refused: int = 0
    lost: int = 0
    violations: int = 0
    seconds: float = 0.0
    texts: list[str] = attrs.field(factory=list)

    def add(self, other: Count) -> None:
        for field in attrs.fields(Count):
            if field.name != "texts":
                setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        self.texts = (self.texts + other.texts)[:MOST_TEXTS]


def plan(points: int, seed: int, kinds: Iterable[str]) -> list[Job]:
    """The jobs for about so many points, in the proportions of the plan."""
    jobs = []
    for kind in kinds:
        ci, nightly, _ = PLAN[kind]
        share = ci * points / 10_000 if points <= 10_000 else ci + (nightly - ci) * (points - 10_000) / 190_000
        count = max(1, round(share))
        fit = fitting(kind)
        for place, workload in enumerate(fit):
            numbers = range(place, count, len(fit))
            lots = (tuple(numbers[begin : begin + 100]) for begin in range(0, len(numbers), 100))
            jobs += [Job(kind, workload, seed, lot) for lot in lots]
    return [job for job in jobs if job.numbers]


def fitting(kind: str) -> list[int]:
    """The workloads on which a class can act: T8 needs one that writes tables, T7 unsynced records in a row."""
    every = range(len(WORKLOADS))
    if kind == "T7":
        return [index for index in every if deep.stale_sites(index)]
    return [index for index in every if kind != "T8" or WORKLOADS[index].step in WRITE_TABLES]


def run_job(job: Job) -> Count:
    """Try the points of a job, in the order in which the replay comes by."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the store has much to say of disks that were damaged on purpose
    begin = time.process_time()
    count = Count()
    try:
        for number, case in _cases(job):
            _tally(count, job, number, case, _run(job.kind, case))
    finally:
        logging.disable(before)
    count.seconds = time.process_time() - begin
    return count


def _run(kind: str, case: Case) -> Result:
    try:
        return RUN[kind](case)
    except Exception as exc:  # noqa: BLE001  an error that nobody has foreseen is a finding like any other
        where = traceback.extract_tb(exc.__traceback__)[-1]
        text = f"{type(exc).__name__}: {exc} ({where.filename}:{where.lineno})"
        return Result(True, Verdict([Violation("error", text)]))


def _cases(job: Job) -> Iterator[tuple[int, Case]]:
    recorded = recording(job.workload)
    picked, kinds = [], len(fitting(job.kind))
    for number in job.numbers:
        rng = case_rng(job.seed, job.kind, number)
        picked.append((PICK[job.kind](job.workload, number // kinds, rng), number, rng))
    disk, done = SimDisk(), 0
    entries = recorded.disk.journal or []
    for at, number, rng in sorted(picked, key=lambda each: each[:2]):
        while done < at:
            disk.apply(*entries[done])
            done += 1
        yield number, Case(recorded, disk, at, rng, number // kinds)


def _tally(count: Count, job: Job, number: int, case: Case, result: Result) -> None:
    verdict = result.verdict
    count.points += 1
    count.fired += result.fired
    count.acknowledged += result.acknowledged
    count.covered += result.acknowledged > 0
    count.lost += verdict.lost
    count.refused += bool(verdict.refused)
    texts = [str(each) for each in verdict.violations]
    if verdict.refused and job.kind not in MAY_REFUSE:
        texts.append(f"refused: {verdict.refused}")
    count.violations += bool(texts)
    if texts:
        where = f"{job.kind}:{number}:{job.seed}  {case.recording.workload.name} at {case.at}"
        count.texts.append(f"{where}\n    " + "\n    ".join(texts[:6]))


MAY_REFUSE = {"T10"}


def run_point(line: str) -> Count:
    """Try the one point that a line names: class, number and seed, as printed with a violation."""
    kind, number, seed = line.split()[0].split(":")
    fit = fitting(kind)
    return run_job(Job(kind, fit[int(number) % len(fit)], int(seed), (int(number),)))


def forget_recordings() -> None:
    """Let the workloads run again when they are asked for: the broker has changed."""
    for known in (recording, sites, deep.stale_sites):
        known.cache_clear()


def run_jobs(jobs: list[Job], processes: int | None = None) -> Iterator[tuple[Job, Count]]:
    """The results of the jobs as they come."""
    processes = processes or len(os.sched_getaffinity(0))
    if processes == 1:
        yield from ((job, run_job(job)) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _seldom_collect_garbage) as pool:
        waiting = {pool.submit(run_job, job): job for job in jobs}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _seldom_collect_garbage() -> None:
    """Each point opens several brokers, thousands of objects that are all in use until the next one."""
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)
