"""The classes of faults that act on what had not reached the disk: T1 to T5, T8 and T11 of the plan.

Each class says where the power goes in a recording, and what disk is left then. The plan's names stay: T1 boundaries,
T2 torn bytes, T3 lost sectors, T4 files that disagree, T5 roll-over, T8 configuration files, T11 the clock.
"""

from __future__ import annotations

from random import Random
from typing import Any

import attrs

from rocketpy.seams import wall_clock
from tests.checker import check_same_files
from tests.crash.case import Case, Result, sites
from tests.crash.driver import Driver
from tests.crash.judge import LATER, compared, judge
from tests.crash.nodes import FileNode, FolderNode, apply
from tests.crash.sim_disk import SimDisk
from tests.crash.workloads import WORKLOADS, Recording, recording

__all__ = ["PICK", "RUN", "UNZEROED"]

STRIDE = 97
UNZEROED = 0xA5


# --- T1: every boundary, nothing or everything kept ------------------------------------------------------


def pick_t1(workload: int, number: int, rng: Random) -> int:
    return (120 + 31 * workload + number // 2 * STRIDE) % (recording(workload).length + 1)


def run_t1(case: Case) -> Result:
    kill = case.number % 2 == 1
    moment = case.moment(kill=kill)
    left = case.disk.left_all() if kill else case.disk.left_none()
    return Result(True, judge(moment, left), moment.acknowledged())


# --- T2: the last write is torn at a byte ----------------------------------------------------------------


def pick_t2(workload: int, number: int, rng: Random) -> int:
    return rng.choice(sites(workload).writes)


def run_t2(case: Case) -> Result:
    data = journal(case.recording)[case.at][3]
    left = torn(case, case.rng.randrange(1, len(data)))
    moment = case.moment()
    return Result(True, judge(moment, left), moment.acknowledged())


def torn(case: Case, length: int) -> SimDisk:
    """The disk with the first bytes of the write that was about to be done; of the others all, none or some."""
    _, number, offset, data = journal(case.recording)[case.at]
    target, rng = case.disk.nodes[number], case.rng
    mode = rng.randrange(3)

    def keep(path: str, node: FileNode | FolderNode) -> Any:
        if node is target:
            content = bytearray(target.data)
            apply(content, offset, data[:length])
            return content
        if mode == 0:
            return node.safe
        if mode == 1:
            return node.names if isinstance(node, FolderNode) else node.data
        return node.some(rng)

    return case.disk.left(keep)


# --- T3: any sectors, any entries of folders -------------------------------------------------------------


def pick_t3(workload: int, number: int, rng: Random) -> int:
    return rng.choice(sites(workload).unsynced)


def run_t3(case: Case) -> Result:
    moment = case.moment()
    return Result(case.disk.unsynced > 0, judge(moment, case.disk.left_some(case.rng)), moment.acknowledged())


# --- T4: files that disagree -----------------------------------------------------------------------------


def pick_t4(workload: int, number: int, rng: Random) -> int:
    length = recording(workload).length
    return rng.randrange(length // 3, length + 1)


def run_t4(case: Case) -> Result:
    rng = case.rng
    moment = case.moment()
    left = case.disk.left(file_by_file(rng))
    before = left.files()
    variants = [mixed, without_queue, without_queues, older_queue, older_checkpoint, later_offsets]
    rng.shuffle(variants)
    for variant in variants:
        variant(case, left)
        if left.files() != before or (variant is mixed and before != case.disk.left_all().files()):
            break
    moment = attrs.evolve(moment, tables=variant is not later_offsets)
    return Result(left.files() != case.disk.left_all().files(), judge(moment, left), moment.acknowledged())


def file_by_file(rng: Random) -> Any:
    """Of each file all or nothing; every entry of a folder."""
    return lambda path, node: (
        node.names if isinstance(node, FolderNode) else node.data if rng.random() < 0.5 else node.safe
    )


def mixed(case: Case, left: SimDisk) -> None:
    """Files are as old as they may be, each for itself."""


def without_queue(case: Case, left: SimDisk) -> None:
    """One queue is gone."""
    folders = sorted({path.rpartition("/")[0] for path in left.files() if path.startswith("consumequeue/")})
    for path in _under(left, case.rng.choice(folders)) if folders else ():
        left.plant(path, None)


def without_queues(case: Case, left: SimDisk) -> None:
    """All of them are gone."""
    for path in _under(left, "consumequeue"):
        left.plant(path, None)


def older_queue(case: Case, left: SimDisk) -> None:
    """The last file of a queue is as it was some time ago."""
    old = _earlier(case).left_none().files()
    last = {path.rpartition("/")[0]: path for path in _under(left, "consumequeue")}
    paths = [path for path in last.values() if path in old]
    if paths:
        path = case.rng.choice(paths)
        left.plant(path, old[path])


def older_checkpoint(case: Case, left: SimDisk) -> None:
    old = _earlier(case).left_none().files()
    if "checkpoint" in old:
        left.plant("checkpoint", old["checkpoint"])


def later_offsets(case: Case, left: SimDisk) -> None:
    """Groups stand where they would have stood later."""
    later, name = case.recording.disk.files(), "config/consumerOffset.json"
    if name in later and name in left.files():
        left.plant(name, later[name])


def _under(disk: SimDisk, folder: str) -> list[str]:
    return [path for path in disk.files() if path.startswith(f"{folder}/")]


def _earlier(case: Case) -> SimDisk:
    disk = SimDisk()
    for entry in journal(case.recording)[: case.rng.randrange(case.at)]:
        disk.apply(*entry)
    return disk


# --- T5: roll-over ---------------------------------------------------------------------------------------


def pick_t5(workload: int, number: int, rng: Random) -> int:
    if number // 40 % 4 == 0 and sites(workload).fillers:
        return rng.choice(sites(workload).fillers)
    return rng.choice(sites(workload).rolls)[0]


def run_t5(case: Case) -> Result:
    if case.number // 40 % 4 == 0 and sites_of(case).fillers:
        return _torn_filler(case)
    rng = case.rng
    path = rng.choice([path for at, path in sites_of(case).rolls if at == case.at])
    left = case.disk.left(lambda _, node: node.some(rng))
    _maim(left, path, case)
    moment = case.moment()
    return Result(True, judge(moment, left), moment.acknowledged())


def _torn_filler(case: Case) -> Result:
    data = journal(case.recording)[case.at][3]
    left = torn(case, len(data) - case.rng.randrange(1, 8))
    moment = case.moment()
    return Result(True, judge(moment, left), moment.acknowledged())


def _maim(left: SimDisk, path: str, case: Case) -> None:
    """Let a file that had just been made be missing, empty, short, or full of what stood on the disk before."""
    rng, size = case.rng, 4096 if path.startswith("commitlog") else 200
    kind = rng.choice(("missing", "empty", "short", "unzeroed"))
    if kind == "missing":
        if path in left.files():
            left.plant(path, None)
        return
    data = left.files().get(path, b"")
    if kind == "unzeroed" and path.startswith("commitlog"):
        others = [other for name, other in left.files().items() if name.startswith("commitlog") and name != path]
        stale = rng.choice(others) if others and rng.random() < 0.7 else bytes([UNZEROED]) * size
        left.plant(path, data + stale[len(data) : size] if len(data) < size else stale)
        return
    left.plant(path, data[: 0 if kind == "empty" else rng.randrange(1, size)])


# --- T8: configuration files -----------------------------------------------------------------------------


def pick_t8(workload: int, number: int, rng: Random) -> int:
    steps = _save_steps(recording(workload))
    return steps[number // 4 % len(steps)]


def run_t8(case: Case) -> Result:
    disk, rng, kind = case.disk, case.rng, case.number % 4
    moment = case.moment(kill=kind == 0)
    left = disk.left_all() if kind == 0 else disk.left_none() if kind == 1 else disk.left_some(rng)
    return Result(True, judge(moment, left, go_on=False), moment.acknowledged())


def _save_steps(recorded: Recording) -> list[int]:
    """Every boundary within a write of a table."""
    return sorted({at for save in recorded.saves for at in range(save.began, (save.done or save.began) + 1)})


# --- T11: the clock --------------------------------------------------------------------------------------


def run_t11(case: Case) -> Result:
    moment = case.moment()
    clock = LATER + case.rng.choice((-1, 1)) * case.rng.randrange(1, 86_400_000)
    left = case.disk.left_some(case.rng)
    twin = left.left_all()
    Driver(twin, moment.config).store.abandon()
    verdict = judge(moment, left.left_all(), clock=clock)
    other = judge_files(moment, left, clock)
    verdict.violations += check_same_files(_without_names(compared(twin)), _without_names(other))
    return Result(True, verdict, moment.acknowledged())


def _without_names(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of the index by their order: only their names come from the clock."""
    index = [path for path in files if path.startswith("index/")]
    return {path if path not in index else f"index/{index.index(path)}": data for path, data in files.items()}


def judge_files(moment: Any, disk: SimDisk, clock: int) -> dict[str, bytes]:
    """The files after recovery under another clock."""
    with wall_clock(lambda: clock):
        Driver(disk, moment.config).store.abandon()
    return compared(disk)


def journal(recorded: Recording) -> list[Any]:
    return recorded.disk.journal or []


def sites_of(case: Case) -> Any:
    return sites(WORKLOADS.index(case.recording.workload))


PICK = {"T1": pick_t1, "T2": pick_t2, "T3": pick_t3, "T4": pick_t4, "T5": pick_t5, "T8": pick_t8, "T11": pick_t3}
RUN = {"T1": run_t1, "T2": run_t2, "T3": run_t3, "T4": run_t4, "T5": run_t5, "T8": run_t8, "T11": run_t11}
