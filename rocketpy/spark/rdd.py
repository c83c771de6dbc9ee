"""RDDs of messages, from ranges of offsets: for foreachPartition, and for PySpark 3.5, which has no sources in Python.

An RDD reads the same messages as ``format("rocketmq")``, in the same way, and needs neither pyarrow nor pandas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rocketpy.errors import ConfigError
from rocketpy.spark.source.keywords import options_of
from rocketpy.spark.source.messages import MessageRead, TaskRead

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.spark.source.keywords import Bound
    from rocketpy.spark.source.offsets import OffsetRange

__all__ = ["commit_offsets", "offset_ranges", "rdd"]

_READ = "_rocketpy_read"
"""The attribute of an RDD that holds its plan."""


def rdd(
    sc: SparkContext,
    topics: str | Iterable[str] | Iterable[MessageQueue] | Iterable[OffsetRange],
    *,
    namesrv: str | Iterable[str] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    tags: str | None = None,
    sql: str | None = None,
    group: str | None = None,
    fail_on_data_loss: bool = True,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
    **settings: Any,
) -> RDD[MessageExt]:
    """Make an RDD of the messages of a topic: ``rdd(sc, "Flights", namesrv="127.0.0.1:9876")``.

    This call fixes the ranges of offsets, so every action reads the same messages. Each queue with messages is a
    partition, unless the settings below cut it into several.

    Args:
        sc: the SparkContext.
        topics: a topic; a list of topics or queues; or a list of offset ranges, which say where to start and end too.
        namesrv: name servers, "a:9876;b:9876" or a list; when None, NAMESRV_ADDR of the driver.
        start: "earliest", "latest", "committed" (where the group continues), a datetime with a time zone (the first
            message that was stored then or later), or a dict of offsets by queue. Queues that the dict does not name,
            or that have no committed offset, start at the earliest.
        end: "latest", a datetime, or a dict; the message there is not read. Queues that the dict does not name end at
            the latest.
        tags: only messages with these tags, such as "created || paid"; the broker filters.
        sql: only messages that match this SQL92 expression; the broker must have enablePropertyFilter.
        group: the consumer group that pulls name, and whose offsets `commit_offsets` commits.
        fail_on_data_loss: whether messages that are gone are an error, or only a warning.
        min_partitions: how many partitions there should be; large ranges are cut into more parts.
        max_records_per_partition: how many offsets a partition has at most.
        settings: those of `rocketpy.ClientConfig`, such as `access_key`, and those of pulls: `pull_batch_size` (1024),
            `pull_timeout` (30 seconds), and, for requests that fail, `retries` (3) and `retry_interval` (1 second).

    Raises:
        ConfigError: a setting cannot be used, or does not fit the existing queues.
        DataLossError: messages are gone, and `fail_on_data_loss` is true.
        RocketMQError: name servers or brokers do not answer.
    """
    _check_context(sc)
    others = {"min_partitions": min_partitions, "max_records_per_partition": max_records_per_partition, **settings}
    options = options_of(topics, start, end, namesrv, group, {"tags": tags, "sql": sql}, fail_on_data_loss, others)
    return _rdd_of(sc, MessageRead.planned(options))


def _check_context(sc: object) -> None:
    if not callable(getattr(sc, "parallelize", None)):
        raise ConfigError(f"rdd needs a SparkContext, such as spark.sparkContext, not a {type(sc).__name__}")


def _rdd_of(sc: SparkContext, read: MessageRead) -> RDD[MessageExt]:
    parts = read.parts()
    ranges = sc.parallelize(parts, len(parts)) if parts else sc.emptyRDD()
    messages = ranges.mapPartitions(TaskRead(read.options))
    setattr(messages, _READ, read)
    return messages


def offset_ranges(messages: RDD[MessageExt]) -> list[OffsetRange]:
    """The offset ranges of an RDD that `rdd` returned: one for each queue, sorted, including empty ones.

    Raises:
        ConfigError: `rdd` did not return this RDD; `map`, for example, makes another one.
    """
    return list(_read_of(messages).ranges)


def commit_offsets(messages: RDD[MessageExt]) -> None:
    """Commit the ends of the offset ranges of an RDD for its group, so that tools show how far the group is.

    Call this after the action that processes the messages. A later RDD with ``start="committed"`` continues there.

    Raises:
        ConfigError: `rdd` did not return this RDD, it has no group, or nothing has been read from it yet.
        RocketMQError: a broker does not answer, or refuses.
    """
    _read_of(messages).commit()


def _read_of(messages: Any) -> MessageRead:
    found = getattr(messages, _READ, None)
    if not isinstance(found, MessageRead):
        raise ConfigError(
            "only an RDD that rocketpy.spark.rdd returned has offset ranges, not one that was made from it, such as by "
            f"map, nor a {type(messages).__name__}"
        )
    return found
