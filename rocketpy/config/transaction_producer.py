"""Settings of transaction producers, beyond those of producers. Plays the part of TransactionMQProducer's. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rocketpy.config.checks import topic_name, whole
from rocketpy.config.producer import ProducerConfig
from rocketpy.errors import ConfigError

__all__ = ["TransactionProducerConfig"]


def _topics(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"topics must be a list of names, not {value!r:.100}")
    return tuple(value)


def _all_topics(instance: object, field: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    for name in value:
        topic_name(instance, field, name)


@attrs.frozen(kw_only=True)
class TransactionProducerConfig(ProducerConfig):
    """How a producer sends messages in transactions, and answers brokers that ask about them."""

    topics: tuple[str, ...] = attrs.field(default=(), converter=_topics, validator=_all_topics, metadata={"java": None})
    """Topics whose brokers know the producer from its start, before it sends. After a crash, they can ask it about the
    transactions of the process that crashed."""
    check_thread_pool_max_size: int = attrs.field(
        default=4, validator=whole(1, 1000), metadata={"java": "checkThreadPoolMaxSize"}
    )
    """The number of checkers that run at the same time."""
    check_request_hold_max: int = attrs.field(
        default=2000, validator=whole(1, 1_000_000), metadata={"java": "checkRequestHoldMax"}
    )
    """The number of checks that wait for a checker; further ones are dropped, and the broker asks again."""
