"""The lite pull consumer: it pulls messages ahead, and holds them until they are polled."""

from __future__ import annotations

from rocketpy.consumer.lite.consumer import LitePullConsumer
from rocketpy.consumer.lite.status import LitePullConsumerStatistics, LitePullConsumerStatus

__all__ = ["LitePullConsumer", "LitePullConsumerStatistics", "LitePullConsumerStatus"]
