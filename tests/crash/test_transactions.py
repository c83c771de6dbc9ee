"""Power losses and kills during transactions: all promises are kept, and planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from rocketpy_broker_sim.broker.subsystems import transactions
from rocketpy_broker_sim.broker.transactions import ledger
from rocketpy_broker_sim.broker.transactions.checking import CheckService
from rocketpy_broker_sim.broker.transactions.ledger import Ledger
from rocketpy_broker_sim.store.put_result import IncomingMessage
from tests.crash.by_run import by_run
from tests.crash.sim_disk import SimDisk
from tests.crash.test_cleaning import disk_at
from tests.crash.transacted import Recorded, TransactionDriver, near_ends, problems_after, recorded

MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
MOST = 60
"""Points within which a planted bug must be found."""


def chosen(recording: Recorded, points: int) -> list[int]:
    """Half of them around the ends of transactions."""
    rng, near = Random(f"{recording.config.store.flush_disk_type}{points}"), near_ends(recording)
    return sorted({*rng.sample(near, points // 2), *rng.sample(range(20, recording.length), points - points // 2)})


def ways(disk: SimDisk, at: int) -> Iterator[tuple[bool, SimDisk]]:
    """Whether only the process ends, and what is left."""
    yield False, disk.left_none()
    yield False, disk.left_some(Random(at))
    yield True, disk.left_all()


def found(recording: Recorded, points: int) -> Iterator[tuple[int, bool, str]]:
    """What is wrong after each."""
    for at in chosen(recording, points):
        for kill, left in ways(disk_at(recording, at), at):
            yield from ((at, kill, problem) for problem in problems_after(recording, left, at, kill=kill))


@pytest.mark.parametrize("mode", MODES)
def test_TX1_TX2_the_workload_does_enough(mode: str) -> None:
    known = recorded(mode).transactions.values()
    assert len(known) > 50
    ends = [at_once for each in known for _, at_once in each.ends]
    assert min(ends.count(True), ends.count(False)) > 20
    assert sum(len(each.places) > 1 for each in known) > 20
    assert sum(not each.ends for each in known) > 1
    assert {each.verdict for each in known} >= {8, 12}


@pytest.mark.slow
@pytest.mark.parametrize("points", by_run(12, 100, 300))
@pytest.mark.parametrize("mode", MODES)
def test_TX1_TX2_TX3_no_crash_breaks_a_promise_to_a_producer(mode: str, points: int) -> None:
    assert list(found(recorded(mode), points)) == []


# --- tests of the tests ----------------------------------------------------------------------------------


def tell_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    end = Ledger.end
    patch.setattr(Ledger, "end", lambda *args, at_once: end(*args))


def forget_the_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions, "op_messages", lambda store, first: iter(()))


def forget_what_has_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CheckService, "find_copies", lambda self: iter(()))


def note_before_it_is_on_the_disk(patch: pytest.MonkeyPatch) -> None:
    async def flush(self: TransactionDriver) -> None:
        """Not at all."""

    patch.setattr(TransactionDriver, "_flush_checks", flush)


def end_the_next_one(patch: pytest.MonkeyPatch) -> None:
    right = ledger.op_message

    def wrong(offsets: list[int], *rest: int | bytes) -> IncomingMessage:
        return partial(right, [offset + 1 for offset in offsets])(*rest)  # type: ignore[arg-type]

    patch.setattr(ledger, "op_message", wrong)


Plant = Callable[[pytest.MonkeyPatch], None]
BUGS: list[tuple[Plant, str]] = [
    (tell_before_it_is_written, "asked about, though it was said that it has ended"),
    (forget_the_ends, "asked about, though it was said that it has ended"),
    (forget_what_has_copies, "2 half messages stand for it"),
    (note_before_it_is_on_the_disk, "gone without a trace"),
    (end_the_next_one, "gone without a trace"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "what"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_TX1_TX2_a_planted_bug_is_found(plant: Plant, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    recorded.cache_clear()
    try:
        assert any(what in problem for mode in MODES for _, _, problem in found(recorded(mode), MOST))
    finally:
        recorded.cache_clear()
