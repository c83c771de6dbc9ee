"""DrivenPull: carries out requests of brokers to an open pull consumer: it reports its settings.

A pull consumer has no queues, so there are no offsets to report or reset, and no listener, so it refuses to consume a
message directly. Plays the part of consumerRunningInfo in DefaultMQPullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.rates import ConsumerRates
from rocketpy.consumer.requests.running_info import info_of
from rocketpy.consumer.requests.stacks import stacks_of
from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PullConsumerConfig
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["DrivenPull"]

logger = get_logger(__name__)


class DrivenPull:
    """The `Driven` of a pull consumer, which `rocketpy.client.driving` calls.

    Args:
        client: knows the name servers.
        config: the consumer's settings.
    """

    def __init__(self, client: MQClientInstance, config: PullConsumerConfig) -> None:
        self._client = client
        self._config = config
        self._started_ms = wall_ms()

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """Return no offsets, because there are no queues."""
        return {}

    async def note_reset(self, topic: str, offsets: Mapping[MessageQueue, int], *, sender: str) -> None:
        """Ignore a reset: only the program knows where it pulls."""
        logger.info(
            "ignoring a reset of %s by %s: a pull consumer has no queues, its program chooses the offsets",
            self._config.group,
            sender,
        )

    async def carry_out_resets(self) -> None:
        """Do nothing: no resets are noted."""

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Return the settings, and with `with_stacks` the stacks of threads that work for consumers."""
        info = info_of(
            self._config,
            self._client,
            [],
            ConsumerRates(trio.current_time),
            started_ms=self._started_ms,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            properties={},
        )
        if with_stacks:
            info.jstack = stacks_of(None)
        return info

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Refuse, because there is no listener.

        Raises:
            BrokerError: always.
        """
        remark = f"{self._config.group} has a pull consumer here, which has no listener: choose a push consumer"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
