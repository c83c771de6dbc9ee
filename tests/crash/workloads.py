"""What a broker does while its power may fail: forty recordings, each of a few hundred operations of the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import NamedTuple

from rocketpy.seams import wall_clock
from rocketpy_broker_sim.config import BrokerConfig
from tests.crash.driver import CLOCK, Driver, Save, Sent, broker_config
from tests.crash.sim_disk import SimDisk

__all__ = ["WORKLOADS", "WRITE_TABLES", "Recording", "Workload", "play", "recording"]

LENGTH = 250
"""Operations of the disk at least."""

Step = Callable[[Driver, Random, int], None]


class Workload(NamedTuple):
    """One of the forty.

    Attributes:
        step: Does a few things; called until the recording is long enough.
        settings: Of the store.
        seed: Of its choices.
    """

    name: str
    step: Step
    settings: tuple[tuple[str, object], ...]
    seed: int

    def config(self) -> BrokerConfig:
        return broker_config(**dict(self.settings))


class Recording(NamedTuple):
    """What a workload did."""

    workload: Workload
    disk: SimDisk
    sent: list[Sent]
    saves: list[Save]
    visible: list[tuple[int, str, int, int]]

    @property
    def length(self) -> int:
        return len(self.disk.journal or ())


# --- the steps -------------------------------------------------------------------------------------------


def single(driver: Driver, rng: Random, turn: int) -> None:
    driver.put("Orders", 0, rng.randint(10, 700))
    driver.turn()
    _flush_now_and_then(driver, turn, 6)


def pipelined(driver: Driver, rng: Random, turn: int) -> None:
    for _ in range(rng.randint(1, 6)):
        driver.put("Orders", rng.randrange(2), rng.choice((40, 40, 40, 300)))
    driver.turn()
    _flush_now_and_then(driver, turn, 5)


def batch(driver: Driver, rng: Random, turn: int) -> None:
    driver.put_batch("Orders", turn % 2, [rng.randint(10, 120) for _ in range(rng.randint(2, 8))])
    if turn % 3 == 0:
        driver.put("Orders", 1)
    driver.turn()
    _flush_now_and_then(driver, turn, 5)


def many_queues(driver: Driver, rng: Random, turn: int) -> None:
    for _ in range(3):
        driver.put(rng.choice(("Orders", "Bills", "Goods")), rng.randrange(4), rng.randint(10, 200))
    driver.turn()
    _flush_now_and_then(driver, turn, 4)


def roll_log(driver: Driver, rng: Random, turn: int) -> None:
    driver.put("Orders", turn % 2, rng.randint(900, 3500))
    driver.turn()
    _flush_now_and_then(driver, turn, 7)


def roll_queue(driver: Driver, rng: Random, turn: int) -> None:
    driver.put_batch("Orders", 0, [rng.randint(10, 30) for _ in range(rng.randint(3, 9))])
    driver.turn()
    _flush_now_and_then(driver, turn, 4)


def delayed(driver: Driver, rng: Random, turn: int) -> None:
    driver.put("Orders", turn % 2, 60, delay=rng.choice((0, 1, 2)))
    driver.turn()
    if turn % 3 == 2:
        driver.deliver()
    if turn % 5 == 4:
        driver.save()
    _flush_now_and_then(driver, turn, 6)


def offsets(driver: Driver, rng: Random, turn: int) -> None:
    for _ in range(2):
        driver.put("Orders", rng.randrange(2), rng.randint(10, 100))
    driver.turn()
    driver.commit_offset("Orders", turn % 2)
    if turn % 2:
        driver.save()
    _flush_now_and_then(driver, turn, 6)


def topics(driver: Driver, rng: Random, turn: int) -> None:
    name = f"Topic{turn % 3}"
    if turn % 7 == 0:
        driver.create_topic(name)
        driver.save()
    driver.put(name, rng.randrange(2), rng.randint(10, 150))
    driver.put("Orders", 0)
    driver.turn()
    driver.commit_offset(name, 0)
    if turn % 6 == 5:
        driver.delete_topic(f"Topic{rng.randrange(3)}")
        driver.save()
    _flush_now_and_then(driver, turn, 4)


def restarts(driver: Driver, rng: Random, turn: int) -> None:
    pipelined(driver, rng, turn)
    driver.commit_offset("Orders", 0)
    if turn % 8 == 7:
        driver.reopen(kill=bool(turn % 16 == 7))


def cleaned(driver: Driver, rng: Random, turn: int) -> None:
    driver.put("Orders", turn % 2, rng.randint(300, 1500))
    driver.put("Bills", 0, rng.randint(10, 100))
    driver.turn()
    _flush_now_and_then(driver, turn, 4)
    if turn % 4 == 3:
        driver.clean()


STEPS = (single, pipelined, batch, many_queues, roll_log, roll_queue, delayed, offsets, topics, restarts)


POOLED = ("pipelined-async-1", "batch-async-1")
"""These write to buffers outside the page cache first."""
WRITE_TABLES = (delayed, offsets, topics, restarts)


def _flush_now_and_then(driver: Driver, turn: int, every: int) -> None:
    """What the services do by the clock."""
    if turn % every == every - 1:
        driver.flush()
    elif turn % every == every // 2 and not driver.sync:
        driver.flush_log()


def _workloads() -> Iterator[Workload]:
    for seed in range(2):
        for step in STEPS if seed == 0 else (cleaned, *STEPS[1:]):
            for mode in ("SYNC_FLUSH", "ASYNC_FLUSH"):
                settings: tuple[tuple[str, object], ...] = (("flush_disk_type", mode),)
                name = f"{step.__name__}-{mode[:-6].lower()}-{seed}"
                if name in POOLED:
                    settings += (("transient_store_pool_enable", True), ("transient_store_pool_size", 3))
                yield Workload(name, step, settings, seed)


WORKLOADS = tuple(_workloads())


def play(workload: Workload, driver: Driver, length: int = LENGTH) -> None:
    """Do what the workload does, for so many operations of the disk."""
    while driver.now < length and driver.turns < length:
        clock = CLOCK + driver.turns * 700
        driver.turns += 1
        with wall_clock(lambda clock=clock: clock):
            workload.step(driver, driver.rng, driver.turns - 1)


@lru_cache(maxsize=64)
def recording(index: int) -> Recording:
    """What one of the workloads does when nothing fails; made once a process."""
    workload = WORKLOADS[index]
    disk = SimDisk()
    disk.record()
    with wall_clock(lambda: CLOCK):
        driver = Driver(disk, workload.config(), rng=Random(workload.name))
    play(workload, driver)
    return Recording(workload, disk, driver.sent, driver.saves, driver.visible)
