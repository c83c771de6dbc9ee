"""The settings of transaction producers. Plays the part of the fields of TransactionMQProducer. Pure."""

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


@attrs.frozen(kw_only=True, repr=False)
class TransactionProducerConfig(ProducerConfig):
    """How a producer sends transactional messages, and answers brokers' checks."""

    topics: tuple[str, ...] = attrs.field(default=(), converter=_topics, validator=_all_topics, metadata={"java": None})
    """Topics whose brokers know the producer from its start, before it sends. After a crash, they can send it the
    checks of the process that crashed."""
    check_thread_pool_max_size: int = attrs.field(
        default=4, validator=whole(1, 1000), metadata={"java": "checkThreadPoolMaxSize"}
    )
    """The largest number of checkers that run at the same time."""
    check_request_hold_max: int = attrs.field(
        default=2000, validator=whole(1, 1_000_000), metadata={"java": "checkRequestHoldMax"}
    )
    """The largest number of checks that wait for a checker. Further checks are dropped; the broker sends them again."""
