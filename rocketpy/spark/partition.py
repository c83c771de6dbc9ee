"""Writes one partition: rows to messages, messages to brokers, positions back to rows.

Every message is acknowledged when it returns. What fails is named by the number of its row, counted from 1 with rows
included that have no message, and by its keys. Not here: which rows are bad, and how a failed send is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from rocketpy.errors import RowError, SendError, SendManyError
from rocketpy.logs import get_logger
from rocketpy.spark.collector import spare_collector
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

logger = get_logger(__name__)


def write_partition(rows: Iterable[Any], config: SinkConfig, task: Task, *, before: int = 0) -> Counts:
    """Send the rows of a partition; a partition without messages needs no producer.

    Args:
        rows: all of them, or the next ones.
        config: how.
        task: which partition it is.
        before: how many rows of the partition were written before these.

    Raises:
        RowError: a row could not be turned into a message, or its message could not be sent.
    """
    partition = _Partition(config, task, before)
    messages = partition.messages(rows)
    first = next(messages, None)
    if first is None:
        return Counts(skipped=partition.numbers.left_out)
    with producers().use(config.producer) as producer:
        if task.is_in_worker:
            spare_collector()  # once the modules of a producer are there too
        return partition.send(producer, chain((first,), messages))


class _Partition:
    """What has to be remembered between a row and the end of its send.

    Attributes:
        numbers: which rows have no message, counted from the first of these.
        given_up: rows whose messages could not be sent.
    """

    def __init__(self, config: SinkConfig, task: Task, before: int) -> None:
        self._config = config
        self._task = task
        self._before = before
        self.numbers = RowNumbers()
        self.given_up = 0

    def messages(self, rows: Iterable[Any]) -> Iterator[Message]:
        """The messages of the rows that have one."""
        to_message = self._config.mapping.to_message()
        mark = self._task.provenance().mark if self._config.provenance else None
        for number, row in enumerate(rows, self._before + 1):
            try:
                message = to_message(row)
            except BadRow as bad:
                if not bad.skippable or self._config.bad_rows == "fail":
                    raise bad.at(number, self._task.partition) from bad.__cause__
                message = None
            if message is None:
                self.numbers.leave_out(number - self._before)
            elif mark is None:
                yield message
            else:
                yield mark(message, number)

    def send(self, producer: Producer, messages: Iterable[Message]) -> Counts:
        """Send the messages, and wait until they are stored."""
        on_failure = self._give_up if self._config.failed_sends == "count" else None
        try:
            result = producer.send_many(messages, batch_size=self._config.batch_size, on_failure=on_failure)
        except SendManyError as error:
            raise self._row_error(error) from error.__cause__
        if self.given_up:
            logger.warning("%d rows of partition %d were given up and counted", self.given_up, self._task.partition)
        return Counts(result.messages, result.failed, self.numbers.left_out, result.bytes)

    def _give_up(self, error: SendManyError) -> None:
        if not self.given_up:
            logger.warning("giving up %s", self._row_error(error))
        self.given_up += error.count

    def _row_error(self, error: SendManyError) -> RowError:
        """The error of the first row of what failed."""
        row, why = self._row_of(error.first), _why(error.__cause__)
        if error.count == 1:
            reason = f"its message could not be sent: {why}"
        else:
            last = self._row_of(error.last)
            reason = f"its frame with {error.count} rows, the last of them row {last}, was not sent: {why}"
        return RowError(reason, row=row, partition=self._task.partition, keys=error.keys)

    def _row_of(self, position: int) -> int:
        return self._before + self.numbers.row_of(position)


def _why(error: BaseException | None) -> str:
    """Why a frame failed, on one line of the driver: of many tries the last one. All of them are in the cause."""
    if isinstance(error, SendError) and error.attempts:
        last = error.attempts[-1]
        tries = len(error.attempts)
        return f"none of {tries} tries was acknowledged; the last of them, at {last.broker_name}: {last.error}"
    return str(error)
