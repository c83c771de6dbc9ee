"""Writes one partition: turns rows into messages, sends them, and turns positions of messages back into row numbers.

All messages are acknowledged when it returns. Errors name the keys and the number of the row, counted from 1, including
rows without a message. Other modules decide which rows are bad, and how failed sends are retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, cast

from rocketpy.errors import RowError, SendError, SendManyError
from rocketpy.logs import get_logger
from rocketpy.producer.send_many import frame_bounds
from rocketpy.spark.collector import spare_collector
from rocketpy.spark.counts import Counts
from rocketpy.spark.producers import producers
from rocketpy.spark.row_chunks import FEW, chunk_encoder
from rocketpy.spark.row_frame import RowFrame
from rocketpy.spark.row_keys import key_reader
from rocketpy.spark.row_numbers import RowNumbers
from rocketpy.spark.rows import BadRow
from rocketpy.wire.message_columns import MessageColumns

if TYPE_CHECKING:
    from rocketpy.message import Message
    from rocketpy.spark.row_chunks import EncodeChunk
    from rocketpy.spark.rows import Encoded
    from rocketpy.spark.settings import SinkConfig
    from rocketpy.spark.task import Task
    from rocketpy.sync import Producer

__all__ = ["Stored", "write_partition"]

logger = get_logger(__name__)


def write_partition(
    rows: Iterable[Any],
    config: SinkConfig,
    task: Task,
    *,
    before: int = 0,
    columns: Sequence[str] | None = None,
    stored: Stored | None = None,
) -> Counts:
    """Send the rows of a partition. If there are no messages, no producer is used.

    Args:
        rows: all rows of the partition, or the next ones.
        config: the settings.
        task: identifies the partition.
        before: how many rows of the partition were written before these.
        columns: the columns, if the rows are plain tuples with a value for each of them.
        stored: knows the messages that brokers have already. They are not sent, and are counted as sent. Only with
            `marks` of the settings.

    Raises:
        ConfigError: a required column is not among `columns`.
        RowError: a row could not be turned into a message, or its message could not be sent.
    """
    partition = _Partition(config, task, before, stored)
    messages = partition.messages(rows, columns)
    first = next(messages, None)
    if first is None:
        return partition.counts()
    with producers().use(config.producer) as producer:
        if task.is_in_worker:
            spare_collector()  # only now, so that it includes the modules of a producer
        return partition.send(producer, chain((first,), messages))


class Stored(Protocol):
    """Knows the messages of a partition that brokers have already."""

    @property
    def is_searched(self) -> bool:
        """Whether there may be any."""

    def has(self, message: Message, row: int) -> bool:
        """Whether there is the message of a row, which has its unique id. Raises an error if it cannot be told."""


class _Partition:
    """The state of one call: which rows have no message, and which could not be sent.

    Attributes:
        numbers: the rows without a message, counted from the first row of this call.
        given_up: the number of rows whose messages could not be sent.
    """

    def __init__(self, config: SinkConfig, task: Task, before: int, stored: Stored | None) -> None:
        self._config = config
        self._task = task
        self._before = before
        self._provenance = task.provenance() if config.marks else None
        self._stored = stored
        self._found = self._found_bytes = 0
        self.numbers = RowNumbers()
        self.given_up = 0

    def messages(self, rows: Iterable[Any], columns: Sequence[str] | None) -> Iterator[Message | MessageColumns]:
        """The messages of the rows; as columns, if they may share a frame."""
        if self._config.dedupe_key is not None or (self._stored is not None and self._stored.is_searched):
            return self._one_by_one(rows, columns)
        return self._in_columns(rows, columns)

    def _one_by_one(self, rows: Iterable[Any], columns: Sequence[str] | None) -> Iterator[Message]:
        """The messages of rows that have keys, or may be stored already."""
        config, key = self._config, None
        to_message = config.mapping.to_message() if columns is None else config.mapping.compile(columns)
        key_of = None if config.dedupe_key is None else key_reader(config.dedupe_key, columns)
        for number, row in enumerate(rows, self._before + 1):
            try:
                message = to_message(row)
                if key_of is not None and message is not None:
                    key = key_of(row)
            except BadRow as bad:
                self._check_skippable(bad, number)
                message = None
            if message is None:
                self.numbers.leave_out(number - self._before)
            elif (marked := self._marked(message, number, key)) is not None:
                yield marked

    def _marked(self, message: Message, number: int, key: str | None = None) -> Message | None:
        """A message with its provenance; None if a broker has it already, and it is left out."""
        if self._provenance is None:
            return message
        message = self._provenance.mark(message, number, key)
        if self._stored is None or not self._stored.has(message, number):
            return message
        self.numbers.leave_out(number - self._before)
        self._found += 1
        self._found_bytes += len(message.body)
        return None

    def _in_columns(self, rows: Iterable[Any], columns: Sequence[str] | None) -> Iterator[Message | MessageColumns]:
        """The messages of rows, of which none has to be looked for."""
        mapping = self._config.mapping
        encode = mapping.to_encoded() if columns is None else mapping.compile_encoded(columns)
        encode_chunk = chunk_encoder(mapping, columns)
        frame = RowFrame(*frame_bounds(self._config.producer, self._config.batch_size))
        if encode_chunk is None:
            yield from self._encoded_one_by_one(rows, encode, frame, self._before)
        else:
            yield from self._encoded_together(rows, encode_chunk, encode, frame)
        if frame:
            yield self._columns(frame)

    def _encoded_together(
        self,
        rows: Iterable[Any],
        encode_chunk: EncodeChunk,
        encode: Callable[[Any], Encoded | Message | None],
        frame: RowFrame,
    ) -> Iterator[Message | MessageColumns]:
        """Add rows to a frame, as many at a time as it has room for; where they are unusual, one by one."""
        remaining, number = iter(rows), self._before
        while chunk := list(islice(remaining, frame.room)):
            made = encode_chunk(chunk) if len(chunk) > FEW else None
            if made is None or not frame.takes_all(made[0]):
                yield from self._encoded_one_by_one(chunk, encode, frame, number)
            else:
                frame.add_all(*made, number + 1)
            number += len(chunk)
            if not frame.room:
                yield self._columns(frame)

    def _encoded_one_by_one(
        self,
        rows: Iterable[Any],
        encode: Callable[[Any], Encoded | Message | None],
        frame: RowFrame,
        before: int,
    ) -> Iterator[Message | MessageColumns]:
        """Add rows to a frame. Yields the frame whenever it is full, and messages that need one of their own."""
        for number, row in enumerate(rows, before + 1):
            try:
                made = encode(row)
            except BadRow as bad:
                self._check_skippable(bad, number)
                made = None
            if made is None:
                self.numbers.leave_out(number - self._before)
            elif isinstance(made, tuple):
                if frame.add(*made, number):
                    yield self._columns(frame)
            else:
                if frame:
                    yield self._columns(frame)
                if (message := self._marked(made, number)) is not None:
                    yield message

    def _check_skippable(self, bad: BadRow, number: int) -> None:
        """Raise the error for a bad row, unless it is to be skipped."""
        if not bad.skippable or self._config.bad_rows == "fail":
            raise bad.at(number, self._task.partition) from bad.__cause__

    def _columns(self, frame: RowFrame) -> MessageColumns:
        """The messages of a frame, which is emptied."""
        topic, provenance = self._config.mapping.topic, self._provenance
        if topic is None:
            raise AssertionError("rows are encoded only for one topic")
        bodies, properties, numbers = frame.take()
        if provenance is None:
            return MessageColumns(topic, bodies, properties)
        marked = provenance.mark_encoded(properties, numbers)
        return MessageColumns(topic, bodies, marked, provenance.unique_ids(topic, numbers))

    def counts(self, sent: int = 0, failed: int = 0, size: int = 0) -> Counts:
        """The counts of this call.

        Args:
            sent: the number of messages that were sent.
            failed: the number of messages that could not be sent.
            size: the bytes of the bodies that were sent.
        """
        skipped = self.numbers.left_out - self._found
        return Counts(sent + self._found, failed, skipped, size + self._found_bytes)

    def send(self, producer: Producer, messages: Iterable[Message | MessageColumns]) -> Counts:
        """Send the messages, and wait until they are stored."""
        on_failure = self._give_up if self._config.failed_sends == "count" else None
        try:
            # It takes columns among the messages, although users are not told so.
            result = producer.send_many(
                cast("Iterable[Message]", messages), batch_size=self._config.batch_size, on_failure=on_failure
            )
        except SendManyError as error:
            raise self._row_error(error) from error.__cause__
        if self.given_up:
            logger.warning(
                "%d rows of partition %d could not be sent, and were counted", self.given_up, self._task.partition
            )
        return self.counts(result.messages, result.failed, result.bytes)

    def _give_up(self, error: SendManyError) -> None:
        if not self.given_up:
            logger.warning("giving up %s", self._row_error(error))
        self.given_up += error.count

    def _row_error(self, error: SendManyError) -> RowError:
        """The error for the first row of a frame that failed."""
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
    """Why a frame failed, on one line for the driver, with the last attempt only. The cause has all attempts."""
    if isinstance(error, SendError) and error.attempts:
        last = error.attempts[-1]
        attempts = len(error.attempts)
        return f"none of {attempts} attempts was acknowledged; the last of them, at {last.broker_name}: {last.error}"
    return str(error)
