"""What a push consumer is told. Plays the part of the fields of DefaultMQPushConsumer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rocketpy.config.checks import (
    function_or_none,
    one_or_none,
    seconds,
    whole,
)
from rocketpy.config.sharing import SharingConfig
from rocketpy.errors import ConfigError

__all__ = ["PushConsumerConfig"]

_WHAT_IT_GETS = "the message (or the list of messages)"


@attrs.frozen(kw_only=True)
class PushConsumerConfig(SharingConfig):
    """How a push consumer pulls and consumes."""

    lock_interval: float = attrs.field(
        default=20.0, validator=seconds(0.1, 45), metadata={"java": "lockInterval", "scale": 1000}
    )
    """Where order counts: seconds after which a broker is asked again for the locks that it has given us."""
    lock_max_live_time: float = attrs.field(
        default=30.0, validator=seconds(1, 50), metadata={"java": "lockMaxLiveTime", "scale": 1000}
    )
    """Where order counts: seconds for which a lock counts that its broker does not confirm; then its queue rests until
    it does. Brokers free a lock 60 s after it was last asked for (`rocketmq.broker.rebalance.lockMaxLiveTime` there):
    this must stay clearly below."""
    consume_thread_max: int = attrs.field(default=20, validator=whole(1, 1000), metadata={"java": "consumeThreadMax"})
    """Listeners that run at the same time. While several topics are subscribed, up to a quarter of the places is kept
    for topics that have no listener at work."""
    consume_message_batch_max_size: int = attrs.field(
        default=1, validator=whole(1, 1024), metadata={"java": "consumeMessageBatchMaxSize"}
    )
    """Messages that a listener gets at once; over 1 it gets lists."""
    dedupe: str | None = attrs.field(default=None, validator=one_or_none("unique_id", "key"), metadata={"java": None})
    """Whether copies of a message that this consumer has consumed are acknowledged without a call of the listener:
    "unique_id" for what a producer or broker has sent twice, "key" for messages with the same keys. It knows the last
    `dedupe_size` messages of this process, and nothing of what is being consumed beside it, nor of other members."""
    dedupe_size: int = attrs.field(default=10_000, validator=whole(1, 10_000_000), metadata={"java": None})
    """Consumed messages that `dedupe` knows; some 200 bytes each."""
    before_consume: Callable[..., Any] | None = attrs.field(
        default=None, validator=function_or_none(_WHAT_IT_GETS), metadata={"java": None}
    )
    """Called before a listener, where that is called, with what it gets. An async one is awaited, and wants async
    listeners. What it raises counts as raised by the listener, which is not called."""
    after_consume: Callable[..., Any] | None = attrs.field(
        default=None,
        validator=function_or_none(_WHAT_IT_GETS, "what the listener returned"),
        metadata={"java": None},
    )
    """Called after a listener that has returned, with what it got and what it returned. What it raises counts as raised
    by the listener."""
    consume_timeout: float = attrs.field(
        default=900.0, validator=seconds(0.01, 86_400), metadata={"java": "consumeTimeout", "scale": 1 / 60}
    )
    """Seconds (minutes in Java) after which a message whose listener does not return is sent back. In order it is only
    told in the log."""
    orderly: bool = attrs.field(default=False, metadata={"java": None})
    """Whether the messages of each queue are consumed one after the other, each once the one before it is done. In
    Java the kind of the listener says so."""
    auto_commit: bool = attrs.field(default=True, metadata={"java": None})
    """Whether success commits, of messages that are consumed in order. Otherwise only `ConsumeResult.COMMIT` does."""
    suspend_current_queue_time: float = attrs.field(
        default=1.0, validator=seconds(0.01, 30), metadata={"java": "suspendCurrentQueueTimeMillis", "scale": 1000}
    )
    """Seconds until messages that failed in order come again, while those behind them wait."""
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
    max_reconsume_times: int = attrs.field(
        default=-1, validator=whole(0, off=-1), metadata={"java": "maxReconsumeTimes"}
    )
    """How often a message that failed comes again before it goes to the dead-letter queue. -1: 16 times, and without
    limit where order counts."""
    await_termination: float = attrs.field(
        default=10.0,
        validator=seconds(0, 86_400),
        metadata={"java": "awaitTerminationMillisWhenShutdown", "scale": 1000},
    )
    """Seconds that listeners get to finish when the consumer closes (none in Java). Then offsets are committed and the
    brokers told, within `close_timeout`."""

    def __attrs_post_init__(self) -> None:
        """Fields that only make sense together."""
        for name in ("orderly", "auto_commit"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be True or False, not {getattr(self, name)!r:.100}")
        if not (self.auto_commit or self.orderly):
            raise ConfigError("auto_commit=False is for consuming in order: set orderly=True too")
        if self.lock_interval >= self.lock_max_live_time:
            raise ConfigError(
                f"lock_interval ({self.lock_interval:g} s) must be shorter than lock_max_live_time "
                f"({self.lock_max_live_time:g} s), or every lock runs out before it is asked for again"
            )
        if self.consumer_timeout_when_suspend <= self.broker_suspend_max_time:
            raise ConfigError(
                f"consumer_timeout_when_suspend ({self.consumer_timeout_when_suspend:g} s) must be longer than "
                f"broker_suspend_max_time ({self.broker_suspend_max_time:g} s), or held pulls never get their answer"
            )
