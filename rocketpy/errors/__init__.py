"""Every error that rocketpy raises, in one tree.

::

    RocketMQError
    ├─ ConfigError(ValueError)           ├─ ClientClosedError
    │   └─ OffsetOutOfRangeError         ├─ QueueNotAssignedError
    ├─ TransportError                    ├─ ProtocolError
    │   ├─ ConnectError                  │   ├─ LocalProtocolError
    │   └─ ConnectionLostError           │   └─ RemoteProtocolError
    ├─ RequestTimeoutError(TimeoutError) │       └─ MessageDecodeError
    │   └─ ReplyTimeoutError             ├─ SerializationError
    ├─ RouteNotFoundError                │   └─ UnknownContentTypeError
    │   ├─ NameServerUnreachableError    ├─ SendError, SendManyError
    │   ├─ TopicNotFoundError            ├─ TooManyRequestsError
    │   ├─ TopicNotWritableError         ├─ BrokerError (one class per well-known code)
    │   └─ BrokerUnreachableError        ├─ ServiceCrashedError
    ├─ OffsetStoreError                  ├─ QueueLockedError
    ├─ StoreError                        ├─ RowError
    │   └─ StoreCorruptError             ├─ AlreadyExistsError
    ├─ BrokerNotFoundError               ├─ BrokersFailedError
    ├─ GroupNotFoundError                └─ MessageNotFoundError

Retry logic asks ``error.retriable``, never a list of types. Facts are attributes, so that nobody parses a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.errors.admin import (
    AlreadyExistsError,
    BrokerNotFoundError,
    BrokersFailedError,
    GroupNotFoundError,
    MessageNotFoundError,
)
from rocketpy.errors.broker import (
    BrokerError,
    FilterRefusedError,
    FlowControlError,
    IllegalOperationError,
    InvalidParameterError,
    MessageIllegalError,
    NoPermissionError,
    QueryNotFoundError,
    RequestCodeNotSupportedError,
    ServiceNotAvailableError,
    SubscriptionGroupNotExistError,
    SystemBusyError,
    TopicNotExistError,
)
from rocketpy.errors.root import RocketMQError, SendAttempt
from rocketpy.errors.root import rounded as rounded  # for rocketpy itself
from rocketpy.errors.root import unsent as unsent  # for rocketpy itself
from rocketpy.logs import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AlreadyExistsError",
    "BrokerError",
    "BrokerNotFoundError",
    "BrokerUnreachableError",
    "BrokersFailedError",
    "ClientClosedError",
    "ConfigError",
    "ConnectError",
    "ConnectionLostError",
    "FilterRefusedError",
    "FlowControlError",
    "GroupNotFoundError",
    "IllegalOperationError",
    "InvalidParameterError",
    "LocalProtocolError",
    "MessageDecodeError",
    "MessageIllegalError",
    "MessageNotFoundError",
    "NameServerUnreachableError",
    "NoPermissionError",
    "OffsetOutOfRangeError",
    "OffsetStoreError",
    "ProtocolError",
    "QueryNotFoundError",
    "QueueLockedError",
    "QueueNotAssignedError",
    "RemoteProtocolError",
    "ReplyTimeoutError",
    "RequestCodeNotSupportedError",
    "RequestTimeoutError",
    "RocketMQError",
    "RouteNotFoundError",
    "RowError",
    "SendAttempt",
    "SendError",
    "SendManyError",
    "SerializationError",
    "ServiceCrashedError",
    "ServiceNotAvailableError",
    "StoreCorruptError",
    "StoreError",
    "SubscriptionGroupNotExistError",
    "SystemBusyError",
    "TooManyRequestsError",
    "TopicNotExistError",
    "TopicNotFoundError",
    "TopicNotWritableError",
    "TransportError",
    "UnknownContentTypeError",
]


class ConfigError(RocketMQError, ValueError):
    """A setting or an argument is not usable; nothing was sent."""

    nothing_sent = True


class ClientClosedError(RocketMQError):
    """The client, producer or consumer is not open: not started, closed, or started before a fork."""


class ServiceCrashedError(RocketMQError):
    """A background service met a bug and the client was stopped; ``__cause__`` carries what happened."""


class OffsetOutOfRangeError(ConfigError):
    """The offset to seek to lies outside of its queue.

    Attributes:
        offset: The offset that was asked for.
        min_offset: Offset of the oldest message in the queue.
        max_offset: Offset that the next message of the queue will get.
    """

    def __init__(self, message: str, *, offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(message)
        self.offset = offset
        self.min_offset = min_offset
        self.max_offset = max_offset


class QueueNotAssignedError(RocketMQError):
    """A queue does not, or no longer, belong to this consumer; nothing was changed. Look at `assignment`.

    Attributes:
        queue: The MessageQueue.
    """

    nothing_sent = True

    def __init__(self, message: str, *, queue: tuple[str, str, int]) -> None:
        super().__init__(message)
        self.queue = queue


class TooManyRequestsError(RocketMQError):
    """A bound of our own is reached, for instance of sends in flight; wait and send again."""

    retriable = True
    nothing_sent = True


class SerializationError(RocketMQError, ValueError):
    """A value could not be encoded, or a body could not be decoded."""


class UnknownContentTypeError(SerializationError):
    """No serializer is known for the content type of a message.

    Attributes:
        content_type: The content type of the message.
    """

    def __init__(self, message: str, *, content_type: str) -> None:
        super().__init__(message)
        self.content_type = content_type


# --- the link to a peer ------------------------------------------------------------------------------


class TransportError(RocketMQError):
    """The link to a peer failed.

    Attributes:
        address: The peer as "host:port", or None when it is not known.
    """

    retriable = True

    def __init__(self, message: str, *, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class ConnectError(TransportError):
    """A connection could not be opened.

    Attributes:
        reason: Why, in a few words, such as "connection refused".
    """

    nothing_sent = True

    def __init__(self, message: str, *, address: str | None = None, reason: str | None = None) -> None:
        super().__init__(message, address=address)
        self.reason = message if reason is None else reason


class ConnectionLostError(TransportError):
    """A connection ended while an answer was due; unless `nothing_sent`, whether it was carried out is unknown."""


class RequestTimeoutError(RocketMQError, TimeoutError):
    """No answer came in time; unless `nothing_sent`, whether the request was carried out is unknown.

    Attributes:
        address: The peer as "host:port", or None when none had been reached.
        timeout: The budget of the call in seconds.
    """

    retriable = True

    def __init__(self, message: str, *, address: str | None = None, timeout: float | None = None) -> None:
        super().__init__(message)
        self.address = address
        self.timeout = timeout


class ReplyTimeoutError(RequestTimeoutError):
    """No reply to a request arrived in time. The request was sent; whether a consumer has received it is unknown.

    Attributes:
        correlation_id: The correlation id of the request, which a late reply has too.
    """

    retriable = False

    def __init__(self, message: str, *, timeout: float | None = None, correlation_id: str = "") -> None:
        super().__init__(message, timeout=timeout)
        self.correlation_id = correlation_id


# --- what the bytes say ------------------------------------------------------------------------------


class ProtocolError(RocketMQError):
    """The rules of the remoting protocol were broken."""


class LocalProtocolError(ProtocolError):
    """We were asked to write something that the protocol cannot carry; nothing was sent."""

    nothing_sent = True


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that are not valid."""


class MessageDecodeError(RemoteProtocolError):
    """A stored or pulled message is damaged or cannot be unpacked.

    Attributes:
        position: Offset of the bad record within the bytes that were given, when it is known.
        decoded: The messages before it, which are good.
    """

    def __init__(self, message: str, *, position: int | None = None, decoded: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.decoded = tuple(decoded)


# --- where a topic lives -----------------------------------------------------------------------------


class RouteNotFoundError(RocketMQError):
    """No broker is known that takes or gives messages of a topic; the subclass tells which cause it was.

    Attributes:
        topic: The topic asked for.
        tried: The addresses that were asked, in order.
    """

    retriable = True
    nothing_sent = True

    def __init__(self, message: str, *, topic: str, tried: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.topic = topic
        self.tried = tuple(tried)


class NameServerUnreachableError(RouteNotFoundError):
    """None of the name servers answered."""


class TopicNotFoundError(RouteNotFoundError):
    """The name servers answered, and none knows the topic."""


class TopicNotWritableError(RouteNotFoundError):
    """The topic is known, and no queue of it may be written (or read, for a consumer)."""


class BrokerUnreachableError(RouteNotFoundError):
    """No broker that holds the topic has a usable address or a living master, or no broker is registered at all."""


# --- sending ---------------------------------------------------------------------------------------


class QueueLockedError(RocketMQError):
    """Queues of an orderly consumer cannot be taken yet: another member has the locks, or a listener still runs.

    It is found in `status().errors`; the consumer keeps trying.
    """


class SendError(RocketMQError):
    """Every attempt of a send failed; `attempts` has all of them, and ``__cause__`` is the last error."""

    retriable = True

    def __init__(self, message: str, *, attempts: Sequence[SendAttempt] = ()) -> None:
        super().__init__(message)
        self._attempts = tuple(attempts)

    @property
    def attempts(self) -> tuple[SendAttempt, ...]:
        """The attempts in order."""
        return self._attempts


class SendManyError(RocketMQError):
    """One frame of a `send_many` was not acknowledged; ``__cause__`` says why.

    Attributes:
        first: Position of its first message among those that were given, from 0.
        last: Position of its last message. Those between may have gone in other frames, by topic or queue.
        count: How many messages the frame had.
        keys: The keys of the first one.
        sent: How many messages of the whole call are acknowledged.
    """

    def __init__(
        self, reason: str, *, first: int, last: int, count: int = 1, keys: Sequence[str] = (), sent: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.count = count
        self.keys = tuple(keys)
        self.sent = sent
        named = _of_keys(self.keys)
        which = f"message {first}{named}" if count == 1 else f"{count} messages from {first}{named} to {last}"
        super().__init__(f"{which} of those given to send_many (from 0) could not be sent: {reason}")


# --- rows of a data frame --------------------------------------------------------------------------


class RowError(RocketMQError):
    """A row of a partition cannot be made a message or sent; ``__cause__`` says more where there is more to say.

    Attributes:
        row: Its number within the partition, from 1.
        partition: The number of the partition.
        keys: The keys of its message, as far as they are known.
        reason: What is wrong with it and what to do; never what the row holds.
    """

    def __init__(self, reason: str, *, row: int, partition: int, keys: Sequence[str] = ()) -> None:
        self.reason = reason
        self.row = row
        self.partition = partition
        self.keys = tuple(keys)
        super().__init__(f"row {row} of partition {partition}{_of_keys(self.keys)}: {reason}")


_SHOWN_KEYS, _SHOWN_KEY = 3, 80
"""How many keys an error shows, and how many characters of each."""


def _of_keys(keys: tuple[str, ...]) -> str:
    if not keys:
        return ""
    shown = ", ".join(f"'{printable(key, _SHOWN_KEY)}'" for key in keys[:_SHOWN_KEYS])
    return f" (keys {shown}{', ...' if len(keys) > _SHOWN_KEYS else ''})"


class OffsetStoreError(RocketMQError):
    """Offsets kept outside the brokers, in a file or an `offset_store`, cannot be read or written."""


# --- the store of the reference broker ---------------------------------------------------------------


class StoreError(RocketMQError):
    """The message store cannot do what was asked: no space, an I/O error, locked by another process."""


class StoreCorruptError(StoreError):
    """Files of a store are damaged in a way that recovery must not hide.

    Attributes:
        path: The file.
        offset: Position of the damage within it, when it is known.
    """

    def __init__(self, message: str, *, path: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset


for _name in __all__:
    globals()[_name].__module__ = "rocketpy" if not _name.startswith("Store") else "rocketpy.errors"
del _name
