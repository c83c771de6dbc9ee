"""The provenance of a message: the row, the partition, and the job or micro-batch that it comes from.

If Spark runs a task or a micro-batch again, it sends the same messages again. As long as Spark computes the same rows
in the same order, they have the same provenance properties, and the same unique id. So a consumer can be idempotent: it
remembers the results of `provenance_of`, or the unique ids, and drops a message that it has seen. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketpy.message import PropertyName
from rocketpy.wire.properties import decode_properties, encode_properties

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
    "number_of",
    "provenance_of",
]

APP: Final = "SPARK_APP"
"""The id of the application, or the `job_id` that the user has set."""
QUERY: Final = "SPARK_QID"
"""The id of the streaming query, or the `job_id`. The id belongs to the checkpoint, so later applications have it
too."""
BATCH: Final = "SPARK_BID"
"""The number of the micro-batch of that query, from 0."""
STAGE: Final = "SPARK_STAGE"
"""The stage. Not set for micro-batches, because it differs when a micro-batch is run again."""
PARTITION: Final = "SPARK_PART"
"""The number of the partition, from 0."""
ROW: Final = "SPARK_SEQ"
"""The number of the row within the partition, from 1; skipped rows count."""

_LEAD: Final = "\x02SPARK_"
"""Begins every property of a provenance among encoded properties, and perhaps one that the user has set."""
_MOST_DIGITS = 19  # of a number of 64 bits
_UNIQUE_KEY: Final = PropertyName.UNIQUE_KEY


class Origin(NamedTuple):
    """Identifies one row. Two messages with equal origins come from the same row."""

    topic: str
    """The topic, because one job may write to several."""
    source: str
    """The id of the streaming query, or of the application or job."""
    step: int | None
    """The micro-batch of the query, or the stage of the application; None if there is no stage."""
    partition: int
    """The number of the partition within the step."""
    row: int
    """The number of the row within the partition, from 1."""
    streamed: bool = False
    """Whether the step is a micro-batch. A job and a query with the same `job_id` may both have a step 0."""


class Provenance:
    """Marks the messages of one partition. What all of them have in common is made once.

    Args:
        partition: The number of the partition.
        app: The id of the application, or the `job_id`.
        query: The id of the streaming query.
        batch: The number of the micro-batch.
        stage: The stage.
    """

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
        self._encoded = encode_properties(self._properties, refuse_separators=True) + ROW
        names = (APP, STAGE) if batch is None else (QUERY, BATCH)
        self._step = [f"{name}={facts[name]}" for name in names]
        self._heads: dict[str, str] = {}
        """The first digits of the unique ids, by topic."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that all messages of the partition have in common."""
        return self._properties

    def mark(self, message: Message, row: int, key: str | None = None) -> Message:
        """Add the provenance and the unique id to the properties of a message. If it has a provenance already, a copy
        with this one is returned.

        That happens if a function returns the same message twice, or copies the properties of a message that it has
        read from another topic.

        Args:
            message: the message.
            row: the number of its row within the partition, from 1.
            key: identifies the row within its job or micro-batch, in place of the numbers of partition and row.
        """
        properties = self._marked(message.wire_properties, row)
        if properties is not message.wire_properties:
            message = copy.copy(message)
            message.wire_properties = properties
        topic = message.topic
        properties[_UNIQUE_KEY] = self.unique_ids(topic, (row,))[0] if key is None else self.id_of_key(topic, key)
        return message

    def mark_encoded(self, properties: Sequence[str], rows: Sequence[int]) -> list[str]:
        """Add the provenance, but no unique ids, to the encoded properties of several messages.

        Args:
            properties: The encoded properties of each message; one of RocketMQ's own is the first.
            rows: The number of the row of each message.
        """
        encoded = self._encoded
        return [
            f"{text}{encoded}\x01{row}\x02"
            if _LEAD not in text
            else encode_properties(self._marked(decode_properties(text), row))
            for text, row in zip(properties, rows, strict=True)
        ]

    def unique_ids(self, topic: str, rows: Sequence[int]) -> list[str]:
        """The unique ids of the messages of rows: the same each time a row is sent, and different for each row.

        They have the length and the parts of ids that clients make. The number of the row stands where these have a
        time and a counter, so that tools which search from that time on start at the first day of the month.
        """
        head = self._heads.get(topic)
        if head is None:
            head = self._heads[topic] = self._digest("row", topic, self._properties[PARTITION])[:20]
        return [f"{head}{row:012X}" for row in rows]

    def _marked(self, properties: dict[str, str], row: int) -> dict[str, str]:
        """Add the provenance to properties; to a copy if they have one already."""
        if not _NAMES.isdisjoint(properties):
            properties = {name: text for name, text in properties.items() if name not in _NAMES}
        properties.update(self._properties)
        properties[ROW] = str(row)
        return properties

    def id_of_key(self, topic: str, key: str) -> str:
        """The unique id of a message that a key identifies within its job or micro-batch."""
        digest = self._digest("key", topic, key)
        return f"{digest[:20]}00000000{digest[20:]}"

    def _digest(self, kind: str, *parts: str) -> str:
        """24 hexadecimal digits of the job or micro-batch and the parts."""
        # Lengths keep "ab" + "c" from "a" + "bc".
        text = "".join(f"{len(part)}:{part}" for part in (kind, *self._step, *parts))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest().upper()


_NAMES = frozenset({APP, QUERY, BATCH, STAGE, PARTITION, ROW})


def provenance_of(message: MessageExt | Message) -> Origin | None:
    """The origin of a message that was sent with provenance; None for any other message.

    An origin is hashable, so you can keep it in a set, or its text in a unique column of a database.
    """
    properties = message.wire_properties
    row, partition = number_of(properties.get(ROW)), number_of(properties.get(PARTITION))
    batch = properties.get(BATCH)
    source = properties.get(APP if batch is None else QUERY)
    step_text = properties.get(STAGE) if batch is None else batch
    step = number_of(step_text)
    if row is None or partition is None or not source or (step is None and step_text is not None):
        return None
    return Origin(message.topic, source, step, partition, row, streamed=batch is not None)


def number_of(text: str | None) -> int | None:
    """The number in a property, or None: other programs may have written anything into it."""
    if text is None or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
