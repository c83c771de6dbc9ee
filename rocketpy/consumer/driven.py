"""DrivenConsumer: carries out what brokers ask of a running push consumer.

To reset its offsets while it consumes, it drops the queues concerned, gives listeners that still have messages of them
some time to finish, awaits `on_revoked`, and commits the new offsets; only then it rebalances. Plays the part of
resetOffset, getConsumerStatus and consumeMessageDirectly in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.directly import DirectCall, listener_argument
from rocketpy.consumer.running_info import info_of, queue_info
from rocketpy.consumer.stacks import stacks_of
from rocketpy.errors import BrokerError
from rocketpy.logs import counted, get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.assignment import Assignment
    from rocketpy.consumer.consume_service import ConsumeService
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.pull_parts import PullParts
    from rocketpy.consumer.rebalance import Rebalance
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["QUEUES_AT_ONCE", "SETTLE_SECONDS", "DrivenConsumer", "offsets_to_take"]

logger = get_logger(__name__)

SETTLE_SECONDS = 1.0
"""Seconds between dropping queues and committing other offsets: a pull on its way may carry the old offset, and brokers
may process pulls and commits in any order."""
LISTENER_SECONDS = 10.0
"""Seconds that listeners get to finish messages of dropped queues. Java always waits that long."""
_LOOK_EVERY = 0.05
"""Seconds between looks at running calls: runners report that calls have ended, but not which ones."""
QUEUES_AT_ONCE = 32


def offsets_to_take(
    group: str, topic: str, offsets: Mapping[MessageQueue, int], *, subscribed: bool
) -> dict[MessageQueue, int]:
    """The offsets of a broker's reset request that can be used; the others are logged and ignored.

    Args:
        group: the consumer's group.
        topic: the topic that the broker names.
        offsets: the offsets in the request.
        subscribed: whether the consumer subscribes to the topic.
    """
    wanted = {queue: offset for queue, offset in offsets.items() if queue.topic == topic and offset >= 0 and subscribed}
    if len(wanted) < len(offsets) or not subscribed:
        logger.warning(
            "%s: ignoring %d of %s in a reset: their topic is not subscribed, or they are negative",
            group,
            len(offsets) - len(wanted),
            counted(len(offsets), "offset"),
        )
    return wanted


class DrivenConsumer:
    """The `Driven` of a push consumer, which `rocketpy.client.driving` calls.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        subscriptions: its subscriptions and listeners.
        parts: what pullers share, such as offsets and rates.
        consume: calls listeners.
        assignment: the queues that the consumer has.
        rebalance: shares queues out.
        in_loop: has a plain function called in the loop, from any thread.
        now: the time of the loop, for any thread.
        nursery: returns the nursery of the consumer's tasks.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: PushConsumerConfig,
        subscriptions: Subscriptions,
        parts: PullParts,
        consume: ConsumeService,
        assignment: Assignment,
        rebalance: Rebalance,
        *,
        in_loop: Callable[[Callable[[], object]], None],
        now: Callable[[], float],
        nursery: Callable[[], trio.Nursery | None],
    ) -> None:
        self._client = client
        self._config = config
        self._subscriptions = subscriptions
        self._parts = parts
        self._consume = consume
        self._assignment = assignment
        self._rebalance = rebalance
        self._in_loop = in_loop
        self._now = now
        self._nursery = nursery
        self._started_ms = wall_ms()
        self._one_at_a_time = trio.Lock()

    # --- offsets --------------------------------------------------------------------------------------

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """For each of the consumer's queues of a topic, the offset that is committed or will be next."""
        self._consume.collect()
        found = {queue: self._parts.offsets.memory(queue) for queue in self._assignment.queues(topic)}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets in the queues that the consumer has; other queues are unaffected."""
        subscribed = self._subscriptions.get(topic) is not None
        wanted = offsets_to_take(self._config.group, topic, offsets, subscribed=subscribed)
        if not wanted:
            return
        async with self._one_at_a_time:
            await self._reset(wanted)

    async def _reset(self, wanted: Mapping[MessageQueue, int]) -> None:
        store = self._parts.offsets
        self._consume.collect()
        queues, dropped = self._assignment.withhold(wanted)
        try:
            await trio.sleep(SETTLE_SECONDS)
            await self._let_finish(dropped)
            await self._assignment.tell_withheld(queues)
            for queue in wanted:
                self._parts.consumed.forget_queue(queue)
            for queue in queues:
                store.update(queue, wanted[queue])
            left = await store.commit_all(queues, deadline=trio.current_time() + self._config.request_timeout)
            logger.warning(
                "%s continues at other offsets, as a broker asked: %s%s",
                self._config.group,
                {str(queue): wanted[queue] for queue in queues[:5]},
                f"; {len(left)} of {len(queues)} could not be committed and stay as they were" if left else "",
            )
        finally:
            for queue in queues:
                store.remove(queue)
            self._assignment.admit(wanted)
            self._rebalance.soon()

    async def _let_finish(self, dropped: Collection[ProcessQueue]) -> None:
        """Wait until no listener has a message of these queues, for `LISTENER_SECONDS` at most."""
        with trio.move_on_after(LISTENER_SECONDS) as waiting:
            while any(call[1] in dropped for call, _ in self._consume.running()):  # noqa: ASYNC110  see _LOOK_EVERY
                await trio.sleep(_LOOK_EVERY)
        if waiting.cancelled_caught:
            logger.warning("%s: listeners still have messages from before the reset", self._config.group)

    # --- looking --------------------------------------------------------------------------------------

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """The consumer's internal state, with the stacks of its threads and tasks if `with_stacks`."""
        parts = self._parts
        info = info_of(
            self._config,
            self._client,
            self._subscriptions.data(),
            parts.rates,
            started_ms=self._started_ms,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            properties={
                "PROP_CONSUMEORDERLY": str(self._config.orderly).lower(),
                "PROP_THREADPOOL_CORE_SIZE": str(self._config.consume_thread_max),
            },
        )
        locks = self._assignment.locks(self._now())
        for number, puller in enumerate(self._assignment):
            queue, lock = puller.process_queue, locks.get(puller.queue)
            info.mq_table[puller.queue] = queue_info(
                queue,
                parts.offsets.memory(puller.queue),
                self._now(),
                in_order=self._consume.in_order(queue),
                locked=lock is not None and lock.held,
            )
            if number % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                await trio.lowlevel.checkpoint()
        if with_stacks:
            info.jstack = stacks_of(self._nursery())
        return info

    # --- consuming ------------------------------------------------------------------------------------

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Pass a message to the listener of its topic, once, whatever the result; no offset changes.

        It does so even where the listener has consumed a copy of it, and remembers nothing of it.

        Raises:
            BrokerError: the topic is not subscribed.
        """
        self._subscriptions.show_original_topic([message])
        listener = self._subscriptions.directly(message.topic)
        if listener is None:
            remark = f"the consumer group {self._config.group} does not subscribe {message.topic[:255]}"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        batch = self._config.consume_message_batch_max_size > 1
        call = DirectCall(
            listener,
            message.queue,
            batch=batch,
            orderly=self._config.orderly,
            clock=self._now,
            in_loop=self._in_loop,
        )
        self._consume.call_directly((call.listener, call.process_queue, listener_argument(message, batch=batch)))
        result = await call.wait()
        result.order, result.auto_commit = self._config.orderly, self._config.auto_commit
        return result
