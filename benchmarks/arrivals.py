"""Counts the messages that have arrived in a topic, at the broker, on connections separate from the sending client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.frames import GET_MAX_OFFSET, Wire, frame, pull_frame, split
from benchmarks.records import Record, decode
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.task import Task

SETTLED = 0.1
"""Seconds without an arrival after which no more messages are expected."""
WITHIN = 30.0
_LOOK = 0.01


def ends(wire: Wire, topic: str, queues: int) -> list[int]:
    """Return the end offset of each queue."""
    asked = [frame(GET_MAX_OFFSET, {"topic": topic, "queueId": queue}) for queue in range(queues)]
    return [int(wire.ask(question)[0]["extFields"]["offset"]) for question in asked]


def stored(wire: Wire, topic: str, queues: int) -> int:
    """Return the number of messages in all queues of a topic."""
    return sum(ends(wire, topic, queues))


def settled(wire: Wire, topic: str, queues: int) -> int:
    """Return that number once it no longer changes."""
    count = -1
    while (now := stored(wire, topic, queues)) != count:
        count = now
        time.sleep(SETTLED)
    return count


def since(wire: Wire, topic: str, begins: list[int], run: str) -> Iterator[Record]:
    """Return all messages of a topic from these offsets on, queue by queue."""
    for queue, (offset, end) in enumerate(zip(begins, ends(wire, topic, len(begins)), strict=True)):
        while offset < end:
            wire.socket.sendall(pull_frame(f"bench_read_{run}", topic, queue, offset))
            (answer,) = wire.read()
            header, body = split(answer)
            records = decode(body) if header["code"] == 0 else []
            if not records:
                raise BenchmarkError(f"queue {queue} of {topic} ends at {end} and cannot be read at {offset}")
            yield from records
            offset = int(header["extFields"]["nextBeginOffset"])


class Arrivals:
    """Counts the messages that have arrived in the topic of a task since this was created.

    Nobody else sends to that topic meanwhile. Each look has a connection of its own, because servers close one that is
    silent for as long as a task can take.
    """

    def __init__(self, task: Task) -> None:
        self._address, self._topic, self._queues = task.broker, task.topic, task.queues
        with Wire(self._address) as wire:
            self._before = settled(wire, self._topic, self._queues)

    def check(self, sent: int) -> None:
        """Wait until as many messages have arrived as were sent.

        Raises:
            BenchmarkError: fewer or more messages have arrived in the end.
        """
        deadline = time.monotonic() + WITHIN
        with Wire(self._address) as wire:
            while (count := self._count(wire)) < sent and time.monotonic() < deadline:
                time.sleep(_LOOK)
        if count != sent:
            raise BenchmarkError(f"{sent} messages were sent to {self._topic}, and {count} have arrived")

    def _count(self, wire: Wire) -> int:
        return stored(wire, self._topic, self._queues) - self._before
