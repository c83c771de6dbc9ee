"""Detector: tries to reach brokers that could not be reached, so that they are used again as soon as they answer.

It leaves out brokers that were slow, because only sends show how fast a broker is. Plays the part of the detector of
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
    """Sends a request to every broker that could not be reached, to all of them at once, at an interval.

    Args:
        client: the client, with the routes and the connections.
        fault: the fault strategy, which has these brokers and gets the ones that answer.
        config: the settings, with the interval and the timeout.
    """

    def __init__(self, client: MQClientInstance, fault: MQFaultStrategy, config: ProducerConfig) -> None:
        self._client = client
        self._fault = fault
        self._interval = config.detect_interval
        self._timeout = config.detect_timeout

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Detect at an interval, until cancelled."""
        while True:
            await trio.sleep(self._interval)
            async with trio.open_nursery() as nursery:
                for broker_name in self._fault.unreachable():
                    nursery.start_soon(self._look, broker_name)

    @trio.lowlevel.enable_ki_protection
    async def _look(self, broker_name: str) -> None:
        """Send a harmless request to one broker: whatever it answers, it can be reached."""
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
