"""Where a partition is written: which application, query or stage, and partition it is.

The driver knows the first, the task of Spark the others; both are the same again when a task or a micro-batch is run
again. Not here: what is made of it.
"""

from __future__ import annotations

import sys
from typing import Any

import attrs

from rocketpy.spark.provenance import Provenance

__all__ = ["Task", "active_context", "application_id", "query_id"]

_QUERY = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the streaming query; it belongs to the checkpoint."""


@attrs.frozen(kw_only=True)
class Task:
    """What tells the rows of one partition from all others."""

    app: str | None = None
    """The id of the application, or what stands for it."""
    query: str | None = None
    """The id of the streaming query; None in a job that is none."""
    batch: int | None = None
    """The micro-batch of that query."""
    stage: int | None = None
    """The stage of the job; None outside of Spark."""
    partition: int = 0
    """The partition, from 0."""
    attempt: int | None = None
    """Which of all attempts at all tasks of the application this is; None outside of Spark's workers."""

    @classmethod
    def here(cls, *, app: str | None = None, query: str | None = None, batch: int | None = None) -> Task:
        """The task that runs in this process; outside of Spark all rows are of partition 0."""
        context = _task_context()
        if context is None:
            return cls(app=app, query=query, batch=batch)
        stage, partition, attempt = context.stageId(), context.partitionId(), context.taskAttemptId()
        return cls(app=app, query=query, batch=batch, stage=stage, partition=partition, attempt=attempt)

    @property
    def is_in_worker(self) -> bool:
        """Whether this process is one of Spark's workers."""
        return self.attempt is not None

    def provenance(self) -> Provenance:
        """What marks its messages."""
        return Provenance(app=self.app, query=self.query, batch=self.batch, stage=self.stage, partition=self.partition)


def _task_context() -> Any:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import TaskContext

    return TaskContext.get()


def active_context() -> Any:
    """The SparkContext of this process; None on executors, under Spark Connect, and without Spark."""
    if "pyspark" not in sys.modules or _is_remote():
        return None
    from pyspark import SparkContext  # which is not there where only the client of Spark Connect is installed

    return SparkContext._active_spark_context


def _is_remote() -> bool:
    from pyspark.sql.utils import is_remote

    return bool(is_remote())


def application_id() -> str | None:
    """The id of the application whose driver this is; None without Spark."""
    if "pyspark" not in sys.modules:
        return None
    if not _is_remote():
        context = active_context()
        return None if context is None else str(context.applicationId)
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return None if session is None else str(session.conf.get("spark.app.id"))


def query_id(frame: Any) -> str | None:
    """The id of the streaming query whose micro-batch a DataFrame is; None where Spark does not tell it."""
    if _is_remote():
        return None
    found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY)
    return None if found is None else str(found)
