"""Turns what options say about starts and ends into offsets of the queues that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rocketpy.errors import ConfigError
from rocketpy.spark.source.positions import AtOffsets, AtTime, Committed, Edge

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.offsets import Offsets
    from rocketpy.spark.source.positions import Position

__all__ = ["Bounds", "Searching", "ends", "starts"]

Bounds: TypeAlias = "Mapping[MessageQueue, tuple[int, int]]"
"""The offsets of the oldest and of the next message, by queue."""


class Searching(Protocol):
    """What can be asked for offsets by time, and for committed ones."""

    def at_times(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The offset of the first message of each queue that was stored at a time or after it."""

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The committed offset of the group in each queue, None where there is none."""


def starts(position: Position, bounds: Bounds, search: Searching) -> Offsets:
    """Where each queue is to be read from; that may be before its oldest message, or a committed offset beyond its end.

    Raises:
        ConfigError: a queue that was named is not there, an offset is beyond its queue, or no message is as late as a
            time that was given.
    """
    found = _resolved(position, bounds, search)
    if isinstance(position, AtTime) and not position.or_latest:
        _check_all_found(position, found, bounds)
    return found


def ends(position: Position, start: Mapping[MessageQueue, int], bounds: Bounds, search: Searching) -> Offsets:
    """Where each queue is read to; not before its start.

    Raises:
        ConfigError: a queue that was named is not there, or an offset is beyond its queue or before its start.
    """
    found = _resolved(position, bounds, search)
    if isinstance(position, AtOffsets):
        for queue in position.offsets:
            if found[queue] < start[queue]:
                raise ConfigError(
                    f"{queue} cannot be read from offset {start[queue]} to {found[queue]}, which ends before it starts"
                )
    return {queue: max(start[queue], offset) for queue, offset in found.items()}


def _resolved(position: Position, bounds: Bounds, search: Searching) -> Offsets:
    if isinstance(position, Edge):
        return {queue: both[position.is_end] for queue, both in bounds.items()}
    if isinstance(position, AtTime):
        return _by_time(position, bounds, search)
    if isinstance(position, Committed):
        return {
            queue: bounds[queue][position.others.is_end] if offset is None else offset
            for queue, offset in search.committed(bounds).items()
        }
    _check_there(position.option, position.offsets, bounds)
    found: Offsets = {}
    for queue, both in bounds.items():
        wanted = position.at(queue)
        found[queue] = offset = both[wanted.is_end] if isinstance(wanted, Edge) else wanted
        if offset > both[1]:
            raise ConfigError(
                f"{position.option} has offset {offset} for {queue}, which ends at {both[1]}: the largest "
                "possible offset is that of the next message"
            )
    return found


def _by_time(position: AtTime, bounds: Bounds, search: Searching) -> Offsets:
    if not isinstance(position.times, int):
        _check_there(position.option, position.times, bounds)
    times = {queue: time for queue in bounds if (time := position.at(queue)) is not None}
    found = search.at_times(times)
    # Brokers before RocketMQ 5 may name an offset that is not in the queue any more.
    return {
        queue: max(first, min(found[queue], end)) if queue in found else (end if position.others.is_end else first)
        for queue, (first, end) in bounds.items()
    }


def _check_there(option: str, named: Iterable[MessageQueue], bounds: Bounds) -> None:
    for queue in named:
        if queue not in bounds:
            raise ConfigError(f"{option} names {queue}, which is not read; there are {_some(bounds)}")


def _some(queues: Iterable[MessageQueue]) -> str:
    shown = [str(queue) for queue in sorted(queues)]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "") or "no queues"


def _check_all_found(position: AtTime, found: Mapping[MessageQueue, int], bounds: Bounds) -> None:
    late = [queue for queue, offset in found.items() if position.at(queue) is not None and offset >= bounds[queue][1]]
    if late:
        raise ConfigError(
            f"{position.option}: no message was stored at that time or later in {_some(late)}; to start there with the "
            "next message, set startingOffsetsByTimestampStrategy to latest"
        )
