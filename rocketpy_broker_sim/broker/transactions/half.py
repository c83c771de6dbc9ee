"""Half messages: the form in which a message of a transaction is stored until the transaction has ended.

A half message is in the half topic, with its real topic and queue among its properties. The stored record is the source
of what follows: the message for the real topic, a copy for a check, or a discarded message. These keep body, flags and
birth, and the properties REAL_TOPIC, REAL_QID, TRAN_MSG and PGROUP, as with Apache's broker. Plays the part of
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
from rocketpy_broker_sim.broker.delays.delay import delay_level, target
from rocketpy_broker_sim.broker.putting.put_pipeline import step

if TYPE_CHECKING:
    from rocketpy.message import RecordHead
    from rocketpy_broker_sim.broker.putting.put_pipeline import Put
    from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord
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
"""The only queue of the half topic, and of the op topic."""
_LONGEST_NUMBER = 18
"""The largest number of digits of a number in a property."""


def is_half(properties: dict[str, str], topic: str, reconsume_times: int) -> bool:
    """Whether a message that is sent is a half message.

    Clients before 4.6.1 send back a committed message that could not be consumed with all of its properties.
    """
    if properties.get(PropertyName.TRANSACTION_PREPARED, "").lower() != "true":
        return False
    if reconsume_times <= 0:
        return True
    return (delay_level(properties) or 0) <= 0 and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


class HalfStage:
    """The stage of the put pipeline that puts half messages into the half topic.

    Args:
        refusal: returns code and remark if the queue for the commit cannot be made; None if it can.
        time_refusal: returns the same if the timer does not accept the time of delivery in the properties. Otherwise
            each commit would be refused, because the timer begins then.
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
        """Redirect half messages to the half topic. A message that a service puts is never one."""
        step(puts, self._take)

    def _take(self, put: Put) -> None:
        message, properties = put.message, put.properties
        if put.sent is None or message is None or properties is None:
            return
        if is_half(properties, message.topic, message.reconsume_times):
            put.refusal = self._refusal(message) or self._time_refusal(properties)
            _send_to_half_topic(message, properties)
            put.properties = None  # the later stages handle it when it is committed


def _send_to_half_topic(message: IncomingMessage, properties: dict[str, str]) -> None:
    unique_key = properties.get(PropertyName.UNIQUE_KEY)
    if unique_key:
        properties[PropertyName.TRANSACTION_ID] = unique_key
    properties[PropertyName.REAL_TOPIC] = message.topic
    properties[PropertyName.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id = TRANSACTION_HALF_TOPIC, HALF_QUEUE
    message.sys_flag = with_transaction_type(message.sys_flag, TRANSACTION_NONE)
    message.properties = encode_properties(properties)


# --- what follows a half message ------------------------------------------------------------------------


def committed(record: StoredRecord, store_host: bytes) -> IncomingMessage | None:
    """The message that consumers get; None if it has no valid real topic. `record` must not be used afterwards."""
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
    """The copy of a half message for the end of the half topic; `record` gets the properties of the copy.

    Args:
        record: the half message.
        checked: the number of checks of the copy; that of the half message when None.
        waits_on: whether the copy only lets other half messages be checked; it then has the offset of the first one.
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
    """The discarded form of a half message, for an operator."""
    message = record.message
    message.topic, message.queue_id = TRANSACTION_DISCARD_TOPIC, 0
    return message


# --- properties of half messages -----------------------------------------------------------------------------


def _number(text: str | None) -> int | None:
    """A number in a property, None for anything else."""
    if text is None or len(text) > _LONGEST_NUMBER or not text.isascii() or not text.removeprefix("-").isdigit():
        return None
    return int(text)


def check_times(properties: dict[str, str]) -> int:
    """The number of checks of a half message."""
    return _number(properties.get(PropertyName.TRANSACTION_CHECK_TIMES)) or 0


def first_offset(properties: dict[str, str]) -> int | None:
    """The offset of the first half message, in a copy made before the first check; otherwise None."""
    offset = _number(properties.get(PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET))
    return None if offset is None or offset < 0 else offset


def since_stored(clock: StoredClock, head: RecordHead) -> float:
    """How long ago a half message was stored, ms: by the monotonic clock if that was in this run of the broker."""
    waited = clock.waited_ms(head.physical_offset, head.store_timestamp)
    return clock.even_ms() - head.store_timestamp if waited is None else waited


def is_copy(properties: dict[str, str]) -> bool:
    """Whether a half message is the copy of an earlier one."""
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
