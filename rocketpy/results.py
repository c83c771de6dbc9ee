"""What comes out of sending, pulling and consuming: plain values, nothing that acts.

Plays the part of SendResult, SendStatus, TransactionSendResult, LocalTransactionState, PullResult, PullStatus,
ConsumeConcurrentlyStatus and of the enumerations that a user gives to a consumer.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, NamedTuple

import attrs

from rocketpy.durations import duration, shown
from rocketpy.errors import ConfigError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.reprs import Short, cut
from rocketpy.wire.enums import ConsumeFromWhere, MessageModel

__all__ = [
    "ConsumeFromWhere",
    "ConsumeResult",
    "LocalTransactionState",
    "MessageModel",
    "PullResult",
    "PullStatus",
    "PulledRecords",
    "RetryLater",
    "SendManyResult",
    "SendResult",
    "SendStatus",
    "Suspend",
    "TransactionSendResult",
]


class SendStatus(Enum):
    """How well a message was stored. Stored it is with every one of them."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Not yet on the disk when the broker answered."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Not yet copied to a slave when the broker answered."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """There was no slave to copy it to."""


class SendResult(NamedTuple):
    """Where a message went. A tuple because one is made for every message that is sent."""

    status: SendStatus
    """How well the message was stored."""
    message_id: str
    """The unique id, made by the producer; for a batch the ids of its messages, joined by commas."""
    offset_message_id: str
    """The id that encodes the broker's address and the position; for a batch, the ids of all messages, joined by
    commas."""
    queue: MessageQueue
    """The queue that it went to."""
    queue_offset: int
    """Offset of the message in its queue, of the first message of a batch."""
    transaction_id: str | None = None
    """The transaction id in the broker's answer; None if it has none."""
    region_id: str = "DefaultRegion"
    """The region that the broker's answer names, or `DefaultRegion`."""
    trace_on: bool = True
    """False if the broker answered that this message is not to be traced."""
    recall_handle: str | None = None
    """The handle for `recall`; None if the message has neither `delay` nor `deliver_at`, or the broker is older than
    RocketMQ 5.3."""

    def __repr__(self) -> str:
        """Status, queue, offset and id, in one line."""
        return cut(f"<SendResult {self.status.name} {self.queue}+{self.queue_offset} {self.message_id}>")


class LocalTransactionState(Enum):
    """The state of a local transaction, which an executor or a checker returns."""

    COMMIT = "COMMIT"
    """Consumers get the message."""
    ROLLBACK = "ROLLBACK"
    """Consumers never get the message."""
    UNKNOWN = "UNKNOWN"
    """The state is not known yet; the broker checks the transaction later."""


@attrs.frozen(repr=False)
class TransactionSendResult:
    """The result of sending a transactional message."""

    send_result: SendResult
    """The result of sending the half message. Its offsets are those of the half topic."""
    transaction_id: str
    """The id of the transaction, which is the unique id of the message."""
    local_state: LocalTransactionState
    """The state of the local transaction. If it did not reach the broker, the broker checks the transaction."""
    error: Exception | None = None
    """The exception that the executor raised, or a ConfigError if it returned anything but a state; then the state is
    UNKNOWN."""

    def __repr__(self) -> str:
        """The states, the queue and the id, in one line; the type of the error if there is one."""
        error = "" if self.error is None else f" {type(self.error).__name__}"
        states = f"{self.local_state.name} {self.status.name}{error}"
        return cut(f"<TransactionSendResult {states} {self.send_result.queue} {self.transaction_id}>")

    @property
    def message_id(self) -> str:
        """The unique id of the message."""
        return self.send_result.message_id

    @property
    def status(self) -> SendStatus:
        """How well the half message was stored; unless it is SEND_OK, the transaction was rolled back."""
        return self.send_result.status


@attrs.frozen
class SendManyResult:
    """What a `send_many` came to. All that it counts is acknowledged, save `failed`; `bytes` are of the bodies."""

    messages: int
    """Messages that are stored."""
    frames: int
    """Requests it took."""
    bytes: int
    """Bytes of the bodies of those messages."""
    failed: int = 0
    """Messages that were given up, and told to `on_failure`."""


class PullStatus(Enum):
    """What came of a pull."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    """Nothing behind this offset."""
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    """Nothing that the filter lets through; go on at the next offset."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The offset is outside of the queue; the next offset is where to go on."""


@attrs.frozen(repr=False)
class PullResult(Short):
    """What a broker had of one queue."""

    _shown_first: ClassVar[tuple[str, ...]] = ("status", "messages", "next_begin_offset")

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageExt] = attrs.Factory(list)
    suggested_broker_id: int = 0
    """Which of the brokers of that name should be asked next; 0 is the master."""


class PulledRecords(NamedTuple):
    """The answer to a pull, its messages not decoded."""

    status: PullStatus
    """Whether there are messages, and if not, why."""
    next_begin_offset: int
    """The offset to pull from next."""
    min_offset: int
    """Offset of the oldest message in the queue."""
    max_offset: int
    """Offset that the next message of the queue will get."""
    suggested_broker_id: int
    """Which broker the next pull should go to; 0 is the master."""
    body: bytes
    """The records, with nothing between them."""
    remark: str | None = None
    """What the broker says of an answer without messages."""


class ConsumeResult(Enum):
    """What a listener may return; None is success too."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"
    """Try again later, when the broker decides, or with `orderly` after `suspend_current_queue_time`."""
    COMMIT = "COMMIT"
    """Success; commits everything in the queue up to this message. For `orderly` with `auto_commit=False`."""
    ROLLBACK = "ROLLBACK"
    """After a pause, try everything since the queue's last COMMIT again. For `orderly` with `auto_commit=False`."""


@attrs.frozen
class RetryLater:
    """Returned by a listener: try the message again after the delay of a level.

    From a listener that takes lists, it applies to the whole list, or to what follows the first `done` messages.
    """

    delay_level: int = attrs.field(default=0)
    """1 to 18 of the broker's table (1 s to 2 h); 0 lets the broker choose, -1 sends to the dead-letter queue."""

    @delay_level.validator
    def _check(self, _: attrs.Attribute[int], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= 1000:
            raise ConfigError(f"delay_level must be -1, 0 or a level of the broker's table, not {value!r:.100}")

    done: int = attrs.field(default=0, kw_only=True)
    """How many messages of the list, counted from the first, are done and do not come again."""

    @done.validator
    def _check_done(self, _: attrs.Attribute[int], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"done must be how many messages of the list are dealt with, not {value!r:.100}")


@attrs.frozen
class Suspend:
    """Returned by a listener of an orderly consumer: its queue pauses, then the same messages come again."""

    seconds: float = attrs.field(converter=duration)
    """0.01 to 30, as in Java; or a timedelta."""

    @seconds.validator
    def _check(self, _: attrs.Attribute[float], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(
                f"a queue may be suspended for 0.01 to 30 seconds: give seconds or a timedelta, not {value!r:.100}"
            )
        if not 0.01 <= value <= 30:
            raise ConfigError(f"a queue may be suspended for 0.01 to 30 seconds, not {shown(value)}")
