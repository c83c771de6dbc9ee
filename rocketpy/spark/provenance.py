"""Where a message comes from: which row, of which partition, of which job or micro-batch wrote it.

Spark runs tasks and micro-batches again, and what they had sent before is then sent again. With these properties, which
are the same again as long as Spark computes the same rows in the same order, a consumer tells a repetition from
something new: it keeps what `provenance_of` gives and drops a message whose origin it has seen. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageExt

__all__ = [
    "APP",
    "BATCH",
    "PARTITION",
    "QUERY",
    "ROW",
    "STAGE",
    "Origin",
    "Provenance",
    "provenance_of",
    "without_provenance",
]

APP: Final = "SPARK_APP"
"""The application, or the name the user gave the job."""
QUERY: Final = "SPARK_QID"
"""The streaming query; it belongs to its checkpoint and outlives applications."""
BATCH: Final = "SPARK_BID"
"""The micro-batch of that query, from 0."""
STAGE: Final = "SPARK_STAGE"
"""The stage, in jobs that are no micro-batches; the one of a micro-batch differs when it is run again."""
PARTITION: Final = "SPARK_PART"
"""The partition, from 0."""
ROW: Final = "SPARK_SEQ"
"""The row within the partition, from 1; rows that are skipped count."""

_MOST_DIGITS = 19  # of a number of 64 bits


class Origin(NamedTuple):
    """What tells one row from all others; two messages with equal origins are the same row."""

    topic: str
    """The topic, for one job may write to several."""
    source: str
    """The streaming query, or the application or job."""
    step: int | None
    """The micro-batch of the query, or the stage of the application; None outside of Spark."""
    partition: int
    row: int
    streamed: bool = False
    """Whether the step is a micro-batch; a job and a query with one `job_id` may both have a step 0."""


class Provenance:
    """Marks the messages of one partition; all but the number of the row is made once."""

    def __init__(
        self,
        *,
        partition: int,
        app: str | None = None,
        query: str | None = None,
        batch: int | None = None,
        stage: int | None = None,
    ) -> None:
        facts = {APP: app, QUERY: query, BATCH: batch, STAGE: stage if batch is None else None, PARTITION: partition}
        self._properties = {name: str(fact) for name, fact in facts.items() if fact is not None}

    @property
    def properties(self) -> Mapping[str, str]:
        """The part that all messages of the partition share."""
        return self._properties

    def mark(self, message: Message, row: int) -> Message:
        """Write into a message which row it is. A message that has an origin already is copied and given this one.

        Such a one is a message that a function gives out twice, or one whose properties were read from another topic.
        """
        properties = message.properties
        if ROW in properties:
            message = copy.copy(message)
            message.properties = properties = without_provenance(properties)
        properties.update(self._properties)
        properties[ROW] = str(row)
        return message


def without_provenance(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that do not tell an origin."""
    return {name: text for name, text in properties.items() if name not in _NAMES}


_NAMES = frozenset({APP, QUERY, BATCH, STAGE, PARTITION, ROW})


def provenance_of(message: MessageExt | Message) -> Origin | None:
    """The origin of a message that a sink with provenance has sent; None for any other message.

    It can be hashed and compared, so it goes into a set, and its text into a column of a database that is unique.
    """
    properties = message.properties
    row, partition = _number(properties.get(ROW)), _number(properties.get(PARTITION))
    batch = properties.get(BATCH)
    source = properties.get(APP if batch is None else QUERY)
    step_text = properties.get(STAGE) if batch is None else batch
    step = _number(step_text)
    if row is None or partition is None or not source or (step is None and step_text is not None):
        return None
    return Origin(message.topic, source, step, partition, row, streamed=batch is not None)


def _number(text: str | None) -> int | None:
    """A number that this module wrote; anybody may have written the property."""
    if text is None or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
