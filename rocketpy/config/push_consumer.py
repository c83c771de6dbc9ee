"""What a push consumer is told. Plays the part of the fields of DefaultMQPushConsumer. Pure."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from rocketpy.config.checks import group_name, member, one_of, seconds, whole
from rocketpy.config.client import ClientConfig
from rocketpy.errors import ConfigError
from rocketpy.wire.enums import ConsumeFromWhere, MessageModel

__all__ = ["PushConsumerConfig"]


def _consume_timestamp(_: object, field: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and not (value.isascii() and value.isdigit() and len(value) == 14):
        raise ConfigError(f"{field.name} must look like 20240131235959 (yyyyMMddHHmmss), not {value!r}")


@attrs.frozen(kw_only=True)
class PushConsumerConfig(ClientConfig):
    """How a push consumer pulls and consumes."""

    group: str = attrs.field(validator=group_name, metadata={"java": "consumerGroup"})
    """Name that the consumers of one purpose share; they share the messages too."""
    message_model: MessageModel = attrs.field(
        default=MessageModel.CLUSTERING, validator=member(MessageModel), metadata={"java": "messageModel"}
    )
    """Whether the group shares the messages or every consumer gets all."""
    consume_from_where: ConsumeFromWhere = attrs.field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        validator=member(ConsumeFromWhere),
        metadata={"java": "consumeFromWhere"},
    )
    """Where a group begins in a queue for which it has no offset yet."""
    consume_timestamp: str | None = attrs.field(
        default=None, validator=_consume_timestamp, metadata={"java": "consumeTimestamp"}
    )
    """Local time yyyyMMddHHmmss for CONSUME_FROM_TIMESTAMP; left out, half an hour before the start."""
    allocate_strategy: Literal["averagely", "by_circle"] = attrs.field(
        default="averagely",
        validator=one_of("averagely", "by_circle"),
        metadata={"java": "allocateMessageQueueStrategy"},
    )
    """How the queues of a topic are shared out. All consumers of a group must say the same."""
    rebalance_interval: float = attrs.field(
        default=20.0, validator=seconds(0.01, 3600), metadata={"java": "waitInterval", "scale": 1000}
    )
    """Seconds between two looks at who consumes which queue; changes are acted upon at once."""
    consume_thread_max: int = attrs.field(default=20, validator=whole(1, 1000), metadata={"java": "consumeThreadMax"})
    """Listeners that run at the same time. While several topics are subscribed, up to a quarter of the places is kept
    for topics that have no listener at work."""
    consume_message_batch_max_size: int = attrs.field(
        default=1, validator=whole(1, 1024), metadata={"java": "consumeMessageBatchMaxSize"}
    )
    """Messages that a listener gets at once; over 1 it gets lists."""
    consume_timeout: float = attrs.field(
        default=900.0, validator=seconds(0.01, 86_400), metadata={"java": "consumeTimeout", "scale": 1 / 60}
    )
    """Seconds (minutes in Java) after which a message whose listener does not return is sent back."""
    consume_concurrently_max_span: int = attrs.field(
        default=2000, validator=whole(1, 65_535), metadata={"java": "consumeConcurrentlyMaxSpan"}
    )
    """Distance between the lowest and the highest offset held of a queue, above which pulling waits."""
    pull_threshold_for_queue: int = attrs.field(
        default=1000, validator=whole(1, 65_535), metadata={"java": "pullThresholdForQueue"}
    )
    """Messages held of a queue, above which pulling waits."""
    pull_threshold_size_for_queue: int = attrs.field(
        default=100, validator=whole(1, 1024), metadata={"java": "pullThresholdSizeForQueue"}
    )
    """MiB held of a queue, above which pulling waits."""
    pull_threshold_for_topic: int = attrs.field(
        default=-1, validator=whole(1, 6_553_500, off=-1), metadata={"java": "pullThresholdForTopic"}
    )
    """Messages held of a topic; shared out among the queues that this consumer has. -1: no such bound."""
    pull_threshold_size_for_topic: int = attrs.field(
        default=-1, validator=whole(1, 102_400, off=-1), metadata={"java": "pullThresholdSizeForTopic"}
    )
    """MiB held of a topic; shared out among the queues that this consumer has. -1: no such bound."""
    pull_batch_size: int = attrs.field(default=32, validator=whole(1, 1024), metadata={"java": "pullBatchSize"})
    """Messages to ask for in one pull."""
    pull_interval: float = attrs.field(
        default=0.0, validator=seconds(0, 65.535), metadata={"java": "pullInterval", "scale": 1000}
    )
    """Seconds to wait between an answer and the next pull of a queue."""
    post_subscription_when_pull: bool = attrs.field(default=False, metadata={"java": "postSubscriptionWhenPull"})
    """Whether every pull carries the subscription, for brokers that do not know it from heartbeats."""
    broker_suspend_max_time: float = attrs.field(
        default=15.0, validator=seconds(0, 600), metadata={"java": "BROKER_SUSPEND_MAX_TIME_MILLIS", "scale": 1000}
    )
    """Seconds for which a broker holds a pull that finds nothing."""
    consumer_timeout_when_suspend: float = attrs.field(
        default=30.0,
        validator=seconds(0.01, 600),
        metadata={"java": "CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND", "scale": 1000},
    )
    """Seconds to wait for the answer to a pull; longer than `broker_suspend_max_time`."""
    pull_time_delay_when_exception: float = attrs.field(
        default=3.0, validator=seconds(0.001, 600), metadata={"java": "pullTimeDelayMillsWhenException", "scale": 1000}
    )
    """Seconds to wait before a queue is pulled again after an error."""
    max_reconsume_times: int = attrs.field(
        default=-1, validator=whole(0, off=-1), metadata={"java": "maxReconsumeTimes"}
    )
    """How often a message that failed comes again before it goes to the dead-letter queue. -1: 16 times."""
    start_timeout: float = attrs.field(default=5.0, validator=seconds(0.001, 600), metadata={"java": None})
    """Seconds that a start may take. Queues of a broker that does not answer by then are taken once it does."""
    await_termination: float = attrs.field(
        default=10.0,
        validator=seconds(0, 86_400),
        metadata={"java": "awaitTerminationMillisWhenShutdown", "scale": 1000},
    )
    """Seconds that listeners get to finish when the consumer closes (none in Java). Then offsets are committed and the
    brokers told, within `close_timeout`."""

    def __attrs_post_init__(self) -> None:
        """Fields that only make sense together."""
        if self.consumer_timeout_when_suspend <= self.broker_suspend_max_time:
            raise ConfigError(
                f"consumer_timeout_when_suspend ({self.consumer_timeout_when_suspend:g} s) must be longer than "
                f"broker_suspend_max_time ({self.broker_suspend_max_time:g} s), or held pulls never get their answer"
            )
