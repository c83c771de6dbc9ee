"""Consumers: the push consumer, the lite pull consumer and the pull consumer, and what they are made of."""

from __future__ import annotations

from rocketpy.consumer.lite import LitePullConsumer, LitePullConsumerStatistics, LitePullConsumerStatus
from rocketpy.consumer.pull_consumer import PullConsumer
from rocketpy.consumer.push import PushConsumer
from rocketpy.consumer.push_statistics import PushConsumerStatistics
from rocketpy.consumer.rates import TopicRates
from rocketpy.consumer.status import PushConsumerStatus, QueueStatus

__all__ = [
    "LitePullConsumer",
    "LitePullConsumerStatistics",
    "LitePullConsumerStatus",
    "PullConsumer",
    "PushConsumer",
    "PushConsumerStatistics",
    "PushConsumerStatus",
    "QueueStatus",
    "TopicRates",
]
