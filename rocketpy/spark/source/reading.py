"""Reads one range into record batches: what a task of Spark does. Not here: anything of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy.errors import MessageDecodeError
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.pulling import pulled, subscription_of
from rocketpy.wire.properties import find_property
from rocketpy.wire.record_columns import RecordColumns, read_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketpy.spark.source.arrow import BatchMaker
    from rocketpy.spark.source.offsets import OffsetRange
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["read_range"]

_MOST_ROWS = 10_000
_ROWS_AT_ONCE = 1000
"""Messages that become columns at a time, about: with more, what is made on the way does not stay in the caches of the
processor, and its memory is given back to the system each time."""
_MOST_BYTES = 16 * 1024 * 1024
"""Bytes of bodies in a record batch, about at most: one answer more may come on top, or one body that is unpacked."""


def read_range(wanted: OffsetRange, options: SourceOptions, maker: BatchMaker) -> Iterator[pa.RecordBatch]:
    """The messages of a range as record batches; none of them is empty.

    Raises:
        DataLossError: messages are gone, and that is an error.
        RocketMQError: a broker cannot be reached, does not answer, or refuses, after retries; or a message is damaged.
    """
    tags = {tag.encode() for tag in subscription_of(wanted.queue.topic, options).tags_set}
    with clients().use(options.client) as client, pulled(client.trio_client, wanted, options) as answers:
        columns, size, rows, last = RecordColumns(), 0, 0, wanted.start - 1
        made: list[pa.RecordBatch] = []
        for body in answers:
            position = 0
            while position < len(body):
                most = max(1, _MOST_BYTES - size)
                position, added = _decoded(body, position, columns, wanted, tags, last, most)
                size += added
                is_full = rows + len(columns) >= _MOST_ROWS or size >= _MOST_BYTES
                if len(columns) and (is_full or len(columns) >= _ROWS_AT_ONCE):
                    rows, last = rows + len(columns), columns.heads[-1][3]
                    made.append(maker.batch(columns))
                    columns = RecordColumns()
                if is_full and made:
                    batch, made, size, rows = _joined(made), [], 0, 0
                    answers.settle()  # Spark may take its time before it asks for the next batch
                    yield batch
        if len(columns):
            made.append(maker.batch(columns))
        if made:
            yield _joined(made)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    import pyarrow as pa

    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _decoded(
    body: bytes,
    position: int,
    columns: RecordColumns,
    wanted: OffsetRange,
    tags: set[bytes],
    last: int,
    most: int,
) -> tuple[int, int]:
    """Append the messages of one answer that are wanted.

    Returns the position to continue at, and the bytes of their bodies.

    Args:
        body: the answer.
        position: where in the answer to begin.
        columns: where to append.
        wanted: the range.
        tags: the tags that are wanted; empty for all.
        last: the last offset before those in the columns, for errors.
        most: stop once so many bytes have been unpacked.
    """
    before = len(columns)
    try:
        position, size = read_columns(body, columns, wanted.start, wanted.until, position=position, most=most)
    except MessageDecodeError as error:
        last = columns.heads[-1][3] if len(columns) else last
        error.add_note(f"while reading {wanted}, behind offset {last}")
        raise
    if tags:
        _drop_others(columns, before, tags)
    return position, size


def _drop_others(columns: RecordColumns, start: int, tags: set[bytes]) -> None:
    """Drop messages with other tags. Brokers only compare hashes, which different tags may share."""
    kept = [index for index in range(start, len(columns)) if find_property(columns.properties[index], b"TAGS") in tags]
    if len(kept) == len(columns) - start:
        return
    columns.heads[start:] = [columns.heads[index] for index in kept]
    columns.bodies[start:] = [columns.bodies[index] for index in kept]
    columns.properties[start:] = [columns.properties[index] for index in kept]
