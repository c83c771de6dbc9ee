"""Decides, at the start of a task, whether its partition is written, and which of its messages are stored already."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from rocketpy.spark.delivery.marker_log import LogState, marker_log
from rocketpy.spark.delivery.stored_rows import StoredRows
from rocketpy.spark.partition import write_partition
from rocketpy.spark.settings import EFFECTIVELY_ONCE

if TYPE_CHECKING:
    from rocketpy.spark.counts import Counts
    from rocketpy.spark.delivery.markers import BatchId, Begun, Markers
    from rocketpy.spark.settings import SinkConfig
    from rocketpy.spark.task import Task

__all__ = ["GRACE", "Run", "drain", "write_once"]

GRACE: Final = 1.0
"""Seconds to wait before looking for the messages of an earlier attempt, some of which may still be on their way; and
between two looks, until there is nothing new."""


@attrs.frozen(kw_only=True)
class Run:
    """One attempt of a micro-batch or job, made on the driver. It pickles."""

    name: str
    """Another one for each attempt."""
    log: LogState
    """What the driver has read of the markers."""
    brokers: frozenset[str] = frozenset()
    """Those that had the topic of the sink when the attempt began, as far as that matters."""


def write_once(
    rows: Iterable[Any],
    config: SinkConfig,
    batch: BatchId,
    run: Run,
    task: Task,
    *,
    columns: Sequence[str] | None = None,
) -> Counts | None:
    """Write the rows of a partition, as far as that has not been done before.

    Returns None if the micro-batch has been written, so that the rows were only drained.

    Args:
        rows: all rows of the partition.
        config: the settings, with markers.
        batch: the micro-batch.
        run: the attempt of it.
        task: identifies the partition.
        columns: the columns, if the rows are plain tuples with a value for each of them.

    Raises:
        RowError: a row could not be turned into a message, or its message could not be sent; or the rows are not those
            of an earlier attempt.
        ConfigError: a later micro-batch has been written.
        RocketMQError: markers or topics cannot be read, a marker cannot be stored, or a broker is away that may have
            messages of an earlier attempt.
    """
    log = marker_log(config)
    log.adopt(run.log)
    if run.log.markers.is_repeated(batch):
        drain(rows)
        return None
    marker = None
    if config.delivery == EFFECTIVELY_ONCE:
        marker, markers = log.begin(batch, run.name, task.partition)
    else:
        markers = log.read_on().markers
    if markers.is_repeated(batch):  # by another driver, or a moment ago
        drain(rows)
        return None
    stored = None if marker is None else _stored(config, batch, run, task, marker, markers)
    return write_partition(rows, config, task, columns=columns, stored=stored)


def _stored(config: SinkConfig, batch: BatchId, run: Run, task: Task, marker: str, markers: Markers) -> StoredRows:
    """What finds the messages of earlier attempts of a task, whose own marker is stored."""
    any_partition = config.dedupe_key is not None
    earlier = _earlier(markers, batch, run, task, marker, any_partition=any_partition)
    if not earlier and not task.failures:
        return StoredRows(config, task, None)
    threading.Event().wait(GRACE)
    markers = marker_log(config).read_all(run.log).markers
    if not earlier:  # its marker may have come to another broker a moment ago
        earlier = _earlier(markers, batch, run, task, marker, any_partition=any_partition)
    if earlier and any_partition:  # rows that are this task's now may have been sent before it first began
        earlier = list(markers.begun.get(batch, earlier))
    return StoredRows(config, task, _since(markers, batch, earlier), grace=GRACE, brokers=run.brokers)


def drain(rows: Iterable[Any]) -> None:
    """Take all rows and do nothing with them, because Spark stores the state of a query as its rows are taken."""
    deque(rows, maxlen=0)


def _earlier(
    markers: Markers, batch: BatchId, run: Run, task: Task, marker: str, *, any_partition: bool
) -> list[Begun]:
    """The earlier attempts that may have sent rows of this partition.

    Other partitions of this run are not among them, although rows may move between partitions if Spark computes a
    shuffle again. They have markers in any case, and nothing tells whether they began before that or after it.

    Args:
        markers: what the markers say.
        batch: the micro-batch.
        run: this attempt of it.
        task: this task.
        marker: the marker of this attempt.
        any_partition: whether rows may have been in another partition in an earlier attempt.
    """
    return [
        each
        for each in markers.begun.get(batch, ())
        if each.marker != marker and (each.partition == task.partition or (any_partition and each.run != run.name))
    ]


def _since(markers: Markers, batch: BatchId, earlier: list[Begun]) -> int:
    """When the first of the earlier attempts began; without a marker of it, when the last micro-batch ended."""
    if earlier:
        return min(each.time for each in earlier)
    last = markers.committed.get(batch.writer)
    return 0 if last is None else last.time
