"""DrivenLitePull: carries out what brokers ask of a running lite pull consumer: reset offsets, and report its state.

Java's lite pull consumers do less: they report their state, but ignore offset resets and report no offsets. As in Java,
a request to consume a message directly is refused, because there is no listener. Plays the part of consumerRunningInfo
in DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.requests.driven_push import QUEUES_AT_ONCE
from rocketpy.consumer.requests.queue_resets import SETTLE_SECONDS
from rocketpy.consumer.requests.resets import Resets
from rocketpy.consumer.requests.running_info import info_of, queue_info
from rocketpy.consumer.requests.stacks import stacks_of
from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.consumer.lite.cache import Cache
    from rocketpy.consumer.lite.offsets import NotedOffsets
    from rocketpy.consumer.lite.selection import Selection
    from rocketpy.consumer.rates import ConsumerRates
    from rocketpy.consumer.rebalancing.assignment import Assignment
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["DrivenLitePull"]

logger = get_logger(__name__)


class DrivenLitePull:
    """The `Driven` of a lite pull consumer, which `rocketpy.client.driving` calls.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        selection: its subscribed topics or assigned queues.
        offsets: what it has handed out and committed.
        cache: the messages that it has pulled.
        assignment: the queues that it has.
        rates: recent figures for each topic.
        start: starts an async function as one of the consumer's tasks.
        nursery: returns the nursery of the consumer's tasks.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: LitePullConsumerConfig,
        selection: Selection,
        *,
        offsets: NotedOffsets,
        cache: Cache,
        assignment: Assignment,
        rates: ConsumerRates,
        start: Callable[[Callable[[], Awaitable[None]]], None],
        nursery: Callable[[], trio.Nursery | None],
    ) -> None:
        self._client = client
        self._config = config
        self._selection = selection
        self._offsets = offsets
        self._cache = cache
        self._assignment = assignment
        self._rates = rates
        self._nursery = nursery
        self._started_ms = wall_ms()
        self._resets = Resets(client, config.group, claimed=assignment.claimed, go_to=self._reset, start=start)

    # --- offsets --------------------------------------------------------------------------------------

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """For each of the consumer's queues of a topic, the offset that is committed or will be next."""
        self._cache.collect()
        found = {queue: self._offsets.memory(queue) for queue in self._assignment.queues(topic)}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def note_reset(self, topic: str, offsets: Mapping[MessageQueue, int], *, sender: str) -> None:
        """Note a reset of these queues, for `carry_out_resets`."""
        await self._resets.note(topic, offsets, sender=sender, subscribed=topic in self._selection.topics)

    async def carry_out_resets(self) -> None:
        """Have the consumer continue at the noted offsets and commit them, even without automatic commits.

        Messages handed out before no longer count: acknowledging them has no effect.
        """
        self._resets.carry_out()

    async def _reset(self, wanted: Mapping[MessageQueue, int]) -> None:
        queues = [queue for queue in sorted(wanted) if self._go_to(queue, wanted[queue])]
        self._cache.forget_dropped()
        # A commit by the user may be in flight with the old offsets, and brokers may process the two in any order.
        await trio.sleep(SETTLE_SECONDS)
        self._cache.collect()
        deadline = trio.current_time() + self._client.config.request_timeout
        left = await self._offsets.commit_all(queues, deadline=deadline)
        logger.warning(
            "a broker has reset the offsets of %s: it continues at %s%s",
            self._config.group,
            {str(queue): wanted[queue] for queue in queues[:5]},
            f"; {len(left)} of {len(queues)} are not committed yet: the next commit tries again" if left else "",
        )

    def _go_to(self, queue: MessageQueue, offset: int) -> bool:
        """Pull from an offset next. False if the consumer does not have the queue."""
        puller = self._assignment.get(queue)
        if puller is None:
            return False
        puller.begin_at(offset)
        self._offsets.note(queue, offset)
        return True

    # --- looking --------------------------------------------------------------------------------------

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """The consumer's internal state, with the stacks of its threads and tasks if `with_stacks`."""
        info = info_of(
            self._config,
            self._client,
            self._selection.data(),
            self._rates,
            started_ms=self._started_ms,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            properties={},
        )
        self._cache.collect()
        for number, puller in enumerate(self._assignment):
            queue = puller.process_queue
            info.mq_table[puller.queue] = queue_info(queue, self._offsets.memory(puller.queue), trio.current_time())
            if number % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
        if with_stacks:
            info.jstack = stacks_of(self._nursery())
        return info

    # --- consuming ------------------------------------------------------------------------------------

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Refuse, because a lite pull consumer has no listener.

        Raises:
            BrokerError: always.
        """
        remark = f"{self._config.group} has a lite pull consumer here, which has no listener: choose a push consumer"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
