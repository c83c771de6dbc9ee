"""Markers: messages that say which micro-batches have begun and ended, and what follows from all of them. Pure.

A marker of a micro-batch that has ended counts for all micro-batches before it. Markers only go forward: the one with
the highest number counts, so it does not matter if one is stored twice, or in which order they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

import attrs

from rocketpy.errors import ConfigError
from rocketpy.message import Message
from rocketpy.spark.provenance import BATCH, PARTITION, QUERY, ROW, number_of
from rocketpy.wire.properties import find_property

__all__ = ["BatchId", "Begun", "Committed", "Markers", "Writer", "begin_message", "commit_message"]

_KIND: Final = "TAGS"
_BEGIN: Final = "begin"
_COMMIT: Final = "commit"
_TOPIC: Final = "SPARK_TOPIC"
_RUN: Final = "SPARK_RUN"
_MARKER: Final = "SPARK_MARKER"


class Writer(NamedTuple):
    """Identifies what writes micro-batches, one after the other."""

    source: str
    """The id of the streaming query, or the `job_id`."""
    topic: str | None
    """The topic of all its messages; None if rows or a function choose it. One query may have a sink for each topic."""


class BatchId(NamedTuple):
    """Identifies a micro-batch of a writer."""

    writer: Writer
    """The writer."""
    number: int
    """The number of the micro-batch, from 0."""


class Begun(NamedTuple):
    """A task has begun to write a partition of a micro-batch."""

    partition: int
    """The partition."""
    run: str
    """The attempt of the micro-batch that the task is part of: another one after a restart."""
    marker: str
    """Identifies this marker, because each attempt of a task stores one."""
    time: int
    """When the broker stored the marker, ms since 1970. The messages of the attempt were stored later."""


class Committed(NamedTuple):
    """A micro-batch has been written."""

    number: int
    """The number of the micro-batch."""
    time: int
    """When the broker stored the marker, ms since 1970."""


# --- markers as messages -------------------------------------------------------------------------------


def begin_message(topic: str, batch: BatchId, run: str, partition: int, marker: str) -> Message:
    """The marker of a task that begins.

    Args:
        topic: the topic of the markers.
        batch: the micro-batch.
        run: the attempt of the micro-batch.
        partition: the partition.
        marker: identifies this marker.
    """
    return _message(
        topic, batch, _BEGIN, {"partition": partition}, {PARTITION: str(partition), _RUN: run, _MARKER: marker}
    )


def commit_message(topic: str, batch: BatchId, run: str, rows: Mapping[int, int] | None) -> Message:
    """The marker of a micro-batch that has been written.

    Args:
        topic: the topic of the markers.
        batch: the micro-batch.
        run: the attempt of the micro-batch.
        rows: the number of messages of each partition; None if it is not known.
    """
    facts = {} if rows is None else {"rows": {str(each): rows[each] for each in sorted(rows)}}
    return _message(topic, batch, _COMMIT, facts, {_RUN: run})


def _message(topic: str, batch: BatchId, kind: str, facts: Mapping[str, object], properties: dict[str, str]) -> Message:
    source, target = batch.writer
    body = {"marker": kind, "query": source, "topic": target, "batch": batch.number, **facts}
    named = {} if target is None else {_TOPIC: target}
    keys = () if any(map(str.isspace, source)) else (source,)  # as keys are separated by spaces
    return Message(
        topic,
        json.dumps(body).encode(),
        tags=kind,
        keys=keys,
        properties={QUERY: source, BATCH: str(batch.number), **named, **properties},
    )


# --- what follows from them ----------------------------------------------------------------------------


@attrs.define
class Markers:
    """What all markers read so far say. It pickles."""

    committed: dict[Writer, Committed] = attrs.Factory(dict)
    """The last micro-batch of each writer that has been written."""
    begun: dict[BatchId, tuple[Begun, ...]] = attrs.Factory(dict)
    """The tasks that have begun, of micro-batches that have not been written."""

    def note(self, properties: bytes, time: int) -> None:
        """Take in a marker. Any other message is ignored.

        Args:
            properties: its properties, encoded.
            time: when it was stored, ms since 1970.
        """
        batch, kind = _batch_of(properties), _text(properties, _KIND)
        if batch is None or _text(properties, ROW) is not None:  # a row may have the same tag
            return
        if kind == _COMMIT:
            self._commit(batch, time)
        elif kind == _BEGIN and not self.is_committed(batch):
            partition = number_of(_text(properties, PARTITION))
            run, marker = _text(properties, _RUN), _text(properties, _MARKER)
            if partition is not None and run is not None and marker is not None:
                self.begun[batch] = (*self.begun.get(batch, ()), Begun(partition, run, marker, time))

    def _commit(self, batch: BatchId, time: int) -> None:
        if self.is_committed(batch):
            return
        self.committed[batch.writer] = Committed(batch.number, time)
        for other in [each for each in self.begun if each.writer == batch.writer and each.number <= batch.number]:
            del self.begun[other]

    def is_committed(self, batch: BatchId) -> bool:
        """Whether a micro-batch has been written, or a later one of the same writer has."""
        last = self.committed.get(batch.writer)
        return last is not None and last.number >= batch.number

    def is_repeated(self, batch: BatchId) -> bool:
        """Whether a micro-batch that is to be written has been written before.

        Raises:
            ConfigError: a later one of the same writer has been. Spark only repeats the last one, so to leave this one
                out could lose its rows.
        """
        last = self.committed.get(batch.writer)
        if last is None or last.number < batch.number:
            return False
        if last.number == batch.number:
            return True
        raise ConfigError(
            f"micro-batch {batch.number} of {batch.writer.source} comes after micro-batch {last.number} has been "
            "written: either another driver writes with the same id, or the checkpoint is a new or an older one; to "
            "write it, give another job_id"
        )

    def copy(self) -> Markers:
        """A copy that does not change."""
        return Markers(self.committed.copy(), self.begun.copy())


def _batch_of(properties: bytes) -> BatchId | None:
    source, number = _text(properties, QUERY), number_of(_text(properties, BATCH))
    return None if source is None or number is None else BatchId(Writer(source, _text(properties, _TOPIC)), number)


def _text(properties: bytes, name: str) -> str | None:
    found = find_property(properties, name.encode())
    return None if found is None else found.decode("utf-8", "replace")
