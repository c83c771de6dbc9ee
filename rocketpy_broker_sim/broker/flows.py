"""Flows: what topics and queues received, and what groups received from them, over the last minute, hour and day.

Counting takes a look-up in a table and a few additions, by queue. Every ten seconds, a service adds the counts to the
flows of queues, topics and groups; in an idle broker it sleeps. In memory only, and bounded. Plays the part of
BrokerStatsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from rocketpy_broker_sim.broker.flow import Amount, Flow
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.tables.topics import TopicTable

__all__ = ["Flows"]

EVERY = 10.0
"""Seconds after which counts are added to the flows."""
MOST_COUNTED = 16_384
"""Queues that are counted separately in that time. For further queues, only topics and groups are counted."""
MOST_KEPT = 24_000
"""Flows that are kept: about 35 MB. The flows of the topics that were idle for longest are dropped first."""
_NO_QUEUE = -1
_KEYS_A_STEP = 16

_Key = tuple[Any, ...]
_Counts = dict[Any, list[float]]
"""Messages, bytes, calls and seconds by queue, or by queue and group."""


class Flows:
    """The flows of one broker.

    Args:
        clock: the loop's clock, in seconds.
        topics: the existing topics; counts of others are dropped.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        topics: TopicTable,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._puts: _Counts = {}
        self._gets: _Counts = {}
        self._backs: _Counts = {}
        self._pending: list[tuple[str, _Counts]] = []
        """Counts that are being added to the flows."""
        self._kept: dict[str, dict[_Key, Flow]] = {}
        """By topic, then by direction, queue and group. The topic that was active last is the last one."""
        self._number = 0
        self._whole: dict[tuple[str, bool], Flow] = {}
        """By direction: the flows of all topics, and those of user topics only."""
        self._woken = trio.Event()

    def __len__(self) -> int:
        """The number of flows that are kept."""
        return self._number

    # --- counting --------------------------------------------------------------------------------------

    def note_put(self, key: tuple[str, int], count: int, size: int, seconds: float) -> None:
        """Count messages that can be read now. Every turn that stores messages calls this.

        Args:
            key: topic and queue.
            count: the number of messages.
            size: bytes of their records.
            seconds: the time that storing each message took.
        """
        counted = self._puts.get(key)
        if counted is None:
            counted = self._begin(self._puts, key, (key[0], _NO_QUEUE))
        counted[0] += count
        counted[1] += size
        counted[3] += count * seconds

    def note_get(self, key: tuple[str, int, str], count: int, size: int, seconds: float) -> None:
        """Count a pull that was answered with messages.

        Args:
            key: topic, queue and group.
            count: the number of messages.
            size: bytes of their records.
            seconds: the time that reading them took.
        """
        counted = self._gets.get(key)
        if counted is None:
            counted = self._begin(self._gets, key, (key[0], _NO_QUEUE, key[2]))
        counted[0] += count
        counted[1] += size
        counted[2] += 1
        counted[3] += seconds

    def note_back(self, topic: str, group: str) -> None:
        """Count a message that a group sent back."""
        if topic in self._topics:  # the topic is what the message says
            counted = self._begin(self._backs, (topic, group), (topic, group))
            counted[0] += 1
            counted[2] += 1

    def _begin(self, table: _Counts, key: _Key, without_queue: _Key) -> list[float]:
        """Return the sums of a key, and create them if there are none yet."""
        self._woken.set()
        return table.setdefault(without_queue if len(table) >= MOST_COUNTED else key, [0, 0, 0, 0.0])

    # --- adding up -------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Add counts to the flows, until cancelled.

        Counts from before are dropped: they are of records that the start found in the log.
        """
        self._puts, self._woken = {}, trio.Event()
        while True:
            await self._woken.wait()
            await trio.sleep(EVERY)
            self._woken = trio.Event()
            await in_slices(self.add_steps())

    def add_steps(self) -> Generator[None, None, None]:
        """Add all counts to the flows, in steps. A later call continues where an abandoned one stopped."""
        for way, table in (("put", self._puts), ("get", self._gets), ("back", self._backs)):
            if table:
                self._pending.append((way, table))
        self._puts, self._gets, self._backs = {}, {}, {}
        now, done = self._clock(), 0
        while self._pending:
            way, table = self._pending[-1]
            if not table:
                self._pending.remove((way, table))
                continue
            key, counted = table.popitem()
            number, size, calls, seconds = counted
            calls = number if way == "put" else calls
            self._add(now, way, key, Amount(int(number), int(size), int(calls), int(seconds * 1e6)))
            done += 1
            if done % _KEYS_A_STEP == 0:
                yield

    def _add(self, now: float, way: str, key: _Key, amount: Amount) -> None:
        topic, *rest = key
        if topic not in self._topics:
            return
        if way != "back":
            for of_users in (False,) if self._topics.is_system(topic) else (False, True):
                self._whole.setdefault((way, of_users), Flow(now)).add(now, amount)
        if way == "put":
            keys: list[_Key] = [("put",), ("put", rest[0])]
        elif way == "get":
            keys = [("get", rest[1]), ("get", rest[0], rest[1])]
        else:
            keys = [("back", rest[0])]
        self._add_to(now, topic, [each for each in keys if _NO_QUEUE not in each], amount)

    def _add_to(self, now: float, topic: str, keys: Sequence[_Key], amount: Amount) -> None:
        flows = self._kept.pop(topic, {})
        for key in keys:
            flow = flows.get(key)
            if flow is None:
                while self._number >= MOST_KEPT and self._kept:
                    self.forget(next(iter(self._kept)))
                if self._number >= MOST_KEPT:
                    continue
                flow = flows[key] = Flow(now)
                self._number += 1
            flow.add(now, amount)
        if flows:
            self._kept[topic] = flows

    def kept_among(self, topics: Iterable[str]) -> set[str]:
        """The topics among these that have flows, found in one call into C: thousands may be made at once."""
        return self._kept.keys() & topics

    def forget(self, topic: str) -> None:
        """Drop the flows of a topic."""
        self._number -= len(self._kept.pop(topic, ()))

    def forget_group_steps(self, group: str) -> Generator[None, None, None]:
        """Drop the flows of a group, in steps."""
        for topic in list(self._kept):
            flows = self._kept.get(topic, {})
            gone = [key for key in flows if key[0] != "put" and key[-1] == group]
            for key in gone:
                del flows[key]
            self._number -= len(gone)
            if not flows:
                self._kept.pop(topic, None)
            yield

    # --- asking ----------------------------------------------------------------------------------------

    def whole(self, way: str, *, of_users: bool = False) -> Flow | None:
        """The flow of all topics, or of user topics only, for "put" or "get". None if nothing was counted yet."""
        return self._whole.get((way, of_users))

    def of_topic(self, topic: str, *key: object) -> Flow | None:
        """A flow of a topic, without counts that are not added yet. None if there is no such flow.

        Args:
            topic: the topic.
            key: "put"; "put" and a queue; "get" and a group; "get", a queue and a group; or "back" and a group.
        """
        return self._kept.get(topic, {}).get(key)

    def topics(self) -> list[str]:
        """The topics that have flows."""
        return list(self._kept)

    def of(self, topic: str) -> list[tuple[_Key, Flow]]:
        """The flows of a topic with their keys; the first part of a key is the direction."""
        return list(self._kept.get(topic, {}).items())
