"""Sends that wait for their turn without a task of their own: what begins them, and what ends them at their deadline.

Plays the part of no class of Java's.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import RequestTimeoutError, rounded, unsent
from rocketpy.remoting.timers import Alarm

if TYPE_CHECKING:
    from rocketpy.client.key_order import Key, KeyOrder, Turn
    from rocketpy.remoting.timers import Timers

__all__ = ["TrioThread", "Waits", "too_late_for", "wait_turn"]


class TrioThread:
    """The thread of the trio loop that runs here, for calls from any other."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()

    def call(self, function: Callable[[], object]) -> None:
        """Call a plain function there: now when this is the thread, else soon.

        Raises:
            trio.RunFinishedError: its loop has ended.
        """
        if threading.get_ident() == self._thread:
            function()
        else:
            self._token.run_sync_soon(function)


class Waits:
    """The deadlines of turns that nobody sits and waits for. Lives in the trio thread."""

    def __init__(self, order: KeyOrder, timers: Timers) -> None:
        self._order = order
        self._alarm = Alarm(timers, self._ring)
        self._heap: list[tuple[float, int, Turn, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def watch(self, turn: Turn, deadline: float, too_late: Callable[[], object]) -> None:
        """Give a turn up at its deadline, and call `too_late` then, unless it has come by that time."""
        heap = self._heap
        while heap and not heap[0][2].waits:  # its turn has come: nothing shall wait here for as long as it might have
            heapq.heappop(heap)
        heapq.heappush(heap, (deadline, next(self._numbers), turn, too_late))
        self._alarm.set(deadline)

    def _ring(self, now: float) -> float:
        heap = self._heap
        while heap and (heap[0][0] <= now or not heap[0][2].waits):
            _, _, turn, too_late = heapq.heappop(heap)
            if self._order.leave(turn):
                too_late()
        return heap[0][0] if heap else math.inf


async def wait_turn(order: KeyOrder, key: Key, deadline: float, timeout: float) -> None:
    """Queue for the lane of a key, in a task of trio's. When it returns the lane is the caller's, to pass on.

    Raises:
        RequestTimeoutError: the turn did not come in time; nothing was sent.
    """
    came, home = trio.Event(), TrioThread()
    turn = order.take(key, lambda: home.call(came.set))
    if turn is None:
        return
    try:
        with trio.move_on_at(deadline):
            await came.wait()
    except BaseException:
        if not order.leave(turn):
            order.pass_on(key)
        raise
    if not came.is_set():
        if not order.leave(turn):
            order.pass_on(key)
        raise too_late_for(key, timeout)


def too_late_for(key: Key, timeout: float) -> RequestTimeoutError:
    """What to tell when a turn did not come in time."""
    return unsent(
        RequestTimeoutError(
            f"the sends to {key[0]} with the sharding key {key[1]!r:.100} before this one did not end within "
            f"{rounded(timeout)} s: nothing was sent",
            timeout=timeout,
        )
    )
