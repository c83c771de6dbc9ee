"""A RocketMQ client in pure Python, on trio.

The names exported here are the trio surface. `rocketpy.sync` offers the same names to blocking code.
The protocol itself (`rocketpy.wire`) does no I/O and may be used alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rocketpy._version import __version__

if TYPE_CHECKING:
    from rocketpy.admin.admin import Admin
    from rocketpy.admin.dead_letters import DeadLetterReplay
    from rocketpy.client.fault_statistics import BrokerFault, FaultStatistics
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.meter import SendFigures
    from rocketpy.client.send_hooks import SendContext
    from rocketpy.client.sends.selection import by_hash, by_random
    from rocketpy.client.statistics import ClientStatistics, PeerStatistics
    from rocketpy.config import (
        ClientConfig,
        LatencyTable,
        LitePullConsumerConfig,
        ProducerConfig,
        PullConsumerConfig,
        PushConsumerConfig,
        TransactionProducerConfig,
    )
    from rocketpy.consumer import LitePullConsumer, PullConsumer, PushConsumer
    from rocketpy.consumer.lite.status import LitePullConsumerStatistics, LitePullConsumerStatus
    from rocketpy.consumer.locks.lock_refusals import LockStatus
    from rocketpy.consumer.offsets.local_file_offset_store import LocalFileOffsetStore
    from rocketpy.consumer.offsets.offset_storage import OffsetStorage
    from rocketpy.consumer.pull_statistics import PullConsumerStatistics
    from rocketpy.consumer.push_statistics import PushConsumerStatistics
    from rocketpy.consumer.rates import BrokerPulls, TopicRates
    from rocketpy.consumer.rebalancing.strategies import (
        AllocateAveragely,
        AllocateByCircle,
        AllocateByConfig,
        AllocateByMachineRoom,
        AllocateConsistentHash,
        AllocateMachineRoomNearby,
        AllocateRequest,
    )
    from rocketpy.consumer.replay import replay_dead_letters
    from rocketpy.consumer.status import PushConsumerStatus, QueueStatus
    from rocketpy.errors import (
        AlreadyExistsError,
        BrokerError,
        BrokerNotFoundError,
        BrokersFailedError,
        BrokerUnreachableError,
        ClientClosedError,
        ConfigError,
        ConnectError,
        ConnectionLostError,
        FilterRefusedError,
        FlowControlError,
        GroupNotFoundError,
        IllegalOperationError,
        InvalidParameterError,
        LocalProtocolError,
        MessageDecodeError,
        MessageIllegalError,
        MessageNotFoundError,
        NameServerUnreachableError,
        NoPermissionError,
        OffsetOutOfRangeError,
        OffsetStoreError,
        ProtocolError,
        QueryNotFoundError,
        QueueLockedError,
        QueueNotAssignedError,
        RemoteProtocolError,
        ReplyTimeoutError,
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
        UnknownContentTypeError,
    )
    from rocketpy.histogram import Latency
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.message.reply import create_reply_message
    from rocketpy.producer import Producer, TransactionProducer
    from rocketpy.producer.checks import ChecksStatistics
    from rocketpy.producer.statistics import BrokerSends, ProducerStatistics
    from rocketpy.results import (
        ConsumeFromWhere,
        ConsumeResult,
        LocalTransactionState,
        MessageModel,
        PullResult,
        PullStatus,
        RetryLater,
        SendManyResult,
        SendResult,
        SendStatus,
        Suspend,
        TransactionSendResult,
    )
    from rocketpy.trace.decoding import TraceRecord, decode_traces
    from rocketpy.wire.message_id import OffsetMessageId, UniqueId, decode_offset_message_id, decode_unique_id

__all__ = [
    "Admin",
    "AllocateAveragely",
    "AllocateByCircle",
    "AllocateByConfig",
    "AllocateByMachineRoom",
    "AllocateConsistentHash",
    "AllocateMachineRoomNearby",
    "AllocateRequest",
    "AlreadyExistsError",
    "BrokerError",
    "BrokerFault",
    "BrokerNotFoundError",
    "BrokerPulls",
    "BrokerSends",
    "BrokerUnreachableError",
    "BrokersFailedError",
    "ChecksStatistics",
    "ClientClosedError",
    "ClientConfig",
    "ClientStatistics",
    "ConfigError",
    "ConnectError",
    "ConnectionLostError",
    "ConsumeFromWhere",
    "ConsumeResult",
    "DeadLetterReplay",
    "FaultStatistics",
    "FilterRefusedError",
    "FlowControlError",
    "GroupNotFoundError",
    "IllegalOperationError",
    "InvalidParameterError",
    "Latency",
    "LatencyTable",
    "LitePullConsumer",
    "LitePullConsumerConfig",
    "LitePullConsumerStatistics",
    "LitePullConsumerStatus",
    "LocalFileOffsetStore",
    "LocalProtocolError",
    "LocalTransactionState",
    "LockStatus",
    "MQClientInstance",
    "Message",
    "MessageDecodeError",
    "MessageExt",
    "MessageIllegalError",
    "MessageModel",
    "MessageNotFoundError",
    "MessageQueue",
    "NameServerUnreachableError",
    "NoPermissionError",
    "OffsetMessageId",
    "OffsetOutOfRangeError",
    "OffsetStorage",
    "OffsetStoreError",
    "PeerStatistics",
    "Producer",
    "ProducerConfig",
    "ProducerStatistics",
    "ProtocolError",
    "PullConsumer",
    "PullConsumerConfig",
    "PullConsumerStatistics",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushConsumerConfig",
    "PushConsumerStatistics",
    "PushConsumerStatus",
    "QueryNotFoundError",
    "QueueLockedError",
    "QueueNotAssignedError",
    "QueueStatus",
    "RemoteProtocolError",
    "ReplyTimeoutError",
    "RequestCodeNotSupportedError",
    "RequestTimeoutError",
    "RetryLater",
    "RocketMQError",
    "RouteNotFoundError",
    "RowError",
    "SendAttempt",
    "SendContext",
    "SendError",
    "SendFigures",
    "SendManyError",
    "SendManyResult",
    "SendResult",
    "SendStatus",
    "SerializationError",
    "ServiceCrashedError",
    "ServiceNotAvailableError",
    "SubscriptionGroupNotExistError",
    "Suspend",
    "SystemBusyError",
    "TooManyRequestsError",
    "TopicNotExistError",
    "TopicNotFoundError",
    "TopicNotWritableError",
    "TopicRates",
    "TraceRecord",
    "TransactionProducer",
    "TransactionProducerConfig",
    "TransactionSendResult",
    "TransportError",
    "UniqueId",
    "UnknownContentTypeError",
    "__version__",
    "by_hash",
    "by_random",
    "create_reply_message",
    "decode_offset_message_id",
    "decode_traces",
    "decode_unique_id",
    "replay_dead_letters",
]

_HOMES = {
    "rocketpy.admin.admin": ("Admin",),
    "rocketpy.client.fault_statistics": ("BrokerFault", "FaultStatistics"),
    "rocketpy.client.meter": ("SendFigures",),
    "rocketpy.client.statistics": (
        "ClientStatistics",
        "PeerStatistics",
    ),
    "rocketpy.histogram": ("Latency",),
    "rocketpy.client.instance": ("MQClientInstance",),
    "rocketpy.client.sends.selection": ("by_hash", "by_random"),
    "rocketpy.client.send_hooks": ("SendContext",),
    "rocketpy.config": (
        "ClientConfig",
        "LatencyTable",
        "LitePullConsumerConfig",
        "ProducerConfig",
        "PullConsumerConfig",
        "PushConsumerConfig",
        "TransactionProducerConfig",
    ),
    "rocketpy.consumer": ("LitePullConsumer", "PullConsumer", "PushConsumer"),
    "rocketpy.admin.dead_letters": ("DeadLetterReplay",),
    "rocketpy.consumer.replay": ("replay_dead_letters",),
    "rocketpy.consumer.lite.status": ("LitePullConsumerStatistics", "LitePullConsumerStatus"),
    "rocketpy.consumer.locks.lock_refusals": ("LockStatus",),
    "rocketpy.consumer.pull_statistics": ("PullConsumerStatistics",),
    "rocketpy.consumer.rates": ("BrokerPulls", "TopicRates"),
    "rocketpy.consumer.push_statistics": ("PushConsumerStatistics",),
    "rocketpy.consumer.status": ("PushConsumerStatus", "QueueStatus"),
    "rocketpy.consumer.offsets.local_file_offset_store": ("LocalFileOffsetStore",),
    "rocketpy.consumer.offsets.offset_storage": ("OffsetStorage",),
    "rocketpy.consumer.rebalancing.strategies": (
        "AllocateAveragely",
        "AllocateByCircle",
        "AllocateByConfig",
        "AllocateByMachineRoom",
        "AllocateConsistentHash",
        "AllocateMachineRoomNearby",
        "AllocateRequest",
    ),
    "rocketpy.message": ("Message", "MessageExt", "MessageQueue"),
    "rocketpy.message.reply": ("create_reply_message",),
    "rocketpy.producer": ("Producer", "TransactionProducer"),
    "rocketpy.producer.checks": ("ChecksStatistics",),
    "rocketpy.producer.statistics": ("BrokerSends", "ProducerStatistics"),
    "rocketpy.results": (
        "ConsumeFromWhere",
        "ConsumeResult",
        "LocalTransactionState",
        "MessageModel",
        "PullResult",
        "PullStatus",
        "RetryLater",
        "SendManyResult",
        "SendResult",
        "SendStatus",
        "Suspend",
        "TransactionSendResult",
    ),
    "rocketpy.trace.decoding": ("TraceRecord", "decode_traces"),
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
