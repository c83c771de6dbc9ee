"""The asyncio surface: the names of `rocketpy`, for code on asyncio.

Connections and services run on one background trio thread for the process. Calls are awaited, and async listeners run,
in the caller's event loop. An object belongs to the event loop in which it was entered.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketpy.admin.dead_letters import DeadLetterReplay
    from rocketpy.aio.admin import Admin
    from rocketpy.aio.client import MQClientInstance
    from rocketpy.aio.consumer import PushConsumer
    from rocketpy.aio.dead_letters import replay_dead_letters
    from rocketpy.aio.lite_pull import LitePullConsumer
    from rocketpy.aio.producer import Producer
    from rocketpy.aio.pull_consumer import PullConsumer
    from rocketpy.aio.transactions import TransactionProducer
    from rocketpy.client.fault_statistics import BrokerFault, FaultStatistics
    from rocketpy.client.meter import SendFigures
    from rocketpy.client.send_hooks import SendContext
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
    from rocketpy.consumer.status import PushConsumerStatus, QueueStatus
    from rocketpy.histogram import Latency
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.message.reply import create_reply_message
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

__all__ = [
    "Admin",
    "AllocateAveragely",
    "AllocateByCircle",
    "AllocateByConfig",
    "AllocateByMachineRoom",
    "AllocateConsistentHash",
    "AllocateMachineRoomNearby",
    "AllocateRequest",
    "BrokerFault",
    "BrokerPulls",
    "BrokerSends",
    "ChecksStatistics",
    "ClientConfig",
    "ClientStatistics",
    "ConsumeFromWhere",
    "ConsumeResult",
    "DeadLetterReplay",
    "FaultStatistics",
    "Latency",
    "LatencyTable",
    "LitePullConsumer",
    "LitePullConsumerConfig",
    "LitePullConsumerStatistics",
    "LitePullConsumerStatus",
    "LocalFileOffsetStore",
    "LocalTransactionState",
    "LockStatus",
    "MQClientInstance",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "OffsetStorage",
    "PeerStatistics",
    "Producer",
    "ProducerConfig",
    "ProducerStatistics",
    "PullConsumer",
    "PullConsumerConfig",
    "PullConsumerStatistics",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushConsumerConfig",
    "PushConsumerStatistics",
    "PushConsumerStatus",
    "QueueStatus",
    "RetryLater",
    "SendContext",
    "SendFigures",
    "SendManyResult",
    "SendResult",
    "SendStatus",
    "Suspend",
    "TopicRates",
    "TransactionProducer",
    "TransactionProducerConfig",
    "TransactionSendResult",
    "create_reply_message",
    "replay_dead_letters",
]

_HOMES = {
    "rocketpy.aio.admin": ("Admin",),
    "rocketpy.aio.client": ("MQClientInstance",),
    "rocketpy.aio.consumer": ("PushConsumer",),
    "rocketpy.aio.lite_pull": ("LitePullConsumer",),
    "rocketpy.aio.dead_letters": ("replay_dead_letters",),
    "rocketpy.aio.producer": ("Producer",),
    "rocketpy.aio.pull_consumer": ("PullConsumer",),
    "rocketpy.aio.transactions": ("TransactionProducer",),
}
"""Where the names live that are this surface's own; the others are those of `rocketpy`. They load on first use."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        where = f": write rocketpy.{name}" if name in import_module("rocketpy").__all__ else ""
        raise AttributeError(f"module 'rocketpy.aio' has no attribute {name!r}{where}")
    value = getattr(import_module(_HOME_OF.get(name, "rocketpy")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
