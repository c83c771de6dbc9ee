"""The progress of the running queries, and the number of rows that came too late for the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from examples.spark_demo.session import told_in_a_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.query import StreamingQuery


class Watched:
    """A query, or several queries in a row that continue from the same checkpoint."""

    def __init__(self) -> None:
        self._query: StreamingQuery | None = None
        self._before: list[dict[str, Any]] = []

    def follow(self, query: StreamingQuery) -> None:
        """Watch this one from now on."""
        self._before = self._reports()
        self._query = query

    def wait(self) -> None:
        """Wait until the query has read everything.

        Raises:
            FailedJobError: it failed.
        """
        assert self._query is not None
        with told_in_a_line():
            self._query.awaitTermination()

    def _reports(self) -> list[dict[str, Any]]:
        """The reports of Spark on all micro-batches so far. It keeps a hundred, which are more than there are."""
        recent: Sequence[Any] = self._query.recentProgress if self._query else ()
        return [*self._before, *recent]

    @property
    def read(self) -> int:
        """The number of messages that were read."""
        return sum(report["numInputRows"] for report in self._reports())

    @property
    def batches(self) -> int:
        """The number of micro-batches that have read something."""
        return sum(report["numInputRows"] > 0 for report in self._reports())

    @property
    def too_late(self) -> int:
        """The number of rows that were dropped because the watermark had passed them."""
        return sum(
            operator["numRowsDroppedByWatermark"] for report in self._reports() for operator in report["stateOperators"]
        )
