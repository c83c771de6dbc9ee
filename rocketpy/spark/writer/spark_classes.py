"""The writers that PySpark asks: thin, and the only part of the writing half that knows PySpark (4.0 or newer).

Spark pickles a writer for its tasks, and makes another one for the end of each micro-batch: nothing is opened in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter

    from rocketpy.spark.writer.writing import Write, Written

__all__ = ["BatchWriter", "RowStreamWriter", "StreamWriter", "WrittenMessage", "stream_writer"]

# By its name, because type checks need no PySpark.
_spark: Any = import_module("pyspark.sql.datasource")
_ArrowWriter: Any = getattr(_spark, "DataSourceStreamArrowWriter", _spark.DataSourceStreamWriter)


class WrittenMessage(_spark.WriterCommitMessage):  # type: ignore[misc]
    """Carries what a task has written to the driver."""

    def __init__(self, written: Written) -> None:
        self.written = written


def _write_batches(core: Write, batches: Iterable[Any]) -> WrittenMessage:
    from rocketpy.spark.writer.arrow_rows import rows_of  # pyarrow is needed where rows are written

    selection = core.selection
    rows = chain.from_iterable(rows_of(batch, selection) for batch in batches)
    return WrittenMessage(core.write(rows, columns=selection.columns))


def _written(messages: Iterable[WrittenMessage]) -> list[Written]:
    return [message.written for message in messages]


def _written_or_none(messages: Iterable[WrittenMessage | None]) -> list[Written | None]:
    return [None if message is None else message.written for message in messages]


class BatchWriter(_spark.DataSourceArrowWriter):  # type: ignore[misc]
    """A batch write."""

    def __init__(self, core: Write) -> None:
        self._core = core

    def write(self, iterator: Iterable[Any]) -> WrittenMessage:
        """Write the record batches of a task."""
        return _write_batches(self._core, iterator)

    def commit(self, messages: Sequence[WrittenMessage]) -> None:
        """All tasks have ended."""
        self._core.commit(_written(messages))

    def abort(self, messages: Sequence[WrittenMessage | None]) -> None:
        """A task has failed for good."""
        self._core.abort(_written_or_none(messages))


class _Ends:
    """The end of a micro-batch."""

    def __init__(self, core: Write) -> None:
        self._core = core

    def commit(self, messages: Sequence[WrittenMessage], batchId: int) -> None:
        """All tasks of a micro-batch have ended."""
        self._core.commit(_written(messages), batchId)

    def abort(self, messages: Sequence[WrittenMessage | None], batchId: int) -> None:
        """A task of a micro-batch has failed for good, or the query was stopped."""
        self._core.abort(_written_or_none(messages), batchId)


class RowStreamWriter(_Ends, _spark.DataSourceStreamWriter):  # type: ignore[misc]
    """A stream whose tasks get rows: PySpark 4.0 has no other."""

    def write(self, iterator: Iterable[Any]) -> WrittenMessage:
        """Write the rows of a task."""
        return WrittenMessage(self._core.write(iterator))


class StreamWriter(_Ends, _ArrowWriter):  # type: ignore[misc]
    """A stream whose tasks get record batches: PySpark 4.1 and newer."""

    def write(self, iterator: Iterable[Any]) -> WrittenMessage:
        """Write the record batches of a task."""
        return _write_batches(self._core, iterator)


def stream_writer(core: Write) -> DataSourceStreamWriter:
    """The writer of a stream that this PySpark can use."""
    return (StreamWriter if hasattr(_spark, "DataSourceStreamArrowWriter") else RowStreamWriter)(core)
