"""DrivenLitePull: what brokers can have a running lite pull consumer do: go on elsewhere, and say how it is.

Java's clients do less: they tell how a lite pull consumer is inside, ignore that it is to go to other offsets, and have
no offsets to tell. There is no listener that could consume a message directly; that is refused, as Java's do. Plays the
part of consumerRunningInfo in DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.driven import QUEUES_AT_ONCE, SETTLE_SECONDS, offsets_to_take
from rocketpy.consumer.running_info import info_of, queue_info
from rocketpy.consumer.stacks import stacks_of
from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.consumer.lite.running import RunningLitePull
    from rocketpy.consumer.lite.wanted import Wishes
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["DrivenLitePull"]

logger = get_logger(__name__)


class DrivenLitePull:
    """A Driven: what `rocketpy.client.driving` calls.

    Args:
        client: how to reach brokers.
        config: of the consumer.
        wishes: what it wants to consume.
        running: what is driven.
        nursery: gives the one below which the consumer's tasks run.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: LitePullConsumerConfig,
        wishes: Wishes,
        running: RunningLitePull,
        *,
        nursery: Callable[[], trio.Nursery | None],
    ) -> None:
        self._client = client
        self._config = config
        self._wishes = wishes
        self._running = running
        self._nursery = nursery
        self._started_ms = wall_ms()
        self._one_at_a_time = trio.Lock()

    # --- offsets --------------------------------------------------------------------------------------

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets that are committed, or will be next, of our queues of a topic."""
        running = self._running
        running.cache.collect()
        found = {queue: running.offsets.memory(queue) for queue in running.assignment.queues(topic)}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets, in those of the queues that are ours, and commit them, however commits are made.

        What was handed out before is not asked for: acknowledging it changes nothing any more.
        """
        wanted = offsets_to_take(self._config.group, topic, offsets, subscribed=topic in self._wishes.topics)
        if not wanted:
            return
        async with self._one_at_a_time:
            queues = [queue for queue in sorted(wanted) if self._go_to(queue, wanted[queue])]
            self._running.cache.forget_dropped()
            # A commit of the user's may be on its way with the old offsets, and brokers take them in no order.
            await trio.sleep(SETTLE_SECONDS)
            self._running.cache.collect()
            deadline = trio.current_time() + self._client.config.request_timeout
            left = await self._running.offsets.commit_all(queues, deadline=deadline)
            logger.warning(
                "%s continues at other offsets, as a broker asked: %s%s",
                self._config.group,
                {str(queue): wanted[queue] for queue in queues[:5]},
                f"; {len(left)} of {len(queues)} are not committed yet and will be tried again" if left else "",
            )

    def _go_to(self, queue: MessageQueue, offset: int) -> bool:
        """Pull from there next. False where the queue is not ours."""
        puller = self._running.assignment.get(queue)
        if puller is None:
            return False
        puller.begin_at(offset)
        self._running.offsets.note(queue, offset)
        return True

    # --- looking --------------------------------------------------------------------------------------

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """How the consumer is, inside; with the stacks of its threads and tasks where they are asked for."""
        running = self._running
        info = info_of(
            self._config,
            self._client,
            self._wishes.data(),
            running.parts.rates,
            started_ms=self._started_ms,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            properties={},
        )
        running.cache.collect()
        for number, puller in enumerate(running.assignment):
            queue = puller.process_queue
            info.mq_table[puller.queue] = queue_info(queue, running.offsets.memory(puller.queue), trio.current_time())
            if number % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
        if with_stacks:
            info.jstack = stacks_of(self._nursery())
        return info

    # --- consuming ------------------------------------------------------------------------------------

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Nobody listens here.

        Raises:
            BrokerError: always.
        """
        remark = f"{self._config.group} is consumed by polling: there is no listener to give a message to"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
