"""The settings of a pull consumer. Plays the part of the fields of DefaultMQPullConsumer. Pure."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rocketpy.config.checks import group_name, seconds
from rocketpy.config.observed import ObservedConfig
from rocketpy.durations import duration
from rocketpy.errors import ConfigError
from rocketpy.serialization.content_types import OwnSerializers, own_serializers

__all__ = ["PullConsumerConfig", "check_patience"]


def check_patience(hold: float, wait: float) -> None:
    """Check that the client waits for longer than a broker may hold a pull.

    Args:
        hold: `broker_suspend_max_time`, in seconds.
        wait: `consumer_timeout_when_suspend`, in seconds.

    Raises:
        ConfigError: it does not.
    """
    if wait <= hold:
        raise ConfigError(
            f"consumer_timeout_when_suspend ({wait:g} s) must be longer than broker_suspend_max_time ({hold:g} s), or "
            "pulls time out while held"
        )


@attrs.frozen(kw_only=True, repr=False)
class PullConsumerConfig(ObservedConfig):
    """The settings of a pull consumer."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group",)

    serializers: OwnSerializers = attrs.field(default=(), converter=own_serializers, metadata={"java": None})
    """Serializers of your own, one or a list, which decode the `value` of messages with their content types. Those of
    msgpack, json, string and binary are built in; to change the bounds of one of them, give it here."""
    group: str = attrs.field(validator=group_name, metadata={"java": "consumerGroup"})
    """Name under which offsets are kept."""
    broker_suspend_max_time: float = attrs.field(
        default=20.0,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "brokerSuspendMaxTimeMillis", "scale": 1000},
    )
    """Seconds for which a broker may hold a `pull_block_if_not_found` that finds no message."""
    consumer_timeout_when_suspend: float = attrs.field(
        default=30.0,
        converter=duration,
        validator=seconds(0.01, 600),
        metadata={"java": "consumerTimeoutMillisWhenSuspend", "scale": 1000},
    )
    """Seconds that `pull_block_if_not_found` waits for its answer; must be longer than `broker_suspend_max_time`."""
    consumer_pull_timeout: float = attrs.field(
        default=10.0,
        converter=duration,
        validator=seconds(0.01, 600),
        metadata={"java": "consumerPullTimeoutMillis", "scale": 1000},
    )
    """Seconds that `pull` may take when it is called without a timeout."""

    def __attrs_post_init__(self) -> None:
        """Check fields that depend on each other."""
        check_patience(self.broker_suspend_max_time, self.consumer_timeout_when_suspend)
