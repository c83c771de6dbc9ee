"""The sink: one object for `foreachPartition` of DataFrames and RDDs, and for `foreachBatch` of streams.

It is made on the driver, where its settings are checked, and travels to the executors as those settings and nothing
else. At least once: Spark runs a task that failed again, and what it had sent before is then sent again. With
`provenance` every message says which row it is, and consumers can drop what they had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

from rocketpy.errors import ConfigError
from rocketpy.spark.counts import Counts, Tally
from rocketpy.spark.partition import write_partition
from rocketpy.spark.rows import Column, RowMapping
from rocketpy.spark.settings import SinkConfig, producer_config
from rocketpy.spark.task import Task, application_id, query_id

if TYPE_CHECKING:
    from rocketpy.message import Message
    from rocketpy.serialization import Serializer

__all__ = ["Sink", "sink"]


@final
class Sink:
    """Writes rows as messages; made by `sink`.

    ``df.foreachPartition(s)``, ``rdd.foreachPartition(s)`` and ``stream.writeStream.foreachBatch(s)`` take it as it is.
    """

    def __init__(self, config: SinkConfig, *, app: str | None = None, tally: Tally | None = None) -> None:
        self._config = config
        self._app = app
        self._tally = Tally() if tally is None else tally
        self._task = Task()
        self._rows = 0
        """What was written of its partition, by calls before."""

    @property
    def config(self) -> SinkConfig:
        """Its settings."""
        return self._config

    @property
    def counts(self) -> Counts:
        """What it has written up to now, in all jobs together; on the driver.

        Of tasks that failed Spark counts nothing, though they may have sent something. While a job runs, the tasks that
        have ended are counted.

        Raises:
            ConfigError: this is an executor, or the rows were written with Spark Connect, where nothing is counted.
        """
        return self._tally.value

    def __call__(self, rows: Any, batch_id: int | None = None) -> None:
        """Write the rows of a partition, or a micro-batch. Spark calls it.

        Returns when every message is acknowledged. A function of yours may call it for the rows of a partition part by
        part; they are numbered on.

        Args:
            rows: the rows of a partition; with `batch_id` a DataFrame.
            batch_id: the number of the micro-batch.

        Raises:
            RowError: a row could not be turned into a message, or its message could not be sent.
        """
        if batch_id is not None:
            self._write_batch(rows, batch_id)
            return
        _check_rows(rows)
        app = self._app or self._app_id()
        if self._config.provenance and app is None:
            raise ConfigError("provenance needs the id of the application, which is not known here: give a job_id")
        self._write(rows, Task.here(app=app))

    def _write_batch(self, frame: Any, batch_id: int) -> None:
        if not hasattr(frame, "foreachPartition"):
            raise ConfigError(
                f"with a batch_id a sink writes a DataFrame, and this is a {type(frame).__name__}: give the rows of a "
                "partition alone, as foreachPartition(sink) does"
            )
        query = self._config.job_id
        if self._config.provenance and query is None:
            query = query_id(frame)
            if query is None:
                raise ConfigError("provenance needs the id of the query, which Spark does not tell here: give a job_id")
        frame.foreachPartition(_MicroBatch(self, query, batch_id))

    def _write(self, rows: Iterable[Any], task: Task) -> None:
        # A task may call it several times, with some rows each time: their numbers go on, and no two have one origin.
        before = self._rows if task == self._task else 0
        counts = write_partition(rows, self._config, task, before=before)
        self._task, self._rows = task, before + counts.sent + counts.failed + counts.skipped
        self._tally.add(counts)

    def _app_id(self) -> str | None:
        """What stands for the application in provenance, looked up on the driver.

        It is looked up each time: one session may follow another in a process, and the stages of both begin at 0.
        """
        return (self._config.job_id or application_id()) if self._config.provenance else None

    def __reduce__(self) -> tuple[Any, ...]:
        """The settings, the name of the application, and the accumulators. On the driver, whenever a job begins."""
        return _restored, (self._config, self._app_id() or self._app, self._tally)

    def __repr__(self) -> str:
        """Short form, without secrets."""
        return f"<Sink {self._config!r}>"


def _check_rows(rows: Any) -> None:
    """Refuse a frame, and a single row: as rows, its cells would be taken for some."""
    if hasattr(rows, "foreachPartition"):
        raise ConfigError("a sink writes partitions: call df.foreachPartition(sink), not sink(df)")
    if isinstance(rows, tuple | Mapping | str | bytes | bytearray):
        raise ConfigError(
            f"a sink writes partitions, and this is one row, a {type(rows).__name__}: use foreachPartition(sink), or "
            "foreachBatch(sink) of a stream, not foreach(sink)"
        )


class _MicroBatch:
    """A sink for one micro-batch of one query."""

    def __init__(self, sink: Sink, query: str | None, batch: int) -> None:
        self._sink = sink
        self._query = query
        self._batch = batch

    def __call__(self, rows: Iterable[Any]) -> None:
        """Write the rows of a partition."""
        self._sink._write(rows, Task.here(query=self._query, batch=self._batch))


def _restored(config: SinkConfig, app: str | None, tally: Tally) -> Sink:
    return Sink(config, app=app, tally=tally)


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
    **producer_settings: Any,
) -> Sink:
    """Make a sink: ``df.foreachPartition(rocketpy.spark.sink("Flights", namesrv="127.0.0.1:9876"))``.

    Args:
        topic: where the messages go; where `columns` names a column for the topic, only those of rows in which that
            is null.
        namesrv: name servers, "a:9876;b:9876" or a list; NAMESRV_ADDR of the driver when left out.
        columns: which column holds what, such as ``{"value": "payload", "keys": "order_id"}``; what is not named is
            taken from the column of its own name. ``{"value": "*"}`` sends the whole row as an object.
        to_message: a function from a row to a new message, or to None for none, in place of topic, columns and format.
        value_format: how the value becomes bytes: "binary", "string", "json", "msgpack", or a serializer.
        bad_rows: "fail", or "skip" for passing over rows that cannot become a message, such as one whose value is null,
            counted.
        failed_sends: "fail", or "count" for giving up what cannot be sent, counted.
        provenance: whether messages say which row they are, so that consumers can drop duplicates.
        batch_size: messages in a frame, at most.
        job_id: stands for the id of the application, or of the streaming query, in provenance; rows of different runs,
            and different queries, need different ones.
        producer_settings: those of `rocketpy.ProducerConfig`, such as `group` and `access_key`. A frame has 30 seconds
            here and 10 tries after the first; with sharding keys only where no broker has taken it.

    Raises:
        ConfigError: a setting cannot be used.
    """
    mapping = RowMapping(topic=topic, columns=columns or {}, value_format=value_format, function=to_message)
    given: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
    return Sink(
        SinkConfig(
            mapping=mapping,
            producer=producer_config(namesrv, producer_settings),
            bad_rows=bad_rows,
            failed_sends=failed_sends,
            provenance=provenance,
            job_id=job_id,
            **given,
        )
    )
