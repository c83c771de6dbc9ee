"""The sink: one object for `foreachPartition` of DataFrames and RDDs, and for `foreachBatch` of streams.

The driver makes it and checks its settings; only these settings are sent to the executors. Delivery is at-least-once
unless the setting `delivery` says otherwise: if a task fails, Spark runs it again, and it sends its messages again.
With `provenance`, every message identifies its row, so that consumers can drop duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

from rocketpy.errors import ConfigError
from rocketpy.spark.counts import Counts, Tally
from rocketpy.spark.delivery import batches
from rocketpy.spark.delivery.partition_counts import PartitionCounts
from rocketpy.spark.delivery.tasks import drain, write_once
from rocketpy.spark.partition import write_partition
from rocketpy.spark.rows import Column, RowMapping
from rocketpy.spark.settings import AT_LEAST_ONCE, EFFECTIVELY_ONCE, MARKER_TOPIC, SinkConfig, producer_config
from rocketpy.spark.task import Task, active_context, application_id, is_speculative, query_id, run_id

if TYPE_CHECKING:
    from rocketpy.message import Message
    from rocketpy.serialization import Serializer
    from rocketpy.spark.delivery.markers import BatchId
    from rocketpy.spark.delivery.tasks import Run

__all__ = ["Sink", "sink"]


@final
class Sink:
    """Writes rows as messages. Use `sink` to make one.

    Pass it to ``df.foreachPartition(s)``, ``rdd.foreachPartition(s)`` or ``stream.writeStream.foreachBatch(s)``.
    """

    def __init__(self, config: SinkConfig, *, app: str | None = None, tally: Tally | None = None) -> None:
        self._config = config
        self._app = app
        self._tally = Tally() if tally is None else tally
        self._by_partition = PartitionCounts()
        self._task = Task()
        self._rows = 0
        """The number of rows of the current partition that earlier calls have written."""

    @property
    def config(self) -> SinkConfig:
        """The settings."""
        return self._config

    @property
    def counts(self) -> Counts:
        """Counts of the rows written so far, in all jobs together. Only the driver has them.

        Failed tasks do not count, although they may have sent messages. While a job runs, the tasks that have ended
        already count.

        Raises:
            ConfigError: this is an executor, or the rows were written with Spark Connect, which does not count them.
        """
        return self._tally.value

    def __call__(self, rows: Any, batch_id: int | None = None) -> None:
        """Write the rows of a partition, or a micro-batch. Spark calls this.

        It returns when all messages are acknowledged. A function of yours may call it several times for the rows of one
        partition; the row numbers continue. If a call fails, let the task fail, or make the call again with the same
        rows: other rows would get their numbers.

        Args:
            rows: the rows of a partition; with `batch_id`, a DataFrame.
            batch_id: the number of the micro-batch.

        Raises:
            RowError: a row could not be turned into a message, or its message could not be sent.
        """
        if batch_id is not None:
            self._write_batch(rows, batch_id)
            return
        _check_rows(rows)
        if self._config.has_markers:
            raise _needs_batches(self._config)
        app = self._app or self._app_id()
        if self._config.provenance and app is None:
            raise ConfigError("provenance needs the id of the application, which is not known here: give a job_id")
        self._write(rows, Task.here(app=app))

    def _write_batch(self, frame: Any, batch_id: int) -> None:
        if not hasattr(frame, "foreachPartition"):
            raise ConfigError(
                f"with a batch_id, a sink writes a DataFrame, not a {type(frame).__name__}: pass the rows of a "
                "partition without a batch_id, as foreachPartition(sink) does"
            )
        _check_batch_id(batch_id)
        config = self._config
        query = config.job_id
        if query is None and (config.marks or config.has_markers):
            query = query_id(frame)
            if query is None:
                what = f'delivery="{config.delivery}"' if config.has_markers else "provenance"
                raise ConfigError(f"{what} needs the id of the query, which is not known here: give a job_id")
        if query is None or not config.has_markers:
            frame.foreachPartition(_MicroBatch(self, query, batch_id))
        else:
            self._write_marked(frame, query, batch_id)

    def _write_marked(self, frame: Any, query: str, number: int) -> None:
        """Write a micro-batch unless it has been written before, and store its marker."""
        config = self._config
        if config.delivery == EFFECTIVELY_ONCE and is_speculative(frame):
            raise ConfigError(
                f'delivery="{EFFECTIVELY_ONCE}" cannot tell apart two attempts of a task that run at the same time: '
                "set spark.speculation to false"
            )
        batch, query_run = batches.batch_id(config, query, number), run_id(frame)
        batches.check_first(batch, query_run)
        run = batches.new_run(config)
        if batches.is_repeated(run, batch):
            frame.foreachPartition(drain)
            return
        self._by_partition.begin()
        frame.foreachPartition(_MicroBatch(self, query, number, (batch, run)))
        batches.commit(config, batch, run.name, self._by_partition.of_batch())
        batches.note_written(batch, query_run)

    def _write_once(self, rows: Iterable[Any], task: Task, batch: BatchId, run: Run) -> None:
        counts = write_once(rows, self._config, batch, run, task)
        if counts is not None:
            self._tally.add(counts)
            self._by_partition.add(task.partition, counts.sent)

    def _write(self, rows: Iterable[Any], task: Task) -> None:
        # A task may call it several times. The row numbers continue, so that each row has an origin of its own.
        before = self._rows if task == self._task else 0
        counts = write_partition(rows, self._config, task, before=before)
        self._task, self._rows = task, before + counts.sent + counts.failed + counts.skipped
        self._tally.add(counts)

    def _app_id(self) -> str | None:
        """The id of the application for the provenance, or the `job_id`. Called on the driver.

        It is not cached, because a process may open one session after another, and the stages of each begin at 0.
        """
        return (self._config.job_id or application_id()) if self._config.provenance else None

    def __reduce__(self) -> tuple[Any, ...]:
        """The settings, the id of the application, and the accumulators. Pickled on the driver for each job.

        Raises:
            ConfigError: this is `foreachPartition(sink)`, and the settings need micro-batches. Under Spark Connect,
                `foreachBatch(sink)` pickles it too, so only tasks refuse it there.
        """
        if self._config.has_markers and active_context() is not None:
            raise _needs_batches(self._config)
        return self._for_tasks()

    def _for_tasks(self) -> tuple[Any, ...]:
        """How a copy is made on an executor."""
        parts = self._config, self._app_id() or self._app, self._tally, self._by_partition
        return _restored, parts

    def __repr__(self) -> str:
        """Short form, without secrets."""
        return f"<Sink {self._config!r}>"


def _check_rows(rows: Any) -> None:
    """Refuse a DataFrame, and a single row, whose cells would be treated as rows."""
    if hasattr(rows, "foreachPartition"):
        raise ConfigError("a sink writes partitions: call df.foreachPartition(sink), not sink(df)")
    if isinstance(rows, tuple | Mapping | str | bytes | bytearray):
        raise ConfigError(
            f"a sink writes partitions, and this {type(rows).__name__} is a single row: use foreachPartition(sink), "
            "or foreachBatch(sink) for a stream, not foreach(sink)"
        )


def _check_batch_id(batch_id: object) -> None:
    """Refuse what is no number of a micro-batch: its marker, and the provenance of its rows, could not be read."""
    if not isinstance(batch_id, int) or isinstance(batch_id, bool) or not 0 <= batch_id < 2**63:
        raise ConfigError(f"the batch_id must be a whole number from 0 on, not {batch_id!r:.100}")


def _needs_batches(config: SinkConfig) -> ConfigError:
    return ConfigError(
        f'delivery="{config.delivery}" needs to run on the driver at the end, and foreachPartition(sink) runs only '
        "in tasks: use foreachBatch(sink) for a stream; for a DataFrame, call sink(df, 0) with a job_id"
    )


class _MicroBatch:
    """A sink for one micro-batch of one query.

    Args:
        sink: the sink.
        query: the id of the query, or the `job_id`.
        batch: the number of the micro-batch.
        marked: the micro-batch and this attempt of it, if there are markers.
    """

    def __init__(self, sink: Sink, query: str | None, batch: int, marked: tuple[BatchId, Run] | None = None) -> None:
        self._sink = sink
        self._query = query
        self._batch = batch
        self._marked = marked

    def __call__(self, rows: Iterable[Any]) -> None:
        """Write the rows of a partition."""
        task = Task.here(query=self._query, batch=self._batch)
        if self._marked is None:
            self._sink._write(rows, task)
        else:
            self._sink._write_once(rows, task, *self._marked)

    def __reduce__(self) -> tuple[Any, ...]:
        """The parts of the sink, and what identifies the micro-batch."""
        return _restored_batch, (*self._sink._for_tasks(), self._query, self._batch, self._marked)


def _restored(config: SinkConfig, app: str | None, tally: Tally, by_partition: PartitionCounts) -> Sink:
    made = Sink(config, app=app, tally=tally)
    made._by_partition = by_partition
    return made


def _restored_batch(
    restore: Callable[..., Sink], parts: tuple[Any, ...], query: str | None, batch: int, marked: Any
) -> _MicroBatch:
    return _MicroBatch(restore(*parts), query, batch, marked)


def sink(
    topic: str | None = None,
    *,
    namesrv: str | Iterable[str] | None = None,
    columns: Mapping[str, Column] | None = None,
    to_message: Callable[[Any], Message | None] | None = None,
    value_format: str | Serializer = "binary",
    bad_rows: str = "fail",
    failed_sends: str = "fail",
    provenance: bool = False,
    batch_size: int | None = None,
    job_id: str | None = None,
    delivery: str = AT_LEAST_ONCE,
    dedupe_key: str | int | None = None,
    marker_topic: str = MARKER_TOPIC,
    **producer_settings: Any,
) -> Sink:
    """Make a sink: ``df.foreachPartition(rocketpy.spark.sink("Flights", namesrv="127.0.0.1:9876"))``.

    Args:
        topic: the topic of all messages; if `columns` names a column for it, only of the rows in which that is null.
        namesrv: name servers, "a:9876;b:9876" or a list; when None, NAMESRV_ADDR of the driver.
        columns: the column of each part of a message, such as ``{"value": "payload", "keys": "order_id"}``. Other parts
            are read from columns with their names. ``{"value": "*"}`` sends the whole row as an object.
        to_message: a function from a row to a new message, or None to skip it; replaces topic, columns and format.
        value_format: how values are encoded: "binary", "string", "json", "msgpack", or a serializer.
        bad_rows: what to do with rows that cannot become a message, for example because the value is null: "fail", or
            "skip" and count them.
        failed_sends: what to do if messages cannot be sent: "fail", or "count" them and go on.
        provenance: whether messages have properties that identify their row, so that consumers can drop duplicates.
        batch_size: the largest number of messages in a frame.
        job_id: used in the provenance in place of the id of the application or streaming query. Each run and each
            query needs one of its own.
        delivery: "at-least-once"; "commit-marker", so that no micro-batch is written again; or "effectively-once", so
            that no stored message is sent again. These need `foreachBatch(sink)`, or `sink(df, 0)` with a job_id.
        dedupe_key: the column that identifies a row in its micro-batch, if rows may come in another order next time.
        marker_topic: the topic of the markers.
        producer_settings: settings of `rocketpy.ProducerConfig`, such as `group` and `access_key`. The defaults for a
            frame are 30 seconds and 10 retries; with sharding keys, it is retried only if no broker has accepted it.

    Raises:
        ConfigError: a setting cannot be used.
    """
    mapping = RowMapping(topic=topic, columns=columns or {}, value_format=value_format, function=to_message)
    producer = producer_config(namesrv, producer_settings)
    config = SinkConfig(
        mapping=mapping, producer=producer, bad_rows=bad_rows, failed_sends=failed_sends, provenance=provenance,
        batch_size=batch_size, job_id=job_id, delivery=delivery, dedupe_key=dedupe_key, marker_topic=marker_topic,
    )  # fmt: skip
    return Sink(config)
