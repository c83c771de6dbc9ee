"""Waiting until the name servers know a new topic, so that the sender of its first message finds it there.

Nobody waits for longer than `ANNOUNCED_WITHIN`, and nobody waits for a name server that does not have the broker. Plays
the part of the registration that Apache's broker makes within createTopicInSendMessageMethod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import trio

__all__ = ["ANNOUNCED_WITHIN", "Announce", "AnnouncementWait", "AnnouncementWaits", "NewTopics"]

Announce = Callable[[str, Callable[[], object]], object]
"""Calls a function once the name servers know a topic, or shortly after all the same."""
ANNOUNCED_WITHIN = 0.5
"""Seconds after which those who wait go on all the same."""


class AnnouncementWait:
    """A wait for one topic.

    Attributes:
        left: How many name servers do not know it yet.
        done: Called once, when all know it or none is waited for any more.
    """

    __slots__ = ("done", "left")

    def __init__(self, left: int, done: Callable[[], object]) -> None:
        self.left = left
        self.done: Callable[[], object] | None = done

    def note_one(self) -> None:
        """One name server knows it, or is not waited for any more."""
        self.left -= 1
        if self.left <= 0:
            self.end()

    def end(self) -> None:
        """Wait no more."""
        done, self.done = self.done, None
        if done is not None:
            done()


class AnnouncementWaits:
    """All waits, in the order in which their time is over."""

    def __init__(self) -> None:
        self._due: deque[tuple[float, AnnouncementWait]] = deque()
        self._begun = trio.Event()

    def add(self, count: int, done: Callable[[], object]) -> AnnouncementWait:
        """Wait for so many name servers."""
        wait = AnnouncementWait(count, done)
        self._due.append((trio.current_time() + ANNOUNCED_WITHIN, wait))
        self._begun.set()
        return wait

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """End those whose time is over, until cancelled."""
        while True:
            await self._begun.wait()
            while self._due:
                when, wait = self._due[0]
                await trio.sleep_until(when)
                if self._due and self._due[0][1] is wait:
                    self._due.popleft()
                    wait.end()
            self._begun = trio.Event()

    def end_all(self) -> None:
        """Nobody waits any more: the broker stops."""
        while self._due:
            self._due.popleft()[1].end()


class NewTopics:
    """Topics that the name servers do not know yet: who made one and who found it meanwhile wait together.

    Args:
        announce: calls a function once the name servers know a topic.
    """

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._waiting: dict[str, list[Callable[[], object]]] = {}

    def made(self, topic: str, done: Callable[[], object]) -> None:
        """Call `done` once the name servers know a topic that was made just now."""
        waiting = [done]
        self._waiting[topic] = waiting
        self._announce(topic, partial(self._announced, topic, waiting))

    def join(self, topic: str, done: Callable[[], object]) -> bool:
        """Call `done` with those who wait for a topic. False when nobody does."""
        waiting = self._waiting.get(topic)
        if waiting is None:
            return False
        waiting.append(done)
        return True

    def _announced(self, topic: str, waiting: list[Callable[[], object]]) -> None:
        if self._waiting.get(topic) is waiting:  # it may have been deleted and made again meanwhile
            del self._waiting[topic]
        for done in waiting:
            done()
