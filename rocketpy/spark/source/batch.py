"""A batch read: what the driver plans, and what tasks read. Not here: anything of Spark's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.spark.source.brokers import Brokers
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.planning import batch_ranges, shared_out
from rocketpy.spark.source.pushdown import Narrowing

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["BatchRead"]

_SLACK = 1
"""Offsets by which brokers of RocketMQ 4 may be wrong when they are asked for a time."""


class BatchRead:
    """One batch read. It pickles.

    Args:
        options: the checked options.

    Attributes:
        options: those that tasks read by.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._narrowing = Narrowing(by_tags=options.tags is None and options.sql is None)

    def push(self, filters: Iterable[Any]) -> list[Any]:
        """Take filters of Spark. Returns those that Spark has to apply itself."""
        left = self._narrowing.take(filters)
        if self._narrowing.tags is not None:
            self.options = attrs.evolve(self.options, tags=self._narrowing.tags)
        return left

    def plan(self) -> list[OffsetRange]:
        """The ranges that tasks read; none of them is empty.

        Raises:
            ConfigError: starts and ends do not fit the queues that there are.
            DataLossError: messages are gone, and that is an error.
            RocketMQError: name servers or brokers do not answer.
        """
        with clients().use(self.options.client) as client:
            brokers = Brokers(client.trio_client, self.options)
            ranges = batch_ranges(brokers, self.options)
            return shared_out(self._narrowed(ranges, brokers), self.options)

    def _narrowed(self, ranges: list[OffsetRange], brokers: Brokers) -> list[OffsetRange]:
        narrowing = self._narrowing
        wanted = [each for each in ranges if each.size and narrowing.wants(*each.queue)]
        queues = [each.queue for each in wanted]
        since = _at(brokers, queues, narrowing.since)
        before = _at(brokers, queues, narrowing.before)
        return [
            OffsetRange(
                queue,
                max(start, narrowing.first, since.get(queue, start) - _SLACK),
                min(until, narrowing.until, before.get(queue, until) + _SLACK),
            )
            for queue, start, until in wanted
        ]


def _at(brokers: Brokers, queues: list[MessageQueue], moment: int | None) -> dict[MessageQueue, int]:
    return {} if moment is None else brokers.at_times(dict.fromkeys(queues, max(0, moment)))
