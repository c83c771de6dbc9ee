"""Waiting until the name servers have heard of a topic, so that the sender of its first message finds it there.

Nobody waits for longer than `HEARD_WITHIN`, and nobody waits for a name server that does not have the broker. Plays the
part of the registration that Apache's broker makes within createTopicInSendMessageMethod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flushing.gate import Hear

__all__ = ["HEARD_WITHIN", "FirstHearings", "Hearing", "Hearings"]

HEARD_WITHIN = 0.5
"""Seconds after which those who wait go on all the same."""


class Hearing:
    """One who waits.

    Attributes:
        left: How many name servers have not heard yet.
        done: Called once, when all have or none is waited for any more.
    """

    __slots__ = ("done", "left")

    def __init__(self, left: int, done: Callable[[], object]) -> None:
        self.left = left
        self.done: Callable[[], object] | None = done

    def told(self) -> None:
        """One name server has heard, or is not waited for any more."""
        self.left -= 1
        if self.left <= 0:
            self.end()

    def end(self) -> None:
        """Wait no more."""
        done, self.done = self.done, None
        if done is not None:
            done()


class Hearings:
    """All who wait, in the order in which their time is over."""

    def __init__(self) -> None:
        self._due: deque[tuple[float, Hearing]] = deque()
        self._begun = trio.Event()

    def add(self, count: int, done: Callable[[], object]) -> Hearing:
        """Wait for so many name servers."""
        hearing = Hearing(count, done)
        self._due.append((trio.current_time() + HEARD_WITHIN, hearing))
        self._begun.set()
        return hearing

    async def serve(self) -> None:
        """End those whose time is over, until cancelled."""
        while True:
            await self._begun.wait()
            while self._due:
                when, hearing = self._due[0]
                await trio.sleep_until(when)
                if self._due and self._due[0][1] is hearing:
                    self._due.popleft()
                    hearing.end()
            self._begun = trio.Event()

    def end_all(self) -> None:
        """Nobody waits any more: the broker stops."""
        while self._due:
            self._due.popleft()[1].end()


class FirstHearings:
    """Those who wait for a new topic together: who made it, and who found it before the name servers had heard of it.

    Args:
        hear: tells of topics that the name servers have heard of.
    """

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._waiting: dict[str, list[Callable[[], object]]] = {}

    def made(self, topic: str, done: Callable[[], object]) -> None:
        """Call `done` once the name servers have heard of a topic that was made just now."""
        waiting = [done]
        self._waiting[topic] = waiting
        self._hear(topic, partial(self._heard, topic, waiting))

    def join(self, topic: str, done: Callable[[], object]) -> bool:
        """Call `done` with those who wait for a topic. False when nobody does."""
        waiting = self._waiting.get(topic)
        if waiting is None:
            return False
        waiting.append(done)
        return True

    def _heard(self, topic: str, waiting: list[Callable[[], object]]) -> None:
        if self._waiting.get(topic) is waiting:  # it may have been deleted and made again meanwhile
            del self._waiting[topic]
        for done in waiting:
            done()
