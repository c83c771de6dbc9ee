"""Readers: the one place that hands messages which can be read now to those who wait for them.

A turn returns what has arrived as values; the lanes hand it out here, and run the held requests again that come back.
Plays the part of MessageArrivingListener and of its implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.held_requests.waiter_index import Waiter
    from rocketpy_broker_sim.broker.held_requests.waiters import Waiters
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Hear", "Readers"]

Hear = Callable[["Arrival"], object]
"""Called with every arrival; plain, and quick."""


class Readers:
    """All who wait for messages at one broker.

    Args:
        hear: called with every arrival, in this order.
        waiters: the held requests; None when there are none.
    """

    def __init__(self, hear: Iterable[Hear] = (), waiters: Waiters | None = None) -> None:
        self._hear = tuple(hear)
        self._waiters = waiters

    def arrived(self, arrivals: Sequence[Arrival]) -> list[Waiter]:
        """Hand arrivals out. Returns the held requests that are to be run again for them now."""
        due: list[Waiter] = []
        waiters = self._waiters
        for arrival in arrivals:
            for hear in self._hear:
                hear(arrival)
            if waiters is not None:
                due += waiters.arrived(arrival)
        return due
