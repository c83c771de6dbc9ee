"""Offsets of queues: how they are written, the ranges between two of them, and how ranges are cut and limited. Pure.

As JSON, offsets are ``{"topic": {"broker": {"0": 23}}}``, each the offset of the next message to read. Names and queues
are sorted, because Spark compares the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

from rocketpy.message import MessageQueue

__all__ = ["OffsetRange", "Offsets", "as_json", "limited", "of_json", "partitioned", "total"]

Offsets: TypeAlias = dict[MessageQueue, int]
Nested: TypeAlias = dict[str, dict[str, dict[str, int]]]


class OffsetRange(NamedTuple):
    """Messages of one queue: those with offsets from `start` on and before `until`."""

    queue: MessageQueue
    """The queue, with its topic and broker."""
    start: int
    """The first offset."""
    until: int
    """The offset after the last one."""

    @property
    def size(self) -> int:
        """How many offsets the range has. It may have fewer messages, because of filters and gaps."""
        return self.until - self.start

    def __str__(self) -> str:
        """Short form for errors and logs."""
        return f"{self.queue} from offset {self.start} to {self.until}"


def as_json(offsets: Mapping[MessageQueue, int]) -> Nested:
    """Offsets as nested dicts, sorted."""
    nested: Nested = {}
    for queue in sorted(offsets):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def of_json(nested: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Offsets:
    """Offsets out of nested dicts that `as_json` made."""
    return {
        MessageQueue(topic, broker, int(number)): offset
        for topic, brokers in nested.items()
        for broker, queues in brokers.items()
        for number, offset in queues.items()
    }


def total(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> int:
    """How many offsets lie between the two; a queue that has gone back counts as nothing."""
    return sum(max(0, until - start.get(queue, until)) for queue, until in end.items())


def limited(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], most: int) -> Offsets:
    """The ends of a batch with `most` offsets at most, shared out by what each queue has.

    Every queue with messages gets at least one, so that none waits behind a larger one. If there are more such queues
    than offsets, the batches take turns.

    Args:
        start: where the batch starts; a queue that is missing here keeps its end.
        end: how far queues reach.
        most: offsets in the batch, at least 1.
    """
    sizes = {queue: end[queue] - start.get(queue, end[queue]) for queue in sorted(end)}
    waiting = [queue for queue, size in sizes.items() if size > 0]
    available = sum(sizes[queue] for queue in waiting)
    if available <= most:
        return dict(end)
    shares = _shares([sizes[queue] for queue in waiting], available, most, turn=sum(start.values()))
    ends = {queue: start[queue] + share for queue, share in zip(waiting, shares, strict=True)}
    return {queue: ends.get(queue, end[queue]) for queue in end}


def _shares(sizes: list[int], available: int, most: int, *, turn: int) -> list[int]:
    """Parts of `most` in proportion to sizes, which sum up to `available`; none is 0 unless there are too many."""
    count = len(sizes)
    if most <= count:
        chosen = {(turn + number) % count for number in range(most)}
        return [int(number in chosen) for number in range(count)]
    spare = most - count  # after one for each
    rest = available - count
    # Differences of rounded sums add up to exactly what there is, and none is beyond the size of its queue.
    bounds = [spare * passed // rest for passed in accumulate((size - 1 for size in sizes), initial=0)]
    return [1 + after - before for before, after in pairwise(bounds)]


def partitioned(
    ranges: Iterable[OffsetRange], *, at_least: int | None = None, most_records: int | None = None
) -> list[OffsetRange]:
    """Cut ranges for tasks. Empty ranges are left out.

    Args:
        ranges: one for each queue.
        at_least: how many parts are wanted; large ranges are cut more often. There may be a few more or fewer.
        most_records: how many offsets a part has at most.
    """
    wanted = [each for each in ranges if each.size > 0]
    if most_records is not None:
        wanted = [part for each in wanted for part in _cut(each, -(-each.size // most_records))]
    if at_least is not None and len(wanted) < at_least:
        available = sum(each.size for each in wanted)
        wanted = [part for each in wanted for part in _cut(each, max(1, round(each.size * at_least / available)))]
    return wanted


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into parts of nearly equal size, as many as it has offsets at most."""
    parts = min(parts, whole.size)
    bounds = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(whole.queue, start, until) for start, until in pairwise(bounds)]
