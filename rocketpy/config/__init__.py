"""Settings of clients: frozen, checked once when they are made, passed whole. They pickle; clients do not.

Every field says in its metadata which setting of Java it is (`java`, None for one of our own) and by how much the unit
differs (`scale`): Java counts in milliseconds, we count in seconds. Change a config with `attrs.evolve`. Plays the part
of ClientConfig and of the fields of DefaultMQProducer and DefaultMQPushConsumer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketpy.config.client import ClientConfig, parse_addresses
    from rocketpy.config.latency import LatencyTable
    from rocketpy.config.lite_pull_consumer import LitePullConsumerConfig
    from rocketpy.config.producer import ProducerConfig
    from rocketpy.config.pull_consumer import PullConsumerConfig
    from rocketpy.config.push_consumer import PushConsumerConfig
    from rocketpy.config.transaction_producer import TransactionProducerConfig

__all__ = [
    "ClientConfig",
    "LatencyTable",
    "LitePullConsumerConfig",
    "ProducerConfig",
    "PullConsumerConfig",
    "PushConsumerConfig",
    "TransactionProducerConfig",
    "parse_addresses",
]

_HOME_OF = {
    "ClientConfig": "client",
    "LatencyTable": "latency",
    "LitePullConsumerConfig": "lite_pull_consumer",
    "ProducerConfig": "producer",
    "PullConsumerConfig": "pull_consumer",
    "PushConsumerConfig": "push_consumer",
    "TransactionProducerConfig": "transaction_producer",
    "parse_addresses": "client",
}
"""The modules of the names. They load on first use, so a program that only sends loads no settings of consumers."""


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rocketpy.config' has no attribute {name!r}")
    value = getattr(import_module(f"rocketpy.config.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
