"""Waiting for the turn of a sharding key: in a task, or without one, with a deadline either way.

No class of Java's plays this part.
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
    from rocketpy.client.sends.key_order import Key, KeyOrder, KeyWaiter
    from rocketpy.remoting.timers import Timers

__all__ = ["TrioThread", "Waits", "pass_turn", "take_turn", "too_late_for"]


class TrioThread:
    """The current thread, which runs a trio loop; other threads can have functions called in it."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()

    def call(self, function: Callable[[], object]) -> None:
        """Call a plain function in that thread: now if this is it, otherwise soon.

        Raises:
            trio.RunFinishedError: the loop has ended.
        """
        if threading.get_ident() == self._thread:
            function()
        else:
            self._token.run_sync_soon(function)


class Waits:
    """The deadlines of turns that no task waits for. Lives in the trio thread."""

    def __init__(self, order: KeyOrder, timers: Timers) -> None:
        self._order = order
        self._alarm = Alarm(timers, self._ring)
        self._heap: list[tuple[float, int, KeyWaiter, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def watch(self, waiter: KeyWaiter, deadline: float, too_late: Callable[[], object]) -> None:
        """At the deadline, give up a turn that has not come yet, and call `too_late`."""
        heap = self._heap
        while heap and not heap[0][2].waits:  # its turn has come, so it need not stay until its deadline
            heapq.heappop(heap)
        heapq.heappush(heap, (deadline, next(self._numbers), waiter, too_late))
        self._alarm.set(deadline)

    def _ring(self, now: float) -> float:
        heap = self._heap
        while heap and (heap[0][0] <= now or not heap[0][2].waits):
            _, _, waiter, too_late = heapq.heappop(heap)
            if self._order.leave(waiter):
                too_late()
        return heap[0][0] if heap else math.inf


@trio.lowlevel.enable_ki_protection  # or Ctrl-C may leave a lane that nobody passes on
async def take_turn(order: KeyOrder, key: Key, deadline: float, timeout: float) -> None:
    """Wait in a trio task for the turn of a key. Afterwards the caller holds the key, and must call `pass_turn`.

    A checkpoint only if others send for the key.

    Raises:
        RequestTimeoutError: the turn did not come in time; nothing was sent.
    """
    if order.try_take(key):
        return
    came, home = trio.Event(), TrioThread()
    waiter = order.take(key, lambda: home.call(came.set))
    if waiter is None:
        return
    try:
        with trio.move_on_at(deadline):
            await came.wait()
    except BaseException:
        if not order.leave(waiter):
            order.pass_on(key)
        raise
    if not came.is_set():
        if not order.leave(waiter):
            order.pass_on(key)
        raise too_late_for(key, timeout)


@trio.lowlevel.enable_ki_protection
def pass_turn(order: KeyOrder, key: Key) -> None:
    """Let the next send of a key begin; Ctrl-C strikes before or after it."""
    order.pass_on(key)


def too_late_for(key: Key, timeout: float) -> RequestTimeoutError:
    """Return the error of a send whose turn did not come in time."""
    return unsent(
        RequestTimeoutError(
            f"the sends to {key[0]} with the sharding key {key[1]!r:.100} before this one did not end within "
            f"{rounded(timeout)} s: nothing was sent",
            timeout=timeout,
        )
    )
