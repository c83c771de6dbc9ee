"""Reading ahead for consumers that lag: while one answer is on its way, the system fetches what the next one needs.

A record that is not in memory is read from the disk when it is touched, and until then the whole broker stands still,
record by record. What is asked for ahead comes while others are served, all of it at once.
It is advice only: nothing waits for it, and nothing depends on it.
Java leaves this to the operating system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue

__all__ = ["BACKLOG", "Prefetch"]

BACKLOG = 64 * 1024 * 1024
"""Who reads closer to the end of the log reads what was just written, and that is in memory."""
NEAR = 128 * 1024
"""Records with no more than this between them are fetched as one part, as the system would read anyway."""
MOST_RECORDS = 64


class Prefetch:
    """Asks for the records that the next read of a queue will want."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log

    def begin(self, queue: ConsumeQueue, offset: int, count: int) -> None:
        """Let the system begin to fetch up to `count` messages of a queue from `offset` on."""
        for begin, end in self._parts(queue, offset, min(count, MOST_RECORDS)):
            self._log.fetch(begin, end)

    def _parts(self, queue: ConsumeQueue, offset: int, count: int) -> Iterator[tuple[int, int]]:
        """Where they stand, with neighbours joined."""
        begin = end = 0
        for position, size, _ in queue.units(offset, count):
            if end and not 0 <= position - end <= NEAR:
                yield begin, end
                end = 0
            if not end:
                begin = position
            end = position + size
        if end:
            yield begin, end
