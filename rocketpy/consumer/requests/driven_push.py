"""DrivenPush: carries out requests of brokers to a running push consumer: reset offsets, report, consume directly.

Plays the part of resetOffset, getConsumerStatus and consumeMessageDirectly in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.client.preparing.values import give_serializers
from rocketpy.consumer.requests.directly import DirectCalls, listener_argument
from rocketpy.consumer.requests.resets import Resets
from rocketpy.consumer.requests.running_info import info_of, queue_info
from rocketpy.consumer.requests.stacks import stacks_of
from rocketpy.errors import BrokerError
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.calling.consume_service import ConsumeService
    from rocketpy.consumer.pulling.pull_parts import PullParts
    from rocketpy.consumer.rebalancing.assignment import Assignment
    from rocketpy.consumer.requests.queue_resets import QueueResets
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["QUEUES_AT_ONCE", "DrivenPush"]

QUEUES_AT_ONCE = 32


class DrivenPush:
    """The `Driven` of a push consumer, which `rocketpy.client.driving` calls.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        subscriptions: its subscriptions and listeners.
        parts: what pullers share, such as offsets and rates.
        consume: calls listeners.
        assignment: the queues that the consumer has.
        queue_resets: resets queues.
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
        queue_resets: QueueResets,
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
        self._now = now
        self._nursery = nursery
        self._started_ms = wall_ms()
        self._resets = Resets(
            client, config.group, claimed=assignment.concerned, go_to=queue_resets.go_to, start=queue_resets.start
        )
        self._direct = DirectCalls(clock=now, in_loop=in_loop, orderly=config.orderly)

    # --- offsets --------------------------------------------------------------------------------------

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """For each of the consumer's queues of a topic, the offset that is committed or will be next."""
        self._consume.collect()
        found = {queue: self._parts.offsets.memory(queue) for queue in self._assignment.queues(topic)}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def note_reset(self, topic: str, offsets: Mapping[MessageQueue, int], *, sender: str) -> None:
        """Note a reset of these queues, for `carry_out_resets`."""
        subscribed = self._subscriptions.get(topic) is not None
        await self._resets.note(topic, offsets, sender=sender, subscribed=subscribed)

    async def carry_out_resets(self) -> None:
        """Have the consumer continue at the noted offsets; other queues are unaffected."""
        self._resets.carry_out()

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
                "PROP_THREADPOOL_CORE_SIZE": str(self._consume.most),
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
            BrokerError: the topic is not subscribed, the body cannot be unpacked, or too many such calls are running.
        """
        self._subscriptions.show_original_topic([message])
        give_serializers([message], self._config.serializers)
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
