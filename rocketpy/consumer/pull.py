"""Pulling: one task for each assigned queue, which ends only when the queue is dropped or the consumer closes.

A task asks the broker for what follows, holds what it gets, hands it over to be consumed, and asks again; the broker
holds a request that finds nothing. While too much of a queue is held the task waits for the event that there is room.
Whatever a broker answers, the task goes on: after a while where it failed. Plays the part of PullMessageService,
PullAPIWrapper and pullMessage in DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from rocketpy.client.api.pull import PullForm
from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.consumed import Consumed
from rocketpy.consumer.offset_store import OffsetStore
from rocketpy.consumer.pauses import Pauses
from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue
from rocketpy.consumer.pull_manner import PullManner, PullSettings
from rocketpy.consumer.queue_locks import QueueLocks
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    FlowControlError,
    MessageDecodeError,
    RemoteProtocolError,
    RequestCodeNotSupportedError,
    RocketMQError,
)
from rocketpy.logs import Seldom, get_logger
from rocketpy.results import PullResult, PullStatus
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.inner_batch import has_inner_batch, is_inner_batch, unwrap_inner_batch
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from rocketpy.client.routing import BrokerAddress
    from rocketpy.consumer.subscription import Subscription
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Consumption", "PullCounters", "PullParts", "QueuePuller", "unwrapped"]

logger = get_logger(__name__)

MAX_BYTES = 256 * 1024
AFTER_FLOW_CONTROL = 0.02
AT_ONCE = 3
"""So many answers in a row that brought nothing may follow each other at once..."""
INTRODUCED_WITHIN = 2.0
"""Seconds for which a pull is put off until brokers have heard of a changed subscription."""
PAUSE = 0.02
"""...then there is this pause between them, in seconds. An answer that took longer than it was not at once."""
COMMITS = PullSysFlag.build(commit_offset=True)
_NOT_SUBSCRIBED = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)


@attrs.define
class PullCounters:
    """What pulling has come to so far."""

    pulls: int = 0
    messages: int = 0
    """Pulled and wanted."""
    filtered: int = 0
    """Pulled, and not wanted after all."""
    undecodable: int = 0
    """Answers with a damaged message."""
    resets: int = 0
    """Times a broker moved us to another offset."""


class Wanted(Protocol):
    """What is wanted of each topic."""

    def get(self, topic: str) -> Subscription | None:
        """The subscription to a topic, None when there is none."""
        ...


class Consumption(Protocol):
    """What consumes that which was pulled."""

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages that a process queue holds."""
        ...

    def collect(self) -> None:
        """Take note of everything that has been consumed by now."""
        ...


@attrs.define(eq=False)
class PullParts:
    """What the pulling tasks of a consumer share."""

    client: MQClientInstance
    config: PullSettings
    subscriptions: Wanted
    offsets: OffsetStore
    consume: Consumption
    manner: PullManner
    pauses: Pauses = attrs.Factory(Pauses)
    consumed: Consumed = attrs.Factory(lambda: Consumed(None, 0))
    """What is remembered so that copies of it are known."""
    locks: QueueLocks | None = None
    """A queue that is consumed in order is pulled only while its lock counts."""
    counters: PullCounters = attrs.Factory(PullCounters)
    rates: ConsumerRates = attrs.Factory(lambda: ConsumerRates(trio.current_time))
    without_lite: set[str] = attrs.Factory(set)
    """Addresses of brokers that do not know the request code of lite pulls."""
    seldom: Seldom = attrs.Factory(lambda: Seldom(logger, clock=trio.current_time))
    introduced: trio.Event = attrs.Factory(trio.Event)
    """Set when brokers have heard what is subscribed now."""


class QueuePuller:
    """Pulls one queue.

    Args:
        queue: the queue.
        position: where to begin.
        limits: what may be held.
        parts: what it shares with others.

    Attributes:
        process_queue: what is held.
        error: why the last pull failed, None when it did not.
        paused: why pulling waits, None when it does not.
    """

    def __init__(self, queue: MessageQueue, position: int, limits: FlowLimits, parts: PullParts) -> None:
        self.queue = queue
        self.process_queue = ProcessQueue(queue, position, limits, now=trio.current_time())
        self.error: RocketMQError | None = None
        self.paused: str | None = None
        self._parts = parts
        self._broker_id = MASTER_ID
        self._fruitless = 0
        self._damaged = 0
        self._scope = trio.CancelScope()
        self._turn = trio.CancelScope()
        self._room = trio.Event()
        self._resumed = trio.Event()
        self._asked: Subscription | None = None
        """What the last pull asked for."""
        self._form: PullForm | None = None
        self._made_for: tuple[Subscription, str, bool] | None = None
        """What the form was made for."""
        self._flags = 0

    def drop(self) -> None:
        """The queue is not ours any more."""
        self.stop()
        self.process_queue.drop()

    def stop(self) -> None:
        """Pull no more. What is held may still be consumed and committed."""
        self._scope.cancel()

    def look_again(self) -> None:
        """What made pulling wait, beside what is held of this queue, may have changed."""
        self._room.set()

    def begin_at(self, position: int) -> None:
        """Pull from there next, at once. What is held is forgotten, and so is the answer that is under way."""
        self._replace_queue(position)
        self._turn.cancel()

    def is_overdue(self, now: float, limit: float) -> bool:
        """Whether nobody has pulled for longer than there is any reason for."""
        return self.paused is None and self.process_queue.is_pull_overdue(now, limit)

    def _replace_queue(self, position: int) -> None:
        old = self.process_queue
        old.drop()
        self.process_queue = ProcessQueue(self.queue, position, old.limits, now=old.last_pull)

    def pauses_changed(self) -> None:
        """The user has paused or resumed something: a pull under way brings nothing any more when this is paused."""
        if self._parts.pauses.covers(self.queue):
            self._turn.cancel()
        else:
            self._resumed.set()

    def subscriptions_changed(self) -> None:
        """Give up the pull that is under way, if it asks for something else than is subscribed now.

        Its answer would pass over messages that are wanted now.
        """
        if self._is_outdated:
            self._turn.cancel()

    @property
    def _is_outdated(self) -> bool:
        """Whether the last pull, perhaps still under way, asked for something else than is subscribed now."""
        return self._asked is not None and self._parts.subscriptions.get(self.queue.topic) is not self._asked

    async def run(self) -> None:
        """Pull until stopped."""
        with self._scope:
            while True:
                with trio.CancelScope() as self._turn:
                    await self._wait_resumed()
                    await self._wait_room()
                    await self._wait_introduced()
                    await self._wait_lock()
                    await self._pull()

    async def _wait_resumed(self) -> None:
        """Wait as long as the user wants nothing of it."""
        while self._parts.pauses.covers(self.queue):
            self.paused = "pause() was called"
            self._resumed = trio.Event()
            await self._resumed.wait()
            self.process_queue.last_pull = trio.current_time()
        self.paused = None

    async def _wait_introduced(self) -> None:
        """Brokers refuse what they have not heard of yet; after a while, let them. A lite pull says it itself."""
        if self._is_outdated and not self._parts.manner.lite:
            with trio.move_on_after(INTRODUCED_WITHIN):
                await self._parts.introduced.wait()

    async def _wait_room(self) -> None:
        """Wait as long as too much is held, or the consumer has another reason not to pull."""
        manner = self._parts.manner
        while (reason := self.process_queue.excess() or manner.brake(self.process_queue)) is not None:
            if self.paused is None:
                self._parts.seldom.info(("waits", self.queue), "pulling %s pauses: %s", self.queue, reason)
            self.paused = reason
            self._room = trio.Event()
            if self.process_queue.excess() is not None:
                self.process_queue.call_when_room(self._room.set)
            await self._room.wait()
        self.paused = None

    async def _wait_lock(self) -> None:
        """Wait as long as it is not certain that the queue is ours."""
        locks = self._parts.locks
        if locks is None or locks.counts(self.queue):
            return
        self.paused = "the broker has to confirm its lock first"
        await locks.wait_counts(self.queue)
        self.paused = None

    # --- asking ---------------------------------------------------------------------------------------

    async def _pull(self) -> None:
        """One pull, and whatever has to be waited for after it."""
        subscription = self._parts.subscriptions.get(self.queue.topic)
        if subscription is None:
            # It was given up a moment ago; the next rebalance drops the queue.
            await trio.sleep(self._parts.config.pull_time_delay_when_exception)
            return
        self._parts.counters.pulls += 1
        started = self.process_queue.last_pull = trio.current_time()
        before = self.process_queue.position
        try:
            self._asked = subscription
            result = await self._ask(subscription)
            if self._is_outdated:
                return  # another thread has subscribed otherwise, and the loop has not heard of it yet
            if result.messages:
                self._parts.rates.note_pull(self.queue.topic, len(result.messages), trio.current_time() - started)
            self._take(result, subscription)
        except MessageDecodeError as error:
            if self._is_outdated:
                return
            self._consume(list(error.decoded), subscription)
            await self._after_damage(error, progress=self.process_queue.position > before)
        except RocketMQError as error:
            await self._after_failure(error)
        else:
            self._recovered()
            await self._after_answer(result, started, progress=self.process_queue.position > before)

    async def _ask(self, subscription: Subscription) -> PullResult:
        broker = await self._broker()
        lite = self._parts.manner.lite and broker.address not in self._parts.without_lite
        try:
            result = await self._ask_by(broker, subscription, lite=lite)
        except RequestCodeNotSupportedError:
            if not lite:
                raise
            # A broker of 4.x: there, the flag in the header alone tells a lite pull.
            self._parts.without_lite.add(broker.address)
            result = await self._ask_by(broker, subscription, lite=False)
        self._broker_id = result.suggested_broker_id
        return result

    async def _ask_by(self, broker: BrokerAddress, subscription: Subscription, *, lite: bool) -> PullResult:
        offsets, may_commit = self._parts.offsets, not (broker.is_slave or self._parts.manner.lite)
        commit = (offsets.memory(self.queue) or 0) if may_commit and offsets.at_brokers else 0
        return await self._form_of(subscription, lite=lite).ask(
            self._parts.client.pool,
            broker.address,
            self.process_queue.position,
            self._flags | COMMITS if commit > 0 else self._flags,
            commit,
            timeout=self._parts.config.consumer_timeout_when_suspend,
        )

    async def _broker(self) -> BrokerAddress:
        """Whom to ask: whoever the last answer suggested."""
        routes = self._parts.client.routes
        broker = routes.find_broker(routes.broker_name(self.queue), self._broker_id)
        if broker is None:
            await routes.refresh(self.queue.topic)
            broker = routes.find_broker(routes.broker_name(self.queue), self._broker_id)
        if broker is None:
            raise BrokerUnreachableError(f"no broker of {self.queue} has an address now", topic=self.queue.topic)
        return broker

    def _form_of(self, subscription: Subscription, *, lite: bool) -> PullForm:
        """The form of the last pull, unless something has changed since."""
        broker_name = self._parts.client.routes.broker_name(self.queue)
        made_for = (subscription, broker_name, lite)
        if self._form is None or made_for != self._made_for:
            header = self._header(subscription, broker_name)
            self._form, self._made_for = PullForm(header, broker_name=self.queue.broker_name, lite=lite), made_for
            self._flags = header.sys_flag
        return self._form

    def _header(self, subscription: Subscription, broker_name: str) -> PullMessageRequestHeader:
        """Of every pull, without offsets."""
        config, data = self._parts.config, subscription.data
        post = config.post_subscription_when_pull and not data.class_filter_mode
        return PullMessageRequestHeader(
            consumer_group=config.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=0,
            max_msg_nums=config.pull_batch_size,
            sys_flag=PullSysFlag.build(
                suspend=True,
                subscription=post,
                class_filter=data.class_filter_mode,
                lite_pull=self._parts.manner.lite,
            ),
            commit_offset=0,
            suspend_timeout_millis=int(config.broker_suspend_max_time * 1000),
            subscription=data.sub_string if post else None,
            sub_version=data.sub_version,
            expression_type=data.expression_type,
            max_msg_bytes=MAX_BYTES,
            bname=broker_name,
        )

    # --- taking ---------------------------------------------------------------------------------------

    def _take(self, result: PullResult, subscription: Subscription) -> None:
        """Do what an answer says."""
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._begin_again(result)
            return
        self._consume(result.messages, subscription)
        self.process_queue.advance(result.next_begin_offset)
        self._parts.manner.advanced(self.process_queue)

    def _consume(self, messages: list[MessageExt], subscription: Subscription) -> None:
        position = self.process_queue.position
        messages = unwrapped(messages, position)
        if messages and messages[0].queue_offset < position:
            # Nobody asked for those before; they have been dealt with.
            messages = [message for message in messages if message.queue_offset >= position]
        if not messages:
            return
        wanted = subscription.filtered(messages)
        self._parts.counters.filtered += len(messages) - len(wanted)
        self._parts.counters.messages += len(wanted)
        self.process_queue.put(wanted)
        self.process_queue.advance(messages[-1].queue_offset + 1)
        if wanted:
            self._parts.consume.submit(self.process_queue, wanted)

    def _begin_again(self, result: PullResult) -> None:
        """The broker moves us: forget what is held, and go on where it says. What listeners still say counts no more.

        Raises:
            RemoteProtocolError: there is no such offset.
        """
        position = result.next_begin_offset
        if position < 0:
            raise RemoteProtocolError(f"the broker moves {self.queue} to the offset {position}")
        self._tell_moved(self.process_queue.position, position, result)
        self._parts.counters.resets += 1
        self._parts.consumed.forget_queue(self.queue)
        self._replace_queue(position)
        self._parts.offsets.update(self.queue, position)

    def _tell_moved(self, old: int, new: int, result: PullResult) -> None:
        """Say why: there is no such offset, or somebody has given the group another one."""
        why = (
            "was given another one for this group"
            if result.min_offset <= old <= result.max_offset
            else "has no such offset"
        )
        self._parts.seldom.warning(
            ("moved", self.queue),
            "the broker moves %s from offset %d to %d: it %s (it has %d to %d)",
            self.queue,
            old,
            new,
            why,
            result.min_offset,
            result.max_offset,
        )

    # --- waiting --------------------------------------------------------------------------------------

    async def _after_answer(self, result: PullResult, started: float, *, progress: bool) -> None:
        """Go on at once, unless that would be a busy loop."""
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._parts.offsets.persist([self.queue])
            progress = False
        if progress or trio.current_time() - started >= PAUSE:
            self._fruitless = 0
        else:
            self._fruitless += 1
        if self._fruitless > AT_ONCE:
            await trio.sleep(PAUSE)
        if progress and self._parts.config.pull_interval:
            await trio.sleep(self._parts.config.pull_interval)

    async def _after_damage(self, error: MessageDecodeError, *, progress: bool) -> None:
        """Once more at once, for it may have happened on the way. The offset stays before the damaged message."""
        self._parts.counters.undecodable += 1
        self._damaged = 1 if progress else self._damaged + 1
        if self._damaged == 1:
            self._parts.seldom.warning(
                ("damaged", self.queue), "an answer to a pull of %s is damaged, asking again: %s", self.queue, error
            )
            return
        if self._damaged == 2:
            logger.error(
                "%s stands still at offset %d: the message there is damaged at its broker; skip it by resetting the "
                "offset of the group: %s",
                self.queue,
                self.process_queue.position,
                error,
            )
        self.error = error
        await trio.sleep(self._parts.config.pull_time_delay_when_exception)

    async def _after_failure(self, error: RocketMQError) -> None:
        if isinstance(error, FlowControlError):
            await trio.sleep(AFTER_FLOW_CONTROL)
            return
        # Once a change of state, not once a pull: a broker may be away for hours. And one of its queues says enough.
        if self.error is None:
            cause = "failed", self.queue.broker_name, type(error)
            self._parts.seldom.warning(cause, "a pull of %s failed, the next comes soon: %s", self.queue, error)
        self.error = error
        self._parts.manner.failed(self.process_queue, error)
        if isinstance(error, BrokerError) and error.code in _NOT_SUBSCRIBED:
            # The broker has been restarted, or has not heard yet what we subscribe.
            self._parts.client.heartbeats.send_soon()
        await trio.sleep(self._parts.config.pull_time_delay_when_exception)

    def _recovered(self) -> None:
        self._damaged = 0
        if self.error is not None:
            self._parts.seldom.warning(("again", self.queue.broker_name), "%s is pulled again", self.queue)
            self.error = None


def unwrapped(messages: list[MessageExt], position: int) -> list[MessageExt]:
    """With the messages inside of batches that the broker keeps whole. The first may begin before our offset."""
    if not has_inner_batch(messages):
        return messages
    flat: list[MessageExt] = []
    for message in messages:
        flat += unwrap_inner_batch(message) if is_inner_batch(message) else [message]
    return [message for message in flat if message.queue_offset >= position]
