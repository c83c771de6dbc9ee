"""Looks for brokers that could not be reached, so that they are used again as soon as they are there.

Of a broker that was slow it knows nothing: only sends tell that. Plays the part of the detector of
LatencyFaultToleranceImpl, and of the ServiceDetector of DefaultMQProducerImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.api.offset import max_offset
from rocketpy.errors import BrokerError, RocketMQError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.client.fault import MQFaultStrategy
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import ProducerConfig
    from rocketpy.message import MessageQueue

__all__ = ["Detector"]

logger = get_logger(__name__)


class Detector:
    """Asks every broker that rests because it could not be reached, side by side, at an interval.

    Args:
        client: has the routes and the connections.
        fault: knows which brokers they are, and is told of those that answer.
        config: says how often, and how long an answer may take.
    """

    def __init__(self, client: MQClientInstance, fault: MQFaultStrategy, config: ProducerConfig) -> None:
        self._client = client
        self._fault = fault
        self._interval = config.detect_interval
        self._timeout = config.detect_timeout

    async def run(self) -> None:
        """Look at an interval, until cancelled."""
        while True:
            await trio.sleep(self._interval)
            async with trio.open_nursery() as nursery:
                for broker_name in self._fault.unreachable():
                    nursery.start_soon(self._look, broker_name)

    async def _look(self, broker_name: str) -> None:
        """Ask one broker something harmless: whatever it answers, it can be reached."""
        address = self._client.routes.broker_address(broker_name)
        queue = self._a_queue_of(broker_name)
        if address is None or queue is None:
            return
        try:
            await max_offset(self._client.pool, address, queue, timeout=self._timeout)
        except BrokerError as exc:
            logger.debug("broker %s answers the detector: %s", broker_name, exc)
        except RocketMQError as exc:
            logger.debug("broker %s cannot be reached yet: %s", broker_name, exc)
            return
        self._fault.detected(broker_name)

    def _a_queue_of(self, broker_name: str) -> MessageQueue | None:
        routes = self._client.routes
        for topic in routes.topics():
            info = routes.publish_info(topic)
            for queue in () if info is None else info.queues:
                if routes.broker_name(queue) == broker_name:
                    return queue
        return None
