"""Tests of the test: bugs that are planted one by one are found within a few hundred points."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue
from rocketpy_broker_sim.store.log.commit_log import CommitLog
from rocketpy_broker_sim.store.log.scan import RecordCheck
from rocketpy_broker_sim.store.read_check import ReadCheck
from rocketpy_broker_sim.store.recovery import Recovery
from tests.crash.runner import Count, forget_recordings, plan, run_job
from tests.crash.sim_disk import SimDisk

MOST = 500
"""Points within which a planted bug must be found."""


@pytest.fixture(autouse=True)
def _own_recordings():
    """What was recorded with a bug is of no use to others."""
    forget_recordings()
    yield
    forget_recordings()


def search(kind: str) -> Count:
    """Points of a class until one breaks a promise."""
    found = Count()
    jobs = plan(2500, 11, [kind])
    Random(1).shuffle(jobs)
    for job in jobs:
        found.add(run_job(job))
        if found.violations or found.points > MOST:
            break
    return found


def acknowledge_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    def flush(self: CommitLog) -> None:
        self.flushed = self.written[0]

    patch.setattr(CommitLog, "flush", flush)


def forget_the_folder_when_the_log_rolls(patch: pytest.MonkeyPatch) -> None:
    sync = SimDisk.sync_dir
    patch.setattr(SimDisk, "sync_dir", lambda self, path: None if path == "commitlog" else sync(self, path))


def trust_the_checksum_of_the_body_alone(patch: pytest.MonkeyPatch) -> None:
    init = RecordCheck.__init__

    def without(self: RecordCheck, config: object, sealed_from: int | None = None) -> None:
        init(self, config, None)  # type: ignore[arg-type]
        self._check_property = False

    patch.setattr(RecordCheck, "__init__", without)


def leave_the_tail_as_it_is(patch: pytest.MonkeyPatch) -> None:
    def cut(self: MappedFileQueue, position: int, *, keep_first: bool = False) -> bool:
        kept = tuple(file for file in self.files if file.start < position)
        for file in self.files[len(kept) :]:
            file.delete()
        self.files = kept
        return True

    patch.setattr(MappedFileQueue, "cut", cut)


def leave_offsets_behind_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerOffsetTable, "clamp", lambda self, end: None)


def forget_the_folders_of_the_store(patch: pytest.MonkeyPatch) -> None:
    sync = SimDisk.sync_dir
    patch.setattr(SimDisk, "sync_dir", lambda self, path: None if path == "" else sync(self, path))


def trust_what_a_failed_flush_gave_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MappedFileQueue, "write_again", lambda self, begin, end: None)


def read_old_messages_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReadCheck, "sound", lambda *arguments: None)


def cut_every_damage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_judge_damage", lambda *arguments: None)


def count_no_units(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_check_units", lambda *arguments: None)


def begin_by_time(patch: pytest.MonkeyPatch) -> None:
    """Everything that was ever dispatched is taken for safe, as a checkpoint by times may say."""
    patch.setattr(Recovery, "_begin_after_crash", lambda self: self._start_of_file(self._units_end))


BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (acknowledge_before_the_flush, "T1"),
    (forget_the_folder_when_the_log_rolls, "T1"),
    (trust_the_checksum_of_the_body_alone, "T3"),
    (leave_the_tail_as_it_is, "T7"),
    (leave_offsets_behind_the_end, "T3"),
    (forget_the_folders_of_the_store, "T1"),
    (trust_what_a_failed_flush_gave_up, "T9"),
    (read_old_messages_unseen, "T10"),
    (cut_every_damage, "T10"),
    (count_no_units, "T4"),
    (begin_by_time, "T3"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "kind"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], kind: str, monkeypatch) -> None:
    plant(monkeypatch)
    found = search(kind)
    assert found.violations, f"{plant.__name__} was not found in {found.points} points"
    assert found.points <= MOST + 100
