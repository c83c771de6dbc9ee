"""Reading the half topic and the op topic.

Messages that are damaged, or gone from the log, are skipped: a half message that cannot be read cannot be committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy.errors import MessageDecodeError
from rocketpy.logs import get_logger
from rocketpy.message import PropertyName
from rocketpy.wire.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rocketpy_broker_sim.broker.putting.stored_records import stored_records
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.broker.transactions.ops import offsets_of

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord
    from rocketpy_broker_sim.store.message_reads import MessageReads

__all__ = ["half_messages", "op_messages"]

log = get_logger(__name__)

_A_READ = 32
_BYTES_A_READ = 64 * 1024


def half_messages(reads: MessageReads, offset: int, end: int, most: int = _A_READ) -> Iterator[StoredRecord]:
    """Up to `most` half messages from an offset on, before `end`; empty if the first one is missing or damaged.

    Raises:
        StoreError: the disk refused.
    """
    return _records(reads, TRANSACTION_HALF_TOPIC, offset, min(end - offset, most))


def op_messages(reads: MessageReads, offset: int) -> Iterator[tuple[int, list[int]]]:
    """All op messages from an offset on: the offset of each, and those of the half messages in it.

    Raises:
        StoreError: the disk refused.
    """
    end = reads.max_offset(TRANSACTION_OP_TOPIC, HALF_QUEUE)
    while offset < end:
        following = offset + 1
        for record in _records(reads, TRANSACTION_OP_TOPIC, offset, _A_READ):
            following = record.head.queue_offset + 1
            yield record.head.queue_offset, offsets_of(record.properties.get(PropertyName.TAGS), record.message.body)
        offset = following


def _records(reads: MessageReads, topic: str, offset: int, most: int) -> Iterator[StoredRecord]:
    found = reads.get(topic, HALF_QUEUE, offset, most, max_bytes=_BYTES_A_READ)
    try:
        yield from stored_records(found.records)
    except MessageDecodeError as exc:
        log.error("a message of %s from offset %d on is damaged: %s", topic, offset, exc)
