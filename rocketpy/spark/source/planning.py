"""Plans a batch read and the batches of a stream: which ranges of which queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.spark.source.loss import lost
from rocketpy.spark.source.offsets import OffsetRange, partitioned
from rocketpy.spark.source.resolving import ends, starts

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.brokers import Brokers
    from rocketpy.spark.source.offsets import Offsets
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["batch_ranges", "first_offsets", "ranges_between", "shared_out"]


def batch_ranges(brokers: Brokers, options: SourceOptions) -> list[OffsetRange]:
    """The ranges of a batch read, one for each queue, empty ones too.

    Raises:
        ConfigError: starts and ends do not fit the queues that there are.
        DataLossError: messages are gone, and that is an error.
        RocketMQError: name servers or brokers do not answer.
    """
    queues = brokers.queues()
    if not queues:
        raise ConfigError("no topic matches subscribePattern")
    bounds = brokers.bounds(queues)
    fail = options.fail_on_data_loss
    asked = starts(options.start, bounds, brokers)
    start = {queue: _not_beyond(queue, offset, *bounds[queue], fail=fail) for queue, offset in asked.items()}
    end = ends(options.end, start, bounds, brokers)
    ranges = [OffsetRange(queue, start[queue], end[queue]) for queue in sorted(bounds)]
    return [_still_there(each, bounds[each.queue][0], fail=fail) for each in ranges]


def first_offsets(brokers: Brokers, queues: Iterable[MessageQueue], options: SourceOptions) -> Offsets:
    """Where a new stream starts, by queue.

    Raises:
        ConfigError: the starts do not fit the queues that there are.
        DataLossError: messages are gone, and that is an error.
        RocketMQError: brokers do not answer.
    """
    bounds = brokers.bounds(queues)
    found = starts(options.start, bounds, brokers)
    # A stream has no end, so all that is before the oldest message was wanted.
    wanted = [OffsetRange(queue, start, max(start, bounds[queue][0])) for queue, start in found.items()]
    fail = options.fail_on_data_loss
    return {each.queue: _still_there(each, bounds[each.queue][0], fail=fail).start for each in wanted}


def ranges_between(
    start: Mapping[MessageQueue, int],
    end: Mapping[MessageQueue, int],
    oldest: Mapping[MessageQueue, int],
    *,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """The ranges of a micro-batch, one for each queue that has something to read.

    Args:
        start: where queues start; a queue that is missing here starts with its oldest message.
        end: where queues end.
        oldest: the offset of the oldest message of each queue that has something to read.
        fail_on_data_loss: whether messages that are gone are an error.

    Raises:
        DataLossError: messages are gone, and that is an error.
    """
    ranges: list[OffsetRange] = []
    for queue in sorted(end):
        until, first = end[queue], oldest.get(queue, 0)
        begin = start.get(queue, first)
        if begin == until:
            continue
        begin = _not_beyond(queue, begin, first, until, fail=fail_on_data_loss)
        ranges.append(_still_there(OffsetRange(queue, begin, until), first, fail=fail_on_data_loss))
    return ranges


def _not_beyond(queue: MessageQueue, begin: int, first: int, end: int, *, fail: bool) -> int:
    """Where to go on in a queue that may end before the offset at which reading was to go on."""
    if begin <= end:
        return begin
    why = f"the queue ends at offset {end}, so its topic was deleted and created again, or its broker has lost them"
    lost(queue, end, begin, why, fail=fail)
    return min(first, end)


def _still_there(wanted: OffsetRange, first: int, *, fail: bool) -> OffsetRange:
    """What is left of a range, where the oldest message of its queue has the offset `first`."""
    queue, start, until = wanted
    if start >= first or start == until:  # nothing of an empty range can be gone
        return wanted
    lost(queue, start, min(first, until), f"the oldest message has offset {first}", fail=fail)
    return OffsetRange(queue, min(first, until), until)


def shared_out(ranges: list[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    """The ranges that tasks read, as minPartitions and maxRecordsPerPartition ask."""
    return partitioned(ranges, at_least=options.min_partitions, most_records=options.max_records_per_partition)
