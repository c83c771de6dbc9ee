"""What the driver does for a micro-batch or job: it reads the markers before, and stores one after.

A batch job is a micro-batch with the number 0, of a writer with the `job_id` as source.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger
from rocketpy.spark.delivery.marker_log import marker_log
from rocketpy.spark.delivery.markers import BatchId, Writer
from rocketpy.spark.delivery.stored_rows import brokers_of
from rocketpy.spark.delivery.tasks import Run
from rocketpy.spark.settings import EFFECTIVELY_ONCE

if TYPE_CHECKING:
    from rocketpy.spark.settings import SinkConfig

__all__ = ["abort", "batch_id", "check_first", "commit", "is_repeated", "log_repeated", "new_run", "note_written"]

logger = get_logger(__name__)


def batch_id(config: SinkConfig, source: str, number: int = 0) -> BatchId:
    """What identifies a micro-batch.

    Args:
        config: the settings of the sink.
        source: the id of the streaming query, or the `job_id`.
        number: the number of the micro-batch.
    """
    return BatchId(Writer(source, config.mapping.topic), number)


def new_run(config: SinkConfig) -> Run:
    """A new attempt of a micro-batch or job, with what the markers say now.

    Raises:
        RocketMQError: markers cannot be read, or their topic cannot be created.
    """
    log = marker_log(config)
    log.prepare()
    state = log.read_on(check=True)
    brokers = brokers_of(config) if config.delivery == EFFECTIVELY_ONCE else frozenset[str]()
    return Run(name=uuid4().hex, log=state, brokers=brokers)


def is_repeated(run: Run, batch: BatchId) -> bool:
    """Whether a micro-batch has been written already, so that its rows are only drained.

    Raises:
        ConfigError: a later one of the same writer has been.
    """
    if not run.log.markers.is_repeated(batch):
        return False
    log_repeated(batch)
    return True


def log_repeated(batch: BatchId) -> None:
    """Log that a micro-batch had been written before, and that its rows were not sent."""
    logger.warning("micro-batch %d of %s has been written already, and is not sent again", *_named(batch))


def commit(config: SinkConfig, batch: BatchId, run: str, rows: Mapping[int, int] | None = None) -> None:
    """Store the marker of a micro-batch that has been written.

    Args:
        config: the settings of the sink.
        batch: the micro-batch.
        run: the name of the attempt that has written it.
        rows: the number of messages of each partition; None if it is not known.

    Raises:
        RocketMQError: it could not be stored; then the micro-batch has to fail.
    """
    marker_log(config).commit(batch, run, rows)


def abort(config: SinkConfig, batch: BatchId) -> bool:
    """Read whether a micro-batch that Spark aborts has been written nevertheless: its marker may be stored although the
    commit has raised. There is nothing to undo, because RocketMQ takes no message back.

    Raises:
        RocketMQError: markers cannot be read.
    """
    written = marker_log(config).read_on().markers.is_committed(batch)
    if written:
        logger.warning("micro-batch %d of %s is aborted, but has been written: it is not sent again", *_named(batch))
    return written


def _named(batch: BatchId) -> tuple[int, str]:
    return batch.number, batch.writer.source


# --- two frames in one micro-batch ---------------------------------------------------------------------

_MOST_WRITERS: Final = 10_000
_last: dict[Writer, tuple[int, str]] = {}
"""The last micro-batch that this process has written for each writer, and the run of the query."""
_lock = threading.Lock()


def check_first(batch: BatchId, query_run: str | None) -> None:
    """Refuse a second DataFrame for the same topic in one micro-batch: its rows would be taken for those of the first.

    Args:
        batch: the micro-batch.
        query_run: the run of the query, which is another one if the query was started again; None if it is not known.

    Raises:
        ConfigError: this run has written a DataFrame in this micro-batch.
    """
    if query_run is not None and _last.get(batch.writer) == (batch.number, query_run):
        raise ConfigError(
            f"micro-batch {batch.number} has written a DataFrame to the topic {batch.writer.topic or 'of its rows'} "
            "already: give each further sink a job_id of its own"
        )


def note_written(batch: BatchId, query_run: str | None) -> None:
    """Remember what `check_first` refuses."""
    if query_run is None:
        return
    with _lock:
        _last.pop(batch.writer, None)
        _last[batch.writer] = batch.number, query_run
        if len(_last) > _MOST_WRITERS:
            del _last[next(iter(_last))]
