"""The settings of a push consumer. Plays the part of the fields of DefaultMQPushConsumer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rocketpy.config.checks import (
    flag,
    function_or_none,
    one_or_none,
    seconds,
    whole,
)
from rocketpy.config.sharing import SharingConfig
from rocketpy.durations import duration
from rocketpy.errors import ConfigError

__all__ = ["MOST_THREADS", "PushConsumerConfig"]

MOST_THREADS = 1000
"""The largest value of `consume_thread_max`."""
_WHAT_IT_GETS = "the message (or the list of messages)"


@attrs.frozen(kw_only=True, repr=False)
class PushConsumerConfig(SharingConfig):
    """The settings of a push consumer: how it pulls, and how it calls listeners."""

    lock_interval: float = attrs.field(
        default=20.0, converter=duration, validator=seconds(0.1, 45), metadata={"java": "lockInterval", "scale": 1000}
    )
    """With `orderly`: seconds between two renewals of the locks that this consumer holds."""
    lock_max_live_time: float = attrs.field(
        default=30.0, converter=duration, validator=seconds(1, 50), metadata={"java": "lockMaxLiveTime", "scale": 1000}
    )
    """With `orderly`: seconds that a lock stays valid without being confirmed by its broker; then its queue waits until
    it is. Must stay well below the 60 s after which brokers free a lock that was not renewed
    (`rocketmq.broker.rebalance.lockMaxLiveTime` there)."""
    consume_thread_max: int = attrs.field(
        default=20, validator=whole(1, MOST_THREADS), metadata={"java": "consumeThreadMax"}
    )
    """Listeners that may run at the same time. With several topics, up to a quarter of them is reserved for topics that
    have no listener running."""
    consume_message_batch_max_size: int = attrs.field(
        default=1, validator=whole(1, 1024), metadata={"java": "consumeMessageBatchMaxSize"}
    )
    """Messages that a listener gets at most in one call. If it is over 1, the listener gets lists."""
    dedupe: str | None = attrs.field(default=None, validator=one_or_none("unique_id", "key"), metadata={"java": None})
    """Whether to acknowledge copies of messages that this consumer has already consumed, without calling the listener:
    "unique_id" for messages that were sent or delivered twice, "key" for messages with the same keys. It remembers the
    last `dedupe_size` messages since the start, and forgets messages that are rolled back and queues whose offsets are
    reset. It does not know which messages are being consumed at the moment, nor what other members consume."""
    dedupe_size: int = attrs.field(default=10_000, validator=whole(1, 10_000_000), metadata={"java": None})
    """Consumed messages that `dedupe` remembers; some 300 bytes each."""
    before_consume: Callable[..., Any] | None = attrs.field(
        default=None, validator=function_or_none(_WHAT_IT_GETS), metadata={"java": None}
    )
    """Called before each listener call, in the same place and with the same argument. An async function is awaited,
    and requires async listeners. If it raises, the listener is not called, and the exception counts as its own."""
    after_consume: Callable[..., Any] | None = attrs.field(
        default=None,
        validator=function_or_none(_WHAT_IT_GETS, "what the listener returned or raised"),
        metadata={"java": None},
    )
    """Called after each listener call, with the listener's argument and what it returned, or the exception that it
    raised. If the hook raises, that counts as the listener's exception. If the listener has raised too, the hook's
    exception is only logged. The hook is not called if `before_consume` has raised, nor for an async listener that is
    cancelled because the consumer closes."""
    consume_timeout: float = attrs.field(
        default=900.0,
        converter=duration,
        validator=seconds(0.01, 86_400),
        metadata={"java": "consumeTimeout", "scale": 1 / 60},
    )
    """Seconds (minutes in Java) that a listener may take; then its message is sent back. With `orderly` it is only
    logged."""
    orderly: bool = attrs.field(default=False, validator=flag, metadata={"java": None})
    """Whether to consume each queue in order, a message only once the previous one is done. In Java the listener
    decides."""
    auto_commit: bool = attrs.field(default=True, validator=flag, metadata={"java": None})
    """With `orderly`: whether success commits. If not, only `ConsumeResult.COMMIT` does."""
    suspend_current_queue_time: float = attrs.field(
        default=1.0,
        converter=duration,
        validator=seconds(0.01, 30),
        metadata={"java": "suspendCurrentQueueTimeMillis", "scale": 1000},
    )
    """With `orderly`: seconds until messages that failed come again, while those behind them wait."""
    consume_concurrently_max_span: int = attrs.field(
        default=2000, validator=whole(1, 65_535), metadata={"java": "consumeConcurrentlyMaxSpan"}
    )
    """Distance between the lowest and the highest offset held from a queue, above which pulling pauses."""
    pull_threshold_for_queue: int = attrs.field(
        default=1000, validator=whole(1, 65_535), metadata={"java": "pullThresholdForQueue"}
    )
    """Messages held from a queue, above which pulling pauses."""
    pull_threshold_size_for_queue: int = attrs.field(
        default=100, validator=whole(1, 1024), metadata={"java": "pullThresholdSizeForQueue"}
    )
    """MiB held from a queue, above which pulling pauses."""
    pull_threshold_for_topic: int = attrs.field(
        default=-1, validator=whole(1, 6_553_500, off=-1), metadata={"java": "pullThresholdForTopic"}
    )
    """Messages held from a topic, divided among the queues that this consumer has. -1: no such bound."""
    pull_threshold_size_for_topic: int = attrs.field(
        default=-1, validator=whole(1, 102_400, off=-1), metadata={"java": "pullThresholdSizeForTopic"}
    )
    """MiB held from a topic, divided among the queues that this consumer has. -1: no such bound."""
    pull_batch_size: int = attrs.field(default=32, validator=whole(1, 1024), metadata={"java": "pullBatchSize"})
    """Messages to ask for in one pull."""
    pull_interval: float = attrs.field(
        default=0.0, converter=duration, validator=seconds(0, 65.535), metadata={"java": "pullInterval", "scale": 1000}
    )
    """Seconds to wait between an answer and the next pull of a queue."""
    post_subscription_when_pull: bool = attrs.field(
        default=False, validator=flag, metadata={"java": "postSubscriptionWhenPull"}
    )
    """Whether every pull carries the subscription, for brokers that do not know it from heartbeats."""
    broker_suspend_max_time: float = attrs.field(
        default=15.0,
        converter=duration,
        validator=seconds(0, 600),
        metadata={"java": "BROKER_SUSPEND_MAX_TIME_MILLIS", "scale": 1000},
    )
    """Seconds for which a broker holds a pull that finds no message."""
    consumer_timeout_when_suspend: float = attrs.field(
        default=30.0,
        converter=duration,
        validator=seconds(0.01, 600),
        metadata={"java": "CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND", "scale": 1000},
    )
    """Seconds to wait for the answer to a pull; must be longer than `broker_suspend_max_time`."""
    max_reconsume_times: int = attrs.field(
        default=-1, validator=whole(0, off=-1), metadata={"java": "maxReconsumeTimes"}
    )
    """How often a message that failed is retried before it goes to the dead-letter queue. -1: 16 times, or without
    limit with `orderly`."""
    await_termination: float = attrs.field(
        default=10.0,
        converter=duration,
        validator=seconds(0, 86_400),
        metadata={"java": "awaitTerminationMillisWhenShutdown", "scale": 1000},
    )
    """Seconds that running listeners get to finish when the consumer closes (0 in Java). Then, within `close_timeout`,
    offsets are committed and the group is left."""

    def __attrs_post_init__(self) -> None:
        """Check fields that depend on each other."""
        if not (self.auto_commit or self.orderly):
            raise ConfigError("auto_commit=False is for consuming in order: set orderly=True too, or leave it out")
        if self.lock_interval >= self.lock_max_live_time:
            raise ConfigError(
                f"lock_interval ({self.lock_interval:g} s) must be shorter than lock_max_live_time "
                f"({self.lock_max_live_time:g} s), or every lock expires before it is renewed"
            )
        if self.consumer_timeout_when_suspend <= self.broker_suspend_max_time:
            raise ConfigError(
                f"consumer_timeout_when_suspend ({self.consumer_timeout_when_suspend:g} s) must be longer than "
                f"broker_suspend_max_time ({self.broker_suspend_max_time:g} s), or pulls time out while held"
            )
