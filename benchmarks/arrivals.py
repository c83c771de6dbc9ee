"""What has arrived in a topic: counted at the broker, on a connection of its own, beside the client that sends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.frames import GET_MAX_OFFSET, Wire, frame, pull_frame, split
from benchmarks.records import Record, decode
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.task import Task

SETTLED = 0.1
"""Seconds without an arrival after which no more is expected."""
WITHIN = 30.0
_LOOK = 0.01


def ends(wire: Wire, topic: str, queues: int) -> list[int]:
    """The offset at which each queue ends."""
    asked = [frame(GET_MAX_OFFSET, {"topic": topic, "queueId": queue}) for queue in range(queues)]
    return [int(wire.ask(question)[0]["extFields"]["offset"]) for question in asked]


def stored(wire: Wire, topic: str, queues: int) -> int:
    """Messages in all queues of a topic."""
    return sum(ends(wire, topic, queues))


def settled(wire: Wire, topic: str, queues: int) -> int:
    """The same, once it changes no more."""
    count = -1
    while (now := stored(wire, topic, queues)) != count:
        count = now
        time.sleep(SETTLED)
    return count


def since(wire: Wire, topic: str, begins: list[int], run: str) -> Iterator[Record]:
    """Every message that a topic has from these offsets on, queue by queue."""
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
    """How many messages have arrived since this was made.

    Args:
        wire: The connection to ask on.
        topic: Whose messages are counted; nobody else sends to it meanwhile.
        queues: How many it has.
    """

    def __init__(self, wire: Wire, topic: str, queues: int) -> None:
        self._wire, self._topic, self._queues = wire, topic, queues
        self._before = settled(wire, topic, queues)

    def count(self) -> int:
        """So far."""
        return stored(self._wire, self._topic, self._queues) - self._before

    def check(self, sent: int) -> None:
        """Wait until as many have arrived as were sent.

        Raises:
            BenchmarkError: fewer have arrived in the end, or more.
        """
        deadline = time.monotonic() + WITHIN
        while (count := self.count()) < sent and time.monotonic() < deadline:
            time.sleep(_LOOK)
        if count != sent:
            raise BenchmarkError(f"{sent} messages were sent to {self._topic}, and {count} have arrived")


@contextmanager
def arrivals(task: Task) -> Iterator[Arrivals]:
    """Count in the topic of a task."""
    with Wire(task.broker) as wire:
        yield Arrivals(wire, task.topic, task.queues)
