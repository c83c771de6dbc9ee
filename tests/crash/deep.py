"""The classes of faults that need more than a disk left by one power loss: T6, T7, T9 and T10 of the plan.

T6 power losses during recovery, T7 stale bytes behind a truncation, T9 calls that fail while the broker runs, T10 rot
in what had reached the disk.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from random import Random
from typing import Any

import attrs

from rocketpy.errors import StoreError
from rocketpy.seams import wall_clock
from rocketpy_broker_sim.store.inspect.layout import StoreLayout
from rocketpy_broker_sim.store.inspect.walk import LogWalk
from tests.checker import Outcome, Violation
from tests.crash.case import Case, Result, sites
from tests.crash.driver import CLOCK, Driver
from tests.crash.judge import LATER, Moment, Verdict, judge, observe
from tests.crash.sim_disk import CHANGES, PowerLoss, SimDisk
from tests.crash.workloads import play, recording

__all__ = ["PICK", "RUN"]


# --- T6: power losses during recovery --------------------------------------------------------------------


def pick_t6(workload: int, number: int, rng: Random) -> int:
    return rng.choice(sites(workload).unsynced)


def run_t6(case: Case) -> Result:
    moment, rng = case.moment(), case.rng
    left, depth = case.disk.left_some(rng), 0
    for _ in range(rng.randint(1, 3)):
        steps = _steps_of_recovery(moment, left.left_all())
        lose_power_at(left, rng.randrange(steps))
        if _opens(moment, left):
            break
        depth += 1
        left.fault = None
        left = left.left_some(rng)
    return Result(depth > 0, judge(moment, left), moment.acknowledged())


def _steps_of_recovery(moment: Moment, disk: SimDisk) -> int:
    """How many operations an opening of this disk takes."""
    disk.record()
    _opens(moment, disk)
    return max(1, len(disk.journal or ()))


def lose_power_at(disk: SimDisk, step: int) -> None:
    """Let the operation of that number, and all after it, never happen."""
    left = step

    def fault(what: str, path: str, size: int) -> None:
        nonlocal left
        if left <= 0:
            raise PowerLoss
        left -= 1

    disk.fault = fault


def _opens(moment: Moment, disk: SimDisk) -> bool:
    try:
        with wall_clock(lambda: LATER):
            Driver(disk, moment.config).store.abandon()
    except PowerLoss:
        return False
    return True


# --- T7: stale bytes behind a truncation -----------------------------------------------------------------


def pick_t7(workload: int, number: int, rng: Random) -> int:
    return rng.choice(stale_sites(workload))


@lru_cache(maxsize=64)
def stale_sites(workload: int) -> list[int]:
    """Boundaries at which several records were written and nothing was promised of them."""
    sent = recording(workload).sent
    times = sorted({each.written for each in sent if each.written is not None})
    return [at for at in times if sum(_unpromised(each, at) for each in sent) > 1]


def run_t7(case: Case) -> Result:
    """A record in the middle of what was not synced is lost; those behind it must stay lost when others follow."""
    rng, moment = case.rng, case.moment()
    left = case.disk.left_all()
    victims = [each for each in moment.sent if _unpromised(each, case.at)]
    if not victims:
        return Result(False, judge(moment, left), moment.acknowledged())
    victim = rng.choice(victims[: max(1, len(victims) - 1)])
    _strike(left, victim.position + rng.randrange(60))
    stale = [each for each in victims if each.position >= victim.position]
    with wall_clock(lambda: LATER):
        disk, moment = _write_again(case, left, moment, [len(each.body) for each in stale])
    return Result(len(stale) > 1, judge(moment, disk), moment.acknowledged())


def _unpromised(each: Any, at: int) -> bool:
    return each.written is not None and each.written <= at and (each.durable is None or each.durable > at)


def _strike(disk: SimDisk, position: int) -> None:
    """Change one byte of the log."""
    start = position - position % 4096
    path = f"commitlog/{start:020d}"
    data = bytearray(disk.files()[path])
    data[position - start] ^= 0xFF
    disk.plant(path, bytes(data))


def _write_again(case: Case, left: SimDisk, moment: Moment, sizes: list[int]) -> tuple[SimDisk, Moment]:
    """Recover, send messages of the same sizes, and lose the power meanwhile."""
    rng, sends = case.rng, moment.sends()
    twin = left.left_all()
    left.record()
    driver = Driver(left, moment.config, name="n")
    recovered = observe(driver, "after the first crash", len(sends), sends)
    opened = driver.now
    for size in sizes:
        driver.put("Orders", 0, size)
        if rng.random() < 0.5:
            driver.turn()
    driver.turn()
    if rng.random() < 0.5:
        driver.flush()
    at = rng.randint(opened, driver.now)
    for entry in (left.journal or [])[:at]:
        twin.apply(*entry)
    again = Moment(driver.sent, [], [], moment.config, at, tables=False, earlier=sends, seen=[recovered])
    return twin.left_some(rng), again


# --- T9: the n-th call fails -----------------------------------------------------------------------------

ERRORS = (("EIO", errno.EIO), ("ENOSPC", errno.ENOSPC), ("short", errno.ENOSPC), ("sync", errno.EIO))
CONCERNS = {
    "EIO": CHANGES,
    "ENOSPC": ("write", "resize", "link", "folder"),
    "short": ("write",),
    "sync": ("sync", "sync_dir"),
}
AFTER = 60
"""Operations that the broker goes on for after the fault."""


def pick_t9(workload: int, number: int, rng: Random) -> int:
    return 0


def run_t9(case: Case) -> Result:
    workload, rng = case.recording.workload, case.rng
    name, code = ERRORS[case.number % len(ERRORS)]
    calls = sum(entry[0] in CONCERNS[name] for entry in case.recording.disk.journal or ())
    fault = Fault(name, code, rng.randrange(calls * 4 // 5), rng)
    disk = SimDisk()
    disk.record()
    with wall_clock(lambda: CLOCK):
        driver = Driver(disk, workload.config(), rng=Random(workload.name))
    disk.fault = fault
    opened = driver.opened
    _go_on_with(driver, workload, fault)
    disk.fault = None
    broken = _acknowledged_after(driver, fault, opened)
    if rng.random() < 0.5:
        _restart_and_go_on(driver)
    mode = rng.randrange(3)
    moment = Moment(driver.sent, driver.saves, driver.visible, driver.config, driver.now, kill=mode == 0)
    left = (disk.left_all, disk.left_none, lambda: disk.left_some(rng))[mode]()
    verdict = judge(moment, left)
    verdict.violations += broken
    return Result(fault.fired is not None, verdict, moment.acknowledged())


@attrs.define
class Fault:
    """Lets the n-th call of a kind fail, once or from then on for a while."""

    name: str
    code: int
    number: int
    rng: Random
    fired: int | None = None
    path: str = ""
    trace: bool = False
    left: int = 1
    disk_now: Any = None

    def __call__(self, what: str, path: str, size: int) -> int | None:
        if not self._concerns(what):
            return None
        self.number -= 1
        if self.number >= 0 or not self.left:
            return None
        if self.trace:
            print(self.name, what, path, self.disk_now())
        if self.fired is None:
            self.fired, self.path = self.disk_now(), f"{what} {path}"
            self.left = self.rng.choice((1, 1, 3, 30))
        self.left -= 1
        if self.name == "short":
            return self.rng.randrange(size) if size else 0
        raise OSError(self.code, os.strerror(self.code), path)

    def _concerns(self, what: str) -> bool:
        return what in CONCERNS[self.name]


def _go_on_with(driver: Driver, workload: Any, fault: Fault) -> None:
    """The workload, until some operations after the fault; a broker that cannot open again is started once more."""
    fault.disk_now = lambda: driver.now
    length = 1
    while length < 250 and (fault.fired is None or driver.now < fault.fired + AFTER):
        length = driver.now + 20
        before = driver.turns
        try:
            play(workload, driver, length)
        except StoreError:
            fault.left = 0  # the operator has mended the disk, and starts the broker again
            driver.open()
        if driver.turns == before:
            break


def _acknowledged_after(driver: Driver, fault: Fault, opened: int) -> list[Violation]:
    """T9: after a failed sync of the log or the queues nothing is acknowledged until the store was opened again."""
    if fault.fired is None or fault.name != "sync" or driver.opened != opened:
        return []
    if fault.path.startswith("sync_dir") and driver.has_cleaned:
        return []  # that an expired file is gone for good is tried again, and nobody waits for it
    if not fault.path.partition(" ")[2].startswith(("commitlog", "consumequeue")):
        return []  # the checkpoint is written whole each time, and what it said before stays true
    return [
        Violation("T9", f"{each.id} was acknowledged at {each.written}, after the {fault.path} failed at {fault.fired}")
        for each in driver.sent
        if each.written is not None and each.began > fault.fired and each.failed is None
    ]


def _restart_and_go_on(driver: Driver) -> None:
    """The process restarts on the same system: what a failed sync gave up still looks written to it."""
    with wall_clock(lambda: LATER):
        driver.reopen(kill=True)
        for _ in range(3):
            driver.put("Orders", 0)
            driver.turn()
        driver.flush()


# --- T10: rot --------------------------------------------------------------------------------------------


def pick_t10(workload: int, number: int, rng: Random) -> int:
    recorded = recording(workload)
    return rng.randrange(recorded.length // 2, recorded.length + 1)


def run_t10(case: Case) -> Result:
    moment, left = case.moment(), case.disk.left_none()
    struck = _rot(left, case, moment)
    if struck is None:
        return Result(False, Verdict(), 0)
    verdict = judge(moment, left.left_all(), go_on=False)
    if not verdict.refused and {each.invariant for each in verdict.violations} == {"I7"}:
        # Nothing that a queue leads to was struck: the check of the files is what finds it.
        verdict = Verdict(refused=str(verdict.violations[0]))
    if verdict.refused:
        verdict.violations += _rest_is_found(left, moment, struck)
    return Result(True, verdict, moment.acknowledged())


def _rot(left: SimDisk, case: Case, moment: Moment) -> tuple[int, int] | None:
    """Damage records that the checkpoint vouches for, but not the last one; the bounds of what was damaged."""
    rng = case.rng
    vouched = int.from_bytes(left.files().get("checkpoint", b"")[72:80], "big")
    there = [each for each in moment.sent if each.removed is None or each.removed > moment.at]
    safe = [each for each in there if each.written is not None and each.position >= 0 and each.end <= vouched]
    if len(safe) < 3:
        return None
    target = rng.choice(safe[:-2])
    start = target.position - target.position % 4096
    path = f"commitlog/{start:020d}"
    data = bytearray(left.files()[path])
    at = target.position - start + rng.randrange(len(target.body) + 60)
    begin, end = _damage(data, at, case.number % 4, rng)
    if data == left.files()[path]:
        return None
    left.plant(path, bytes(data))
    return start + begin, start + end


def _damage(data: bytearray, at: int, kind: int, rng: Random) -> tuple[int, int]:
    """A bit, a sector of zeros, 4 KiB of zeros, or a sector that was meant for another place."""
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
        return at, at + 1
    size = 4096 if kind == 2 else 512
    begin = at - at % size
    other = rng.randrange(0, len(data), 512)
    data[begin : begin + size] = data[other : other + 512] if kind == 3 else bytes(size)
    return begin, begin + size


def _rest_is_found(left: SimDisk, moment: Moment, struck: tuple[int, int]) -> list[Violation]:
    """What was promised and not struck can still be found in the log, past all damage."""
    layout = StoreLayout(left, moment.config.store)
    found = {each.position for each in LogWalk(layout.log) if each.kind == "message"}
    return [
        Violation("T10", f"{send.id} at {send.position} was not struck, and is not found behind the damage")
        for each, send in zip(moment.begun(), moment.sends(), strict=True)
        if send.outcome is Outcome.OK and not send.optional and send.position not in found
        if each.position + len(each.body) + 200 < struck[0] or each.position >= struck[1]
    ]


PICK = {"T6": pick_t6, "T7": pick_t7, "T9": pick_t9, "T10": pick_t10}
RUN = {"T6": run_t6, "T7": run_t7, "T9": run_t9, "T10": run_t10}
