"""Tests of the tests of filters: bugs that are planted one by one in the extension of consume queues are found.

With the extension as it is, no crash leaves a unit whose entry is lost: entries are flushed before units, and units
that no checkpoint vouches for are made again, with new entries. A lost entry is survived all the same: its message is
looked at in the log, and the next entries begin in a file of their own. That shows only on a disk that lies about
flushes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
from rocketpy_broker_sim.store.queue.consume_queue_ext import ConsumeQueueExt
from tests.crash.filtered import damaged_extension, near_extension, problems_after, recorded
from tests.crash.test_cleaning import disk_at

MOST = 40
"""Points within which a planted bug must be found."""
MODES = ("SYNC_FLUSH", "ASYNC_FLUSH")


@pytest.fixture(autouse=True)
def _own_recordings() -> Iterator[None]:
    """What was recorded with a bug is of no use to others."""
    recorded.cache_clear()
    yield
    recorded.cache_clear()


def after_power_losses() -> Iterator[list[str]]:
    """What is wrong after each."""
    for mode in MODES:
        recording = recorded(mode)
        for at in Random(mode).choices(near_extension(recording), k=MOST // 2):
            yield problems_after(recording, disk_at(recording, at).left_some(Random(at)))


def after_lies() -> Iterator[list[str]]:
    """What is wrong after kills, when entries are lost that had been flushed."""
    recording, rng = recorded("ASYNC_FLUSH"), Random(1)
    for number in range(MOST):
        disk = disk_at(recording, rng.randrange(recording.length // 3, recording.length)).left_all()
        damaged_extension(disk, ("lost", "zeros")[number % 2], rng)
        yield problems_after(recording, disk, flushes_hold=False)


def flush_no_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumeQueueExt, "flush", lambda self: None)


def forget_where_entries_end(patch: pytest.MonkeyPatch) -> None:
    """After each start, the next entry goes to the beginning."""
    patch.setattr(ConsumeQueue, "_settle_ext", lambda self: False)


def begin_at_the_same_address_again(patch: pytest.MonkeyPatch) -> None:
    """Where the last entry is lost, the next ones take the addresses to which units lead that are there already."""
    settle = ConsumeQueueExt.settle

    def without(self: ConsumeQueueExt, address: int | None) -> bool:
        lost = address is not None and self.get(address) is None
        return settle(self, None if lost else address)

    patch.setattr(ConsumeQueueExt, "settle", without)


Plant = Callable[[pytest.MonkeyPatch], None]
Search = Callable[[], Iterator[list[str]]]
BUGS: list[tuple[Plant, Search, str]] = [
    (flush_no_entries, after_power_losses, "the entry is lost"),
    (forget_where_entries_end, after_power_losses, "the entry is that of another message"),
    (begin_at_the_same_address_again, after_lies, "missing"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "search", "found"), BUGS, ids=[plant.__name__ for plant, _, _ in BUGS])
def test_F6_a_bug_planted_in_the_extension_is_found(
    plant: Plant, search: Search, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(found in problem for problems in search() for problem in problems)


@pytest.mark.slow
@pytest.mark.parametrize("search", [after_power_losses, after_lies])
def test_F6_nothing_is_found_where_nothing_is_planted(search: Search) -> None:
    assert [problems for problems in search() if problems] == []


@pytest.mark.slow
def test_F6_readers_miss_nothing_of_entries_that_were_never_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter lets through what it knows nothing of, and looks at the message in the log."""
    flush_no_entries(monkeypatch)
    problems = [each for mode in MODES for each in _without_entries(mode)]
    assert len(problems) > MOST
    assert {each.rpartition(": ")[2] for each in problems} == {"the entry is lost"}


def _without_entries(mode: str) -> Iterator[str]:
    recording = recorded(mode)
    for at in near_extension(recording):
        yield from problems_after(recording, disk_at(recording, at).left_none())
