"""A RocketMQ client in pure Python, on trio.

The names exported here are the trio surface. `rocketpy.sync` offers the same names to blocking code.
The protocol itself (`rocketpy.wire`) does no I/O and may be used alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rocketpy._version import __version__

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.selection import by_hash, by_random
    from rocketpy.config import ClientConfig, LatencyTable, ProducerConfig, PushConsumerConfig
    from rocketpy.consumer import PushConsumer
    from rocketpy.errors import (
        BrokerError,
        BrokerUnreachableError,
        ClientClosedError,
        ConfigError,
        ConnectError,
        ConnectionLostError,
        FlowControlError,
        InvalidParameterError,
        LocalProtocolError,
        MessageDecodeError,
        MessageIllegalError,
        NameServerUnreachableError,
        NoPermissionError,
        ProtocolError,
        QueryNotFoundError,
        RemoteProtocolError,
        RequestCodeNotSupportedError,
        RequestTimeoutError,
        RocketMQError,
        RouteNotFoundError,
        RowError,
        SendAttempt,
        SendError,
        SendManyError,
        SerializationError,
        ServiceCrashedError,
        ServiceNotAvailableError,
        SubscriptionGroupNotExistError,
        SystemBusyError,
        TooManyRequestsError,
        TopicNotExistError,
        TopicNotFoundError,
        TopicNotWritableError,
        TransportError,
    )
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.producer import Producer
    from rocketpy.results import (
        ConsumeFromWhere,
        ConsumeResult,
        MessageModel,
        RetryLater,
        SendManyResult,
        SendResult,
        SendStatus,
    )
    from rocketpy.wire.message_id import OffsetMessageId, UniqueId, decode_offset_message_id, decode_unique_id

__all__ = [
    "BrokerError",
    "BrokerUnreachableError",
    "ClientClosedError",
    "ClientConfig",
    "ConfigError",
    "ConnectError",
    "ConnectionLostError",
    "ConsumeFromWhere",
    "ConsumeResult",
    "FlowControlError",
    "InvalidParameterError",
    "LatencyTable",
    "LocalProtocolError",
    "MQClientInstance",
    "Message",
    "MessageDecodeError",
    "MessageExt",
    "MessageIllegalError",
    "MessageModel",
    "MessageQueue",
    "NameServerUnreachableError",
    "NoPermissionError",
    "OffsetMessageId",
    "Producer",
    "ProducerConfig",
    "ProtocolError",
    "PushConsumer",
    "PushConsumerConfig",
    "QueryNotFoundError",
    "RemoteProtocolError",
    "RequestCodeNotSupportedError",
    "RequestTimeoutError",
    "RetryLater",
    "RocketMQError",
    "RouteNotFoundError",
    "RowError",
    "SendAttempt",
    "SendError",
    "SendManyError",
    "SendManyResult",
    "SendResult",
    "SendStatus",
    "SerializationError",
    "ServiceCrashedError",
    "ServiceNotAvailableError",
    "SubscriptionGroupNotExistError",
    "SystemBusyError",
    "TooManyRequestsError",
    "TopicNotExistError",
    "TopicNotFoundError",
    "TopicNotWritableError",
    "TransportError",
    "UniqueId",
    "__version__",
    "by_hash",
    "by_random",
    "decode_offset_message_id",
    "decode_unique_id",
]

_HOMES = {
    "rocketpy.client.instance": ("MQClientInstance",),
    "rocketpy.client.selection": ("by_hash", "by_random"),
    "rocketpy.config": ("ClientConfig", "LatencyTable", "ProducerConfig", "PushConsumerConfig"),
    "rocketpy.consumer": ("PushConsumer",),
    "rocketpy.message": ("Message", "MessageExt", "MessageQueue"),
    "rocketpy.producer": ("Producer",),
    "rocketpy.results": (
        "ConsumeFromWhere",
        "ConsumeResult",
        "MessageModel",
        "RetryLater",
        "SendManyResult",
        "SendResult",
        "SendStatus",
    ),
    "rocketpy.wire.message_id": ("OffsetMessageId", "UniqueId", "decode_offset_message_id", "decode_unique_id"),
}
"""Where the names live that are not errors: they load on first use, so that a part does not load the rest."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rocketpy' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF.get(name, "rocketpy.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
