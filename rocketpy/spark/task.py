"""Identifies a partition: by the application, the query or stage, and the number of the partition.

The driver knows the application and the query, Spark's task the stage and the partition. All of them are the same when
a task is run again; for a micro-batch, its query and number are.
"""

from __future__ import annotations

import sys
from typing import Any

import attrs

from rocketpy.spark.provenance import Provenance

__all__ = ["Task", "active_context", "application_id", "is_speculative", "micro_batch", "query_id", "run_id"]

_QUERY = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the streaming query; it belongs to the checkpoint."""
_BATCH = "streaming.sql.batchId"
"""The local property in which Spark keeps the number of the micro-batch."""
_RUN = "spark.jobGroup.id"
"""The local property in which Spark keeps the id of the run of a streaming query."""


@attrs.frozen(kw_only=True)
class Task:
    """Identifies the rows of one partition."""

    app: str | None = None
    """The id of the application, or the `job_id`."""
    query: str | None = None
    """The id of the streaming query; None in other jobs."""
    batch: int | None = None
    """The number of the micro-batch of that query."""
    stage: int | None = None
    """The stage of the job; None outside of Spark."""
    partition: int = 0
    """The partition, from 0."""
    attempt: int | None = None
    """The id of the attempt, unique in the application; None outside of Spark's workers."""
    failures: int = 0
    """How many attempts of this task Spark has started before."""

    @classmethod
    def here(cls, *, app: str | None = None, query: str | None = None, batch: int | None = None) -> Task:
        """The task that runs in this process. Outside of Spark, the partition is 0."""
        context = _task_context()
        if context is None:
            return cls(app=app, query=query, batch=batch)
        stage, partition, attempt = context.stageId(), context.partitionId(), context.taskAttemptId()
        failures = context.attemptNumber()
        return cls(
            app=app, query=query, batch=batch, stage=stage, partition=partition, attempt=attempt, failures=failures
        )

    @property
    def is_in_worker(self) -> bool:
        """Whether this process is one of Spark's workers."""
        return self.attempt is not None

    def provenance(self) -> Provenance:
        """Marks its messages."""
        return Provenance(app=self.app, query=self.query, batch=self.batch, stage=self.stage, partition=self.partition)


def _task_context() -> Any:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import TaskContext

    return TaskContext.get()


def micro_batch() -> tuple[str | None, int | None]:
    """The id of the streaming query and the number of the micro-batch, in a task; None for what Spark does not say."""
    context = _task_context()
    if context is None:
        return None, None
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    return query, int(batch) if batch is not None and batch.isdigit() else None


def active_context() -> Any:
    """The SparkContext of this process; None on executors, under Spark Connect, and without Spark."""
    if "pyspark" not in sys.modules or _is_remote():
        return None
    from pyspark import SparkContext  # missing if only the client of Spark Connect is installed

    return SparkContext._active_spark_context


def _is_remote() -> bool:
    from pyspark.sql.utils import is_remote

    return bool(is_remote())


def application_id() -> str | None:
    """The id of the application that this driver runs; None without Spark."""
    if "pyspark" not in sys.modules:
        return None
    if not _is_remote():
        context = active_context()
        return None if context is None else str(context.applicationId)
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return None if session is None else str(session.conf.get("spark.app.id"))


def query_id(frame: Any) -> str | None:
    """The id of the streaming query, for the DataFrame of a micro-batch; None if Spark does not provide it."""
    return _local_property(frame, _QUERY)


def run_id(frame: Any) -> str | None:
    """The id of the run of the streaming query, which is another one after each start; None if it is not known."""
    return None if query_id(frame) is None else _local_property(frame, _RUN)


def is_speculative(frame: Any) -> bool:
    """Whether Spark may run a task twice at the same time."""
    return str(frame.sparkSession.conf.get("spark.speculation", "false")).lower() == "true"


def _local_property(frame: Any, name: str) -> str | None:
    if _is_remote():
        return None
    found = frame.sparkSession.sparkContext.getLocalProperty(name)
    return None if found is None else str(found)
