"""Writes one partition: rows to messages, messages to brokers, positions back to rows.

Every message is acknowledged when it returns. What fails is named by the number of its row, counted from 1 with rows
included that have no message, and by its keys. Not here: which rows are bad, and how a failed send is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from rocketpy.spark.counts import Counts
from rocketpy.spark.producers import producers
from rocketpy.spark.row_numbers import RowNumbers
from rocketpy.spark.rows import BadRow

if TYPE_CHECKING:
    from rocketpy.message import Message
    from rocketpy.spark.settings import SinkConfig
    from rocketpy.spark.task import Task
    from rocketpy.sync import Producer

__all__ = ["write_partition"]


def write_partition(rows: Iterable[Any], config: SinkConfig, task: Task) -> Counts:
    """Send the rows of a partition; a partition without messages needs no producer.

    Raises:
        RowError: a row could not be turned into a message, or its message could not be sent.
    """
    partition = _Partition(config, task)
    messages = partition.messages(rows)
    first = next(messages, None)
    if first is not None:
        with producers().use(config.producer) as producer:
            partition.send(producer, chain((first,), messages))
    return Counts(partition.sent, 0, partition.skipped, partition.bytes)


class _Partition:
    def __init__(self, config: SinkConfig, task: Task) -> None:
        self._config = config
        self._task = task
        self._numbers = RowNumbers()
        self.sent = 0
        self.skipped = 0
        self.bytes = 0

    def messages(self, rows: Iterable[Any]) -> Iterator[Message]:
        """The messages of the rows that have one."""
        to_message = self._config.mapping.to_message()
        for number, row in enumerate(rows, 1):
            try:
                message = to_message(row)
            except BadRow as bad:
                if not bad.skippable or self._config.bad_rows == "fail":
                    raise bad.at(number, self._task.partition) from bad.__cause__
                message = None
            if message is not None:
                yield message
            else:
                self.skipped += 1
                self._numbers.leave_out(number)

    def send(self, producer: Producer, messages: Iterable[Message]) -> None:
        frame: list[Message] = []
        for message in messages:
            if frame and (len(frame) >= self._config.batch_size or message.topic != frame[0].topic):
                self._flush(producer, frame)
                frame = []
            frame.append(message)
        self._flush(producer, frame)

    def _flush(self, producer: Producer, frame: list[Message]) -> None:
        producer.send_batch(frame)
        self.sent += len(frame)
        self.bytes += sum(len(message.body) for message in frame)
