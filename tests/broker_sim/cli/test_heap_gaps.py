"""Memory that a flood has left in gaps of the heap is given back to the system."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy_broker_sim.cli.heap_gaps import WORTH_GIVING_BACK, give_gaps_back, heap_of_this_process

MIB = 1024 * 1024
BLOCK = 100_000
"""Bytes; less than what glibc takes from the system as a mapping of its own."""
KEPT = 600
"""Bytes; more than what Python keeps in arenas of its own."""


class FakeHeap:
    """So many MiB in all, so many of them free; counts how often it was gone through and given back."""

    def __init__(self) -> None:
        self.size = 40
        self.free = 0
        self.looks = 0
        self.trims = 0

    def resident(self) -> int:
        return self.size * MIB

    def gaps(self) -> int:
        self.looks += 1
        return self.free * MIB

    def trim(self) -> None:
        self.trims += 1


@pytest.fixture
async def heap(nursery: trio.Nursery) -> FakeHeap:
    """One that is watched."""
    watched = FakeHeap()
    nursery.start_soon(give_gaps_back, watched)
    await trio.testing.wait_all_tasks_blocked()
    return watched


async def test_gaps_are_given_back_once(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 200, 150
    await trio.sleep(1.5)
    assert heap.trims == 1
    heap.size = 60
    await trio.sleep(100)
    assert heap.trims == 1


async def test_gaps_that_were_used_meanwhile_are_given_back_again(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 200, 150
    await trio.sleep(1.5)
    heap.free = 10
    await trio.sleep(1)
    heap.free = 100
    await trio.sleep(1)
    assert heap.trims == 2


async def test_memory_in_use_is_left_alone(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 500, WORTH_GIVING_BACK // MIB - 1
    await trio.sleep(10.5)
    assert (heap.trims, heap.looks) == (0, 10)


async def test_a_small_server_goes_through_no_gaps(autojump_clock: MockClock, heap: FakeHeap) -> None:
    heap.size, heap.free = 71, 64
    await trio.sleep(100)
    assert (heap.trims, heap.looks) == (0, 0)


async def test_without_a_way_to_ask_nothing_is_done() -> None:
    await give_gaps_back(None)


def test_the_c_library_gives_gaps_back() -> None:
    heap = heap_of_this_process()
    if heap is None:
        pytest.skip("only glibc says what is free in its heap, and gives it back")
    large, kept = [], []
    for _ in range(64 * MIB // BLOCK):
        large.append(b"\1" * BLOCK)
        kept.append(b"\1" * KEPT)
    gaps, resident = heap.gaps(), heap.resident()
    large.clear()
    assert heap.gaps() - gaps > 48 * MIB
    heap.trim()
    assert resident - heap.resident() > 48 * MIB
    assert len(set(kept)) == 1
