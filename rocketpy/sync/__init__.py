"""The blocking surface: the names of `rocketpy`, for code without an event loop.

Everything runs on one background trio thread for the process; any thread may use any object. `send_soon` is what this
surface has on top of the others.
"""

from __future__ import annotations

from rocketpy.config import ClientConfig, LatencyTable, ProducerConfig, PushConsumerConfig
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.results import (
    ConsumeFromWhere,
    ConsumeResult,
    MessageModel,
    RetryLater,
    SendResult,
    SendStatus,
)
from rocketpy.sync.client import MQClientInstance
from rocketpy.sync.consumer import PushConsumer
from rocketpy.sync.producer import Producer

__all__ = [
    "ClientConfig",
    "ConsumeFromWhere",
    "ConsumeResult",
    "LatencyTable",
    "MQClientInstance",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "Producer",
    "ProducerConfig",
    "PushConsumer",
    "PushConsumerConfig",
    "RetryLater",
    "SendResult",
    "SendStatus",
]
