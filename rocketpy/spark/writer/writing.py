"""One write: what its tasks do, and what the driver logs at its end. Not here: anything of Spark's.

Rows are written as a sink writes them. RocketMQ takes nothing back, so a write that is aborted has sent what it has
sent; the option `delivery` says what happens when it is run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger
from rocketpy.spark.counts import Counts
from rocketpy.spark.delivery import batches
from rocketpy.spark.delivery.tasks import Run, write_once
from rocketpy.spark.partition import write_partition
from rocketpy.spark.settings import SinkConfig
from rocketpy.spark.task import Task, micro_batch
from rocketpy.spark.writer.schema import Selection

if TYPE_CHECKING:
    from rocketpy.spark.delivery.markers import BatchId

__all__ = ["Write", "Written"]

logger = get_logger(__name__)


@attrs.frozen(kw_only=True)
class Written:
    """What one task has written: all its messages are acknowledged. It pickles."""

    counts: Counts
    """Numbers of rows, and the bytes that were sent."""
    partition: int
    """The partition, from 0."""
    query: str | None = None
    """The id of the streaming query, or the `jobId`; None for a batch write."""
    batch: int | None = None
    """The number of the micro-batch; None for a batch write."""
    is_repeated: bool = False
    """Whether all of this had been written before, so that nothing was sent."""
    run: str | None = None
    """The name of this attempt of the write, if there are markers."""


@attrs.frozen(kw_only=True)
class Write:
    """One write, or all micro-batches of a query. It pickles: the driver makes it, and the tasks get copies."""

    config: SinkConfig
    """The settings of the sink."""
    selection: Selection
    """The columns of the frame that are needed."""
    streamed: bool = False
    """Whether it writes micro-batches."""
    run: str | None = None
    """Identifies a batch write in the provenance, if there is no `jobId`."""
    marked: Run | None = None
    """This attempt of the write and what the markers say before it; None without markers."""

    def with_markers(self) -> Write:
        """The same for another attempt, with what the markers say now, if `delivery` needs markers. Only on the driver.

        Raises:
            RocketMQError: markers cannot be read, or their topic cannot be created.
        """
        return attrs.evolve(self, marked=batches.new_run(self.config)) if self.config.has_markers else self

    def write(self, rows: Iterable[Any], *, columns: Sequence[str] | None = None) -> Written:
        """Write the rows of a task. Returns when all messages are acknowledged.

        Args:
            rows: the rows.
            columns: their columns, if they are plain tuples.

        Raises:
            ConfigError: the provenance or the markers need the id of the query, and Spark does not say it; or a later
                micro-batch has been written.
            RowError: a row could not be turned into a message, or its message could not be sent.
        """
        task = self._streaming_task() if self.streamed else self._batch_task()
        written = Written(counts=Counts(), partition=task.partition, query=task.query, batch=task.batch)
        if self.marked is None:
            return attrs.evolve(written, counts=write_partition(rows, self.config, task, columns=columns))
        batch = self._batch_id(task.query, task.batch)
        counts = write_once(rows, self.config, batch, self.marked, task, columns=columns)
        if counts is None:
            return attrs.evolve(written, is_repeated=True)
        return attrs.evolve(written, counts=counts, run=self.marked.name)

    def _streaming_task(self) -> Task:
        query, batch = micro_batch()
        query = self.config.job_id or query
        config = self.config
        if (config.marks or config.has_markers) and (query is None or batch is None):
            lacking = "id of the query, which Spark does not say here: give jobId" if query is None else "micro-batch"
            needing = f"delivery {config.delivery}" if config.has_markers else "provenance"
            way_out = "" if config.has_markers else ", or provenance=false"
            raise ConfigError(f"{needing} needs the {lacking}{way_out}")
        return Task.here(query=query, batch=batch)

    def _batch_task(self) -> Task:
        # Without the stage: a write has only one that sends, and it has another number when the job is run again.
        return attrs.evolve(Task.here(app=self.config.job_id or self.run), stage=None)

    def _batch_id(self, query: str | None, number: int | None) -> BatchId:
        """What the markers of a micro-batch say of it, or of a batch write."""
        source = query or self.config.job_id
        assert source is not None  # checked where options are read, and where a task begins
        return batches.batch_id(self.config, source, number or 0)

    def commit(self, written: Sequence[Written], batch: int | None = None) -> None:
        """All tasks have ended. Stores the marker, if there are markers, and logs what was sent.

        Args:
            written: what the tasks have written.
            batch: the number of the micro-batch.

        Raises:
            RocketMQError: the marker could not be stored.
        """
        if self.config.has_markers and written:
            self._mark(written, batch)
        counts = _sum(written)
        logger.info(
            "%s is done: %d messages sent (%d bytes), %d rows skipped, %d given up",
            self._title(written, batch), counts.sent, counts.bytes, counts.skipped, counts.failed,
        )  # fmt: skip

    def _mark(self, written: Sequence[Written], number: int | None) -> None:
        batch = self._batch_id(written[0].query, number)
        sent = {each.partition: each.counts.sent for each in written if not each.is_repeated}
        run = next((each.run for each in written if each.run is not None), None)
        if run is None:
            batches.log_repeated(batch)
        else:
            batches.commit(self.config, batch, run, sent)

    def abort(self, written: Sequence[Written | None], batch: int | None = None) -> None:
        """A task has failed for good, or the write was stopped. Logs what was sent; with markers, whether all was.

        Args:
            written: what the tasks have written; None for those that have failed.
            batch: the number of the micro-batch.

        Raises:
            RocketMQError: the markers cannot be read.
        """
        ended = [each for each in written if each is not None]
        source = self.config.job_id or next((each.query for each in ended), None)
        if self.config.has_markers and source and batches.abort(self.config, self._batch_id(source, batch)):
            return
        logger.warning(
            "%s has failed or was stopped: %d of %d tasks had ended, and their %d messages stay in the topic, as do "
            "those that other tasks have sent",
            self._title(ended, batch), len(ended), len(written), _sum(ended).sent,
        )  # fmt: skip

    def _title(self, written: Sequence[Written], batch: int | None) -> str:
        to = self.config.mapping.topic or "the topics of its rows"
        if not self.streamed:
            return f"a write to {to}"
        query = next((each.query for each in written if each.query is not None), "a query")
        return f"micro-batch {batch} of {query} to {to}"


def _sum(written: Iterable[Written]) -> Counts:
    total = Counts()
    for each in written:
        total = total.plus(each.counts)
    return total
