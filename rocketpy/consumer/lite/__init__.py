"""The lite pull consumer: what is pulled ahead waits here until somebody asks for it."""

from __future__ import annotations

from rocketpy.consumer.lite.consumer import LitePullConsumer
from rocketpy.consumer.lite.status import LitePullConsumerStatistics, LitePullConsumerStatus

__all__ = ["LitePullConsumer", "LitePullConsumerStatistics", "LitePullConsumerStatus"]
