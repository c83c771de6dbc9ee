"""DrivenConsumer: carries out what brokers ask of a running push consumer.

To reset its offsets while it consumes, it drops the queues concerned, gives listeners that still have messages of them
some time to finish, awaits `on_revoked`, and commits the new offsets; only then it rebalances. Plays the part of
resetOffset, getConsumerStatus and consumeMessageDirectly in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.directly import DirectCalls, listener_argument
from rocketpy.consumer.resets import Resets
from rocketpy.consumer.running_info import info_of, queue_info
from rocketpy.consumer.stacks import stacks_of
from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.assignment import Assignment
    from rocketpy.consumer.consume_service import ConsumeService
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.pull import PullParts
    from rocketpy.consumer.rebalance import Rebalance
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["QUEUES_AT_ONCE", "SETTLE_SECONDS", "DrivenConsumer"]

logger = get_logger(__name__)

SETTLE_SECONDS = 1.0
"""Seconds between dropping queues and committing other offsets: a pull on its way may carry the old offset, and brokers
may process pulls and commits in any order."""
LISTENER_SECONDS = 10.0
"""Seconds that listeners get to finish messages of dropped queues. Java always waits that long."""
RETAKE_SECONDS = 2.0
"""Seconds that the consumer gets to take queues again before the next reset."""
_MOST_ROUNDS = 4
_LOOK_EVERY = 0.05
"""Seconds between looks at running calls: runners report that calls have ended, but not which ones."""
QUEUES_AT_ONCE = 32


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
        self._now = now
        self._nursery = nursery
        self._started_ms = wall_ms()
        self._resets = Resets(client, config.group, claimed=assignment.claimed, go_to=self._reset)
        self._direct = DirectCalls(clock=now, in_loop=in_loop, orderly=config.orderly)

    # --- offsets --------------------------------------------------------------------------------------

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """For each of the consumer's queues of a topic, the offset that is committed or will be next."""
        self._consume.collect()
        found = {queue: self._parts.offsets.memory(queue) for queue in self._assignment.queues(topic)}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def note_reset(self, topic: str, offsets: Mapping[MessageQueue, int], *, sender: str) -> None:
        """Note that the consumer shall continue at these offsets in the queues that it has."""
        subscribed = self._subscriptions.get(topic) is not None
        await self._resets.note(topic, offsets, sender=sender, subscribed=subscribed)

    async def carry_out_resets(self) -> None:
        """Continue at the offsets that were noted; other queues are unaffected."""
        await self._resets.carry_out()

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
        await self._take_again(queues)

    async def _take_again(self, queues: Collection[MessageQueue]) -> None:
        """Wait a little until the consumer has these queues again: the next reset concerns those that it has."""
        with trio.move_on_after(RETAKE_SECONDS):
            for _ in range(_MOST_ROUNDS):
                if set(queues) <= set(self._assignment.claimed()):
                    break
                await self._rebalance.wait_round()

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
            BrokerError: the topic is not subscribed, the body cannot be unpacked, or too many such calls are under way.
        """
        self._subscriptions.show_original_topic([message])
        listener = self._subscriptions.directly(message.topic)
        if listener is None:
            remark = f"the consumer group {self._config.group} does not subscribe {message.topic[:255]}"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        batch = self._config.consume_message_batch_max_size > 1
        call = await self._direct.begin(listener, message, batch=batch)
        self._consume.call_directly((call.listener, call.process_queue, listener_argument(message, batch=batch)))
        result = await call.wait()
        result.order, result.auto_commit = self._config.orderly, self._config.auto_commit
        return result
