"""Half messages: what a message of a transaction is stored as until its producer says how the transaction ended.

It waits in the half topic with where it was meant to go among its properties. What becomes of it is made of the stored
record: the message for its topic, a copy of itself that is asked about, or one that is set aside. The copies keep body,
flags and birth, and REAL_TOPIC, REAL_QID, TRAN_MSG and PGROUP stay, as with Apache's broker. Plays the part of
TransactionalMessageBridge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketpy.message import PropertyName
from rocketpy.wire.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TRANSACTION_DISCARD_TOPIC,
    TRANSACTION_HALF_TOPIC,
    is_valid_stored_topic,
)
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, with_transaction_type
from rocketpy_broker_sim.broker.delay import delay_level, target

if TYPE_CHECKING:
    from rocketpy.message import RecordHead
    from rocketpy_broker_sim.broker.put_pipeline import Put
    from rocketpy_broker_sim.broker.stored import StoredRecord
    from rocketpy_broker_sim.broker.transactions.window import Key
    from rocketpy_broker_sim.store.clock import StoredClock
    from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = [
    "HALF_QUEUE",
    "HalfStage",
    "check_times",
    "committed",
    "copy_to_half_topic",
    "discarded",
    "first_offset",
    "immunity_ms",
    "is_copy",
    "is_half",
    "since_stored",
    "transaction_key",
]

HALF_QUEUE = 0
"""The half topic has one queue, and so has the topic that tells which half messages have ended."""
_LONGEST_NUMBER = 18
"""Digits of a number in a property that is looked at."""


def is_half(properties: dict[str, str], topic: str, reconsume_times: int) -> bool:
    """Whether a message that is sent is the first half of a transaction.

    Clients before 4.6.1 send a committed message that could not be consumed with the properties that it had.
    """
    if properties.get(PropertyName.TRANSACTION_PREPARED, "").lower() != "true":
        return False
    if reconsume_times <= 0:
        return True
    return (delay_level(properties) or 0) <= 0 and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


class HalfStage:
    """The stage of the put pipeline that lets half messages wait in the half topic.

    Args:
        refusal: code and words of why there may be no queue that a message will be committed to, None when there may.
        time_refusal: the same for the time of delivery that a message asks for, by its properties. It waits for that
            once it is committed, and a commit would be refused again and again.
    """

    watches = frozenset({PropertyName.TRANSACTION_PREPARED})

    def __init__(
        self,
        refusal: Callable[[IncomingMessage], tuple[int, str] | None],
        time_refusal: Callable[[dict[str, str]], tuple[int, str] | None],
    ) -> None:
        self._refusal = refusal
        self._time_refusal = time_refusal

    def take(self, puts: Sequence[Put]) -> None:
        """Send half messages to the half topic. What a service puts is none, whatever it was before."""
        for put in puts:
            message, properties = put.message, put.properties
            if put.sent is None or message is None or properties is None:
                continue
            if is_half(properties, message.topic, message.reconsume_times):
                put.refusal = self._refusal(message) or self._time_refusal(properties)
                _send_to_half_topic(message, properties)
                put.properties = None  # the stages behind this one look at it when it is committed


def _send_to_half_topic(message: IncomingMessage, properties: dict[str, str]) -> None:
    unique_key = properties.get(PropertyName.UNIQUE_KEY)
    if unique_key:
        properties[PropertyName.TRANSACTION_ID] = unique_key
    properties[PropertyName.REAL_TOPIC] = message.topic
    properties[PropertyName.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id = TRANSACTION_HALF_TOPIC, HALF_QUEUE
    message.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_NONE)
    message.properties = encode_properties(properties)


# --- what is made of a stored one ------------------------------------------------------------------------


def committed(record: StoredRecord, store_host: bytes) -> IncomingMessage | None:
    """The message that consumers get; None when it does not say for which topic. `record` is not used afterwards."""
    goal = target(record.properties)
    if goal is None or not is_valid_stored_topic(goal[0]):
        return None
    message = record.message
    message.topic, message.queue_id = goal
    message.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_COMMIT)
    message.prepared_transaction_offset = record.head.physical_offset
    message.store_host = store_host
    return message


def copy_to_half_topic(record: StoredRecord, *, checked: int | None = None, waits_on: bool = False) -> IncomingMessage:
    """A half message that takes the place of one, in the end of the half topic; `record` gets its properties.

    Args:
        record: the one whose place it takes.
        checked: how often its producers have been asked by then; as often as before when None.
        waits_on: whether it was put there only to let others by; it says then where its first copy stood.
    """
    properties = record.properties
    if checked is not None:
        properties[PropertyName.TRANSACTION_CHECK_TIMES] = str(checked)
    if waits_on:
        properties.setdefault(PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET, str(record.head.queue_offset))
    message = record.message
    message.topic, message.queue_id = TRANSACTION_HALF_TOPIC, HALF_QUEUE
    message.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_NONE)
    message.properties = encode_properties(properties)
    return message


def discarded(record: StoredRecord) -> IncomingMessage:
    """A half message as it is set aside for a human to look at."""
    message = record.message
    message.topic, message.queue_id = TRANSACTION_DISCARD_TOPIC, 0
    return message


# --- what its properties say -----------------------------------------------------------------------------


def _number(text: str | None) -> int | None:
    """A number in a property, None for anything else."""
    if text is None or len(text) > _LONGEST_NUMBER or not text.isascii() or not text.removeprefix("-").isdigit():
        return None
    return int(text)


def check_times(properties: dict[str, str]) -> int:
    """How often the producers of a half message have been asked."""
    return _number(properties.get(PropertyName.TRANSACTION_CHECK_TIMES)) or 0


def first_offset(properties: dict[str, str]) -> int | None:
    """Where the first half message stood of a transaction whose producer does not want to be asked; else None."""
    offset = _number(properties.get(PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET))
    return None if offset is None or offset < 0 else offset


def since_stored(clock: StoredClock, head: RecordHead) -> float:
    """How long ago a half message was stored, ms: by the monotonic clock when that was in this run of the broker."""
    waited = clock.waited_ms(head.physical_offset, head.store_timestamp)
    return clock.even_ms() - head.store_timestamp if waited is None else waited


def is_copy(properties: dict[str, str]) -> bool:
    """Whether a half message took the place of an earlier one."""
    return (
        PropertyName.TRANSACTION_CHECK_TIMES in properties
        or PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET in properties
    )


def immunity_ms(properties: dict[str, str], usual_ms: int) -> int | None:
    """How long the producer of a half message does not want to be asked, ms; None when it does not say.

    What is less than the usual time means that time, and so does what is no number.
    """
    text = properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if not text:
        return None
    return max((_number(text) or 0) * 1000, usual_ms)


def transaction_key(properties: dict[str, str]) -> Key:
    """What tells a transaction from all others of its broker: the producer group and the id of the message."""
    return properties.get(PropertyName.PRODUCER_GROUP, ""), properties.get(PropertyName.UNIQUE_KEY, "")
