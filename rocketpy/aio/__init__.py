"""The asyncio surface: the names of `rocketpy`, for code on asyncio.

Connections and services run on one background trio thread for the process; whoever calls awaits, and async listeners
run, in the caller's own loop. An object belongs to the loop in which it was entered.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketpy.aio.client import MQClientInstance
    from rocketpy.aio.consumer import PushConsumer
    from rocketpy.aio.producer import Producer
    from rocketpy.config import ClientConfig, LatencyTable, ProducerConfig, PushConsumerConfig
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.results import (
        ConsumeFromWhere,
        ConsumeResult,
        MessageModel,
        RetryLater,
        SendManyResult,
        SendResult,
        SendStatus,
    )

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
    "SendManyResult",
    "SendResult",
    "SendStatus",
]

_HOMES = {
    "rocketpy.aio.client": ("MQClientInstance",),
    "rocketpy.aio.consumer": ("PushConsumer",),
    "rocketpy.aio.producer": ("Producer",),
}
"""Where the names live that are this surface's own; the others are those of `rocketpy`. They load on first use."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rocketpy.aio' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF.get(name, "rocketpy")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
