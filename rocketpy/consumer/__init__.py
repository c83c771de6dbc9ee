"""Consuming: the push consumer and its parts, each an idea of its own."""

from __future__ import annotations

from rocketpy.consumer.push import PushConsumer
from rocketpy.consumer.status import PushConsumerStatistics, PushConsumerStatus, QueueStatus

__all__ = ["PushConsumer", "PushConsumerStatistics", "PushConsumerStatus", "QueueStatus"]
