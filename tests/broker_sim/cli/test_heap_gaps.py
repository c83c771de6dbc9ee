"""Memory in gaps of the heap, which a flood has left, is returned to the system."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy_broker_sim.cli import heap_gaps
from rocketpy_broker_sim.cli.heap_gaps import WORTH_GIVING_BACK, give_gaps_back, heap_of_this_process

MIB = 1024 * 1024
PROGRAM = """
from rocketpy_broker_sim.cli.heap_gaps import heap_of_this_process

heap = heap_of_this_process()
large, kept = [], []
for _ in range(64 * 1024 * 1024 // 100_000):
    large.append(b"\\1" * 100_000)  # less than what glibc takes from the system as a mapping of its own
    kept.append(bytes(600))  # more than what Python keeps in arenas of its own; a product would be one constant
gaps, resident = heap.gaps(), heap.resident()
large.clear()
found = heap.gaps() - gaps
heap.trim()
print(found, resident - heap.resident())
"""
"""Leaves gaps of 64 MB, and prints how many bytes are found and returned."""


class FakeHeap:
    """A heap with its resident size and its gaps in MiB, which counts calls."""

    def __init__(self) -> None:
        self.size = 40
        self.free = 0
        self.looks = 0
        self.trims = 0
        self.on_look: Callable[[], object] = lambda: None

    def resident(self) -> int:
        return self.size * MIB

    def gaps(self) -> int:
        self.looks += 1
        self.on_look()
        return self.free * MIB

    def trim(self) -> None:
        self.trims += 1
        self.size -= self.free


@pytest.fixture
async def heap(nursery: trio.Nursery) -> FakeHeap:
    """A heap that `give_gaps_back` watches."""
    watched = FakeHeap()
    nursery.start_soon(give_gaps_back, watched)
    await trio.testing.wait_all_tasks_blocked()
    return watched


async def test_gaps_are_given_back_once(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 200, 150
    await trio.sleep(1.5)
    assert (heap.trims, heap.size) == (1, 50)
    await trio.sleep(100)
    assert heap.trims == 1


async def test_what_is_left_after_a_look_in_the_midst_is_given_back(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 200, 10
    await trio.sleep(1.5)
    assert (heap.trims, heap.size) == (1, 190)
    heap.free = 100
    await trio.sleep(1)
    assert (heap.trims, heap.size) == (2, 90)


async def test_gaps_that_were_used_between_two_looks_are_given_back_again(
    autojump_clock: MockClock, heap: FakeHeap
) -> None:
    heap.size, heap.free = 200, 150
    await trio.sleep(1.5)
    heap.size += 10  # the same gaps, which were used and freed again
    await trio.sleep(1)
    assert heap.trims == 2


async def test_memory_in_use_is_left_alone(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 500, WORTH_GIVING_BACK // MIB - 1
    await trio.sleep(10.5)
    assert (heap.trims, heap.looks) == (0, 10)


async def test_a_heap_in_many_pieces_is_looked_at_less_often(
    autojump_clock: MockClock, heap: FakeHeap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap_gaps.time, "thread_time", lambda: 0.05 * heap.looks)
    heap.size = 500
    await trio.sleep(50)
    assert heap.looks == 10


async def test_a_look_that_takes_long_since_others_run_puts_the_next_one_off_for_no_longer(
    autojump_clock: MockClock, heap: FakeHeap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap_gaps.time, "thread_time", lambda: 0.0)
    heap.size, heap.on_look = 500, lambda: autojump_clock.jump(0.5)
    await trio.sleep(30.2)
    assert heap.looks == 20


async def test_a_small_server_goes_through_no_gaps(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 47, 40
    await trio.sleep(100)
    assert (heap.trims, heap.looks) == (0, 0)


async def test_without_a_way_to_ask_nothing_is_done() -> None:
    await give_gaps_back(None)


def test_the_c_library_gives_gaps_back() -> None:
    if heap_of_this_process() is None:
        pytest.skip("only glibc can report and return gaps of its heap")
    # In a process of its own, because the heap of this one already has gaps of all sizes.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found, given_back = map(int, done.stdout.split())
    assert found > 32 * MIB
    assert given_back > 32 * MIB
