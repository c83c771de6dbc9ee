"""The blocking surface: the names of `rocketpy`, for code without an event loop.

Everything runs on one background trio thread for the process; any thread may use any object. `send_soon` is what this
surface has on top of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "SendManyResult",
    "SendResult",
    "SendStatus",
]

_HOMES = {
    "rocketpy.sync.client": ("MQClientInstance",),
    "rocketpy.sync.consumer": ("PushConsumer",),
    "rocketpy.sync.producer": ("Producer",),
}
"""Where the names live that are this surface's own; the others are those of `rocketpy`. They load on first use."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rocketpy.sync' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF.get(name, "rocketpy")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
