"""The settings of a lite pull consumer. Plays the part of the fields of DefaultLitePullConsumer. Pure."""

from __future__ import annotations

import attrs

from rocketpy.config.checks import flag, seconds, whole
from rocketpy.config.pull_consumer import check_patience
from rocketpy.config.sharing import SharingConfig
from rocketpy.durations import duration

__all__ = ["LitePullConsumerConfig"]


@attrs.frozen(kw_only=True, repr=False)
class LitePullConsumerConfig(SharingConfig):
    """The settings of a lite pull consumer: how it pulls ahead, and when it commits."""

    auto_commit: bool = attrs.field(default=True, validator=flag, metadata={"java": "autoCommit"})
    """Whether to commit, every `auto_commit_interval`, everything handed out before the last poll."""
    auto_commit_interval: float = attrs.field(
        default=5.0,
        converter=duration,
        validator=seconds(0.01, 3600),
        metadata={"java": "autoCommitIntervalMillis", "scale": 1000},
    )
    """Seconds between two automatic commits."""
    poll_timeout: float = attrs.field(
        default=5.0,
        converter=duration,
        validator=seconds(0, 86_400),
        metadata={"java": "pollTimeoutMillis", "scale": 1000},
    )
    """Seconds that `poll` waits for messages when it is called without a timeout."""
    pull_batch_size: int = attrs.field(default=10, validator=whole(1, 1024), metadata={"java": "pullBatchSize"})
    """Messages to ask for in one pull, and the most that `poll` returns when it is called without `max_messages`."""
    pull_threshold_for_all: int = attrs.field(
        default=10_000, validator=whole(1), metadata={"java": "pullThresholdForAll"}
    )
    """Messages held from all queues together, without paused ones, above which pulling pauses."""
    pull_threshold_for_queue: int = attrs.field(
        default=1000, validator=whole(1, 65_535), metadata={"java": "pullThresholdForQueue"}
    )
    """Messages held from a queue, above which pulling pauses. Once `ack` is used, messages handed out and not yet
    acknowledged count too."""
    pull_threshold_size_for_queue: int = attrs.field(
        default=100, validator=whole(1, 1024), metadata={"java": "pullThresholdSizeForQueue"}
    )
    """MiB held from a queue, above which pulling pauses."""
    consume_max_span: int = attrs.field(default=2000, validator=whole(1, 65_535), metadata={"java": "consumeMaxSpan"})
    """Distance between the lowest and the highest offset held from a queue, above which pulling pauses. Once `ack` is
    used, messages handed out and not yet acknowledged count too."""
    broker_suspend_max_time: float = attrs.field(
        default=20.0,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "brokerSuspendMaxTimeMillis", "scale": 1000},
    )
    """Seconds for which a broker may hold a pull that finds no message."""
    consumer_timeout_when_suspend: float = attrs.field(
        default=30.0,
        converter=duration,
        validator=seconds(0.01, 600),
        metadata={"java": "consumerTimeoutMillisWhenSuspend", "scale": 1000},
    )
    """Seconds to wait for the answer to a pull; must be longer than `broker_suspend_max_time`."""

    def __attrs_post_init__(self) -> None:
        """Check fields that depend on each other."""
        check_patience(self.broker_suspend_max_time, self.consumer_timeout_when_suspend)

    @property
    def post_subscription_when_pull(self) -> bool:
        """Always True: every lite pull carries its subscription, which brokers need not know from heartbeats."""
        return True

    @property
    def pull_interval(self) -> float:
        """Always 0: queues are pulled again at once as long as there is room."""
        return 0.0
