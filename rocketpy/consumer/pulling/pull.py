"""Pulling: one task for each assigned queue, which ends only when the queue is dropped or the consumer closes.

A task asks the broker for the next messages, puts them into the process queue, passes them on to be consumed, and asks
again; a broker that finds no message holds the request (long polling). While too much of a queue is held, the task
waits for an event. Whatever a broker answers, the task goes on, after a pause if the pull failed. Plays the part of
PullMessageService, PullAPIWrapper and pullMessage in DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.api.pull import PullForm
from rocketpy.client.preparing.values import give_serializers
from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue
from rocketpy.consumer.unwrapping import good_from
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    FlowControlError,
    MessageDecodeError,
    RemoteProtocolError,
    RequestCodeNotSupportedError,
    RocketMQError,
    TopicNotExistError,
)
from rocketpy.logs import get_logger
from rocketpy.results import PullResult, PullStatus
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from rocketpy.client.routes.routing import BrokerAddress
    from rocketpy.consumer.locks.queue_locks import QueueLocks
    from rocketpy.consumer.pulling.pull_parts import PullParts
    from rocketpy.consumer.subscription import Subscription
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["QueuePuller"]

logger = get_logger(__name__)

MAX_BYTES = 256 * 1024
AFTER_FLOW_CONTROL = 0.02
"""Seconds until the next pull after a broker's flow control."""
AT_ONCE = 3
"""How many quick answers in a row may bring nothing before there is a pause between pulls."""
PAUSE = 0.02
"""Seconds of that pause. An answer that took longer than this is not a quick one."""
ANNOUNCE_TIMEOUT = 2.0
"""Seconds that a pull waits for brokers to get a heartbeat with a changed subscription."""
COMMITS = PullSysFlag.build(commit_offset=True)
_NOT_SUBSCRIBED = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)
_BY_USER = "pause() was called"


class QueuePuller:
    """Pulls one queue.

    Args:
        queue: the queue.
        position: the offset to begin at.
        limits: how much may be held.
        parts: what it shares with other pullers.
        locks: the locks of an orderly consumer, which pulls a queue only while its lock is valid.

    Attributes:
        process_queue: the messages held.
        error: why the last pull failed, None if it did not.
        is_asking: whether a pull is in progress.
        paused: why pulling waits, None if it does not.
    """

    def __init__(
        self,
        queue: MessageQueue,
        position: int,
        limits: FlowLimits,
        parts: PullParts,
        locks: QueueLocks | None = None,
    ) -> None:
        self.queue = queue
        self.process_queue = ProcessQueue(queue, position, limits, now=trio.current_time())
        self.error: RocketMQError | None = None
        self.paused: str | None = None
        self._parts = parts
        self._locks = locks
        self._broker_id = MASTER_ID
        self._empty_answers = 0
        self._damaged = 0
        self._topic_gone = False
        """Whether the master has said that it does not have the topic, and no pull has succeeded since."""
        self._scope = trio.CancelScope()
        self._pull_scope = trio.CancelScope()
        self._room = trio.Event()
        self._resumed = trio.Event()
        self.is_asking = False
        self._asked: Subscription | None = None
        """The subscription that the last pull was for."""
        self._form: PullForm | None = None
        self._made_for: tuple[Subscription, str, bool] | None = None
        """The subscription, broker name and kind of pull that the form was made for."""
        self._flags = 0

    def drop(self) -> None:
        """Stop pulling, and drop the process queue."""
        self.stop()
        self.process_queue.drop()

    def stop(self) -> None:
        """Stop pulling. Messages that are held may still be consumed and committed."""
        self._scope.cancel()

    def look_again(self) -> None:
        """Check again whether to pull: a reason to wait, other than what this queue holds, may be gone."""
        self._room.set()

    def begin_at(self, position: int) -> None:
        """Pull from `position` next, at once. Held messages and the pull in progress are discarded."""
        self._topic_gone = False  # an offset is known only of a topic that exists
        self._replace_queue(position)
        self._pull_scope.cancel()

    def is_overdue(self, now: float, limit: float) -> bool:
        """Whether the last pull was more than `limit` seconds before `now`, for no known reason."""
        return self.paused is None and self.process_queue.is_pull_overdue(now, limit)

    def _replace_queue(self, position: int) -> None:
        old = self.process_queue
        old.drop()
        self.process_queue = ProcessQueue(self.queue, position, old.limits, now=old.last_pull)

    def pauses_changed(self) -> None:
        """The user has paused or resumed something.

        A pull in progress continues, because its answer may contain a reset, but its messages are ignored if the queue
        is paused now.
        """
        if not self._parts.pauses.covers(self.queue):
            if self.paused == _BY_USER:
                self.paused = None
            self._resumed.set()
        elif self.is_asking:
            self.paused = _BY_USER
        else:
            self._pull_scope.cancel()

    def subscriptions_changed(self) -> None:
        """Cancel the pull in progress if it was for another subscription than the current one.

        Its answer would skip messages that are wanted now.
        """
        if self._is_outdated:
            self._pull_scope.cancel()

    @property
    def _is_outdated(self) -> bool:
        """Whether the last pull, perhaps still in progress, was for another subscription than the current one."""
        return self._asked is not None and self._parts.subscriptions.get(self.queue.topic) is not self._asked

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Pull until stopped."""
        with self._scope:
            while True:
                with trio.CancelScope() as self._pull_scope:
                    # Many pulls in one scope: opening one costs as much as three messages.
                    while not self._pull_scope.cancel_called:
                        await self._pull_once()

    async def _pull_once(self) -> None:
        """Wait for whatever a pull has to wait for, and make it."""
        await self._wait_resumed()
        await self._wait_room()
        await self._wait_announced()
        await self._wait_lock()
        await self._pull()

    async def _wait_resumed(self) -> None:
        """Wait while the user has paused the queue."""
        while self._parts.pauses.covers(self.queue):
            self.paused = _BY_USER
            self._resumed = trio.Event()
            await self._resumed.wait()
            self.process_queue.last_pull = trio.current_time()
        self.paused = None

    async def _wait_announced(self) -> None:
        """Wait until brokers know a changed subscription, as they would refuse the pull; but not for long.

        Lite pulls carry their subscription, and need not wait.
        """
        if self._is_outdated and not self._parts.policy.lite:
            with trio.move_on_after(ANNOUNCE_TIMEOUT):
                await self._parts.announced.wait()

    async def _wait_room(self) -> None:
        """Wait while too much is held, or while the consumer has another reason not to pull."""
        policy = self._parts.policy
        while (reason := self.process_queue.excess() or policy.reason_to_wait(self.process_queue)) is not None:
            if self.paused is None:
                self._parts.seldom.info(("waits", self.queue), "pulling %s pauses: %s", self.queue, reason)
            self.paused = reason
            self._room = trio.Event()
            if self.process_queue.excess() is not None:
                self.process_queue.call_when_room(self._room.set)
                if not policy.lite:
                    self._parts.consume.collect()  # of what ended before somebody waited for it, no thread may tell
            await self._room.wait()
        self.paused = None

    async def _wait_lock(self) -> None:
        """Wait while the consumer does not hold a valid lock on the queue."""
        locks = self._locks
        if locks is None or locks.counts(self.queue):
            return
        self.paused = "the broker has to confirm its lock first"
        await locks.wait_counts(self.queue)
        self.paused = None

    # --- asking ---------------------------------------------------------------------------------------

    async def _pull(self) -> None:
        """Make one pull, and wait as long as needed before the next one."""
        subscription = self._parts.subscriptions.get(self.queue.topic)
        if subscription is None:
            # The topic was just unsubscribed; the next rebalance drops the queue.
            await trio.sleep(self._parts.config.pull_time_delay_when_exception)
            return
        self._parts.counters.pulls += 1
        started = self.process_queue.last_pull = trio.current_time()
        before = self.process_queue.position
        try:
            if self._topic_gone:
                await self._find_position()
            self._asked, self.is_asking = subscription, True
            asked_for = self.process_queue
            result = await self._ask(subscription)
            # It may be moved or given up at the moment at which the answer comes, when nothing is left to cancel.
            if asked_for.dropped or (self._is_unwanted and result.status is not PullStatus.OFFSET_ILLEGAL):
                return
            if result.messages:
                took, queue = trio.current_time() - started, self.queue
                self._parts.rates.note_pull(queue.topic, queue.broker_name, len(result.messages), took)
            self._take(result, subscription)
        except MessageDecodeError as error:
            if self._is_unwanted or asked_for.dropped:
                return
            error = self._consume(list(error.decoded), subscription) or error  # of two, that of the first damage
            await self._after_damage(error, progress=self.process_queue.position > before)
        except RocketMQError as error:
            self.is_asking = False
            await self._after_failure(error)
        else:
            self._recovered()
            if not self.process_queue.dropped:  # otherwise the queue was reset, and is taken again
                await self._after_answer(result, started, progress=self.process_queue.position > before)
        finally:
            self.is_asking = False

    @property
    def is_answered(self) -> bool:
        """Whether the broker to pull from answers heartbeats. Thread-safe."""
        client = self._parts.client
        broker = client.routes.find_broker(client.routes.broker_name(self.queue), self._broker_id)
        return broker is not None and broker.address in client.heartbeats.answering

    @property
    def _is_unwanted(self) -> bool:
        """Whether the messages of the last pull are ignored: they come again when the queue is pulled again.

        So they are if the user has paused the queue, or if another thread has changed the subscription and the loop
        does not know it yet.
        """
        return self._is_outdated or self._parts.pauses.covers(self.queue)

    async def _ask(self, subscription: Subscription) -> PullResult:
        broker = await self._broker()
        lite = self._parts.policy.lite and broker.address not in self._parts.without_lite
        if self._parts.filters is not None:
            await self._parts.filters.confirm(subscription.data, broker.address)
        try:
            result = await self._ask_by(broker, subscription, lite=lite)
        except RequestCodeNotSupportedError:
            if not lite:
                raise
            # A broker of 4.x, which recognises lite pulls by the flag in the header alone.
            self._parts.without_lite.add(broker.address)
            result = await self._ask_by(broker, subscription, lite=False)
        except TopicNotExistError:
            if not (broker.is_slave or self._topic_gone):
                self._forget_position()
            raise
        self._broker_id = result.suggested_broker_id
        return result

    async def _ask_by(self, broker: BrokerAddress, subscription: Subscription, *, lite: bool) -> PullResult:
        offsets, may_commit = self._parts.offsets, not (broker.is_slave or self._parts.policy.lite)
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
        """The broker that the last answer suggested to pull from."""
        routes = self._parts.client.routes
        broker = routes.find_broker(routes.broker_name(self.queue), self._broker_id)
        if broker is None:
            await routes.refresh(self.queue.topic)
            broker = routes.find_broker(routes.broker_name(self.queue), self._broker_id)
        if broker is None:
            raise BrokerUnreachableError(f"no broker of {self.queue} has an address now", topic=self.queue.topic)
        return broker

    def _form_of(self, subscription: Subscription, *, lite: bool) -> PullForm:
        """The request form of the last pull, made again if something has changed since."""
        broker_name = self._parts.client.routes.broker_name(self.queue)
        made_for = (subscription, broker_name, lite)
        if self._form is None or made_for != self._made_for:
            header = self._header(subscription, broker_name)
            self._form, self._made_for = PullForm(header, broker_name=self.queue.broker_name, lite=lite), made_for
            self._flags = header.sys_flag
        return self._form

    def _header(self, subscription: Subscription, broker_name: str) -> PullMessageRequestHeader:
        """The header of every pull, without offsets."""
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
                lite_pull=self._parts.policy.lite,
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
        """Apply an answer."""
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._begin_again(result)
            return
        if (damage := self._consume(result.messages, subscription)) is not None:
            raise damage
        self.process_queue.advance(result.next_begin_offset)
        self._parts.policy.advanced(self.process_queue)

    def _consume(self, messages: list[MessageExt], subscription: Subscription) -> MessageDecodeError | None:
        """Have messages consumed. Returns the error of a batch among them that is damaged: it ends them."""
        messages, damage = good_from(messages, self.process_queue.position)
        if not messages:
            return damage
        wanted = subscription.filtered(messages)
        self._parts.counters.filtered += len(messages) - len(wanted)
        self._parts.counters.messages += len(wanted)
        if self._parts.config.serializers:
            give_serializers(wanted, self._parts.config.serializers)
        self.process_queue.put(wanted)
        self.process_queue.advance(messages[-1].queue_offset + 1)
        if wanted:
            self._parts.consume.submit(self.process_queue, wanted)
        return damage

    def _begin_again(self, result: PullResult) -> None:
        """Continue at the offset that the broker moves the queue to. Messages held, also by listeners, are discarded.

        Raises:
            RemoteProtocolError: the broker names a negative offset.
        """
        old, new = self.process_queue.position, result.next_begin_offset
        if new < 0:
            raise RemoteProtocolError(f"the broker has answered a pull of {self.queue} with the negative offset {new}")
        self._parts.counters.resets += 1
        was_reset = result.min_offset <= old <= result.max_offset
        if new != old:
            self._tell_moved(old, result, "was given another one for this group" if was_reset else "has no such offset")
        if was_reset and self._parts.moved is not None:
            if new != old or len(self.process_queue):
                self._parts.moved(self.queue, new)
            return
        self._parts.consumed.forget_queue(self.queue)
        self._replace_queue(new)
        self._parts.policy.moved(self.process_queue)

    def _forget_position(self) -> None:
        """Continue at 0, where a deleted topic begins if it is created again. Messages held are discarded."""
        self._topic_gone = True
        self._parts.consumed.forget_queue(self.queue)
        self._replace_queue(0)
        offsets = self._parts.offsets
        offsets.remove(self.queue)
        if not offsets.at_brokers:
            offsets.update(self.queue, 0)  # brokers delete the offsets of a deleted topic; other stores do not

    async def _find_position(self) -> None:
        """Continue at the committed offset, in case the topic was not deleted after all.

        Raises:
            RocketMQError: the broker could not be asked.
        """
        offsets = self._parts.offsets
        committed = await offsets.committed(self.queue) if offsets.at_brokers else None
        if self._topic_gone:  # otherwise it was moved meanwhile
            self._replace_queue(committed or 0)

    def _tell_moved(self, old: int, result: PullResult, why: str) -> None:
        self._parts.seldom.warning(
            ("moved", self.queue),
            "the broker moves %s from offset %d to %d: it %s (it has %d to %d)",
            self.queue,
            old,
            result.next_begin_offset,
            why,
            result.min_offset,
            result.max_offset,
        )

    # --- waiting --------------------------------------------------------------------------------------

    async def _after_answer(self, result: PullResult, started: float, *, progress: bool) -> None:
        """Pull again at once, unless that would be a busy loop."""
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._parts.offsets.persist([self.queue])
            progress = False
        if progress or trio.current_time() - started >= PAUSE:
            self._empty_answers = 0
        else:
            self._empty_answers += 1
        if self._empty_answers > AT_ONCE:
            await trio.sleep(PAUSE)
        if progress and self._parts.config.pull_interval:
            await trio.sleep(self._parts.config.pull_interval)

    async def _after_damage(self, error: MessageDecodeError, *, progress: bool) -> None:
        """Retry at once the first time, as the damage may come from the network; the damaged message is not skipped."""
        self._topic_gone = False
        self._parts.counters.undecodable += 1
        self._damaged = 1 if progress else self._damaged + 1
        if self._damaged == 1:
            self._parts.seldom.warning(
                ("damaged", self.queue), "an answer to a pull of %s is damaged, asking again: %s", self.queue, error
            )
            return
        if self._damaged == 2:
            logger.error(
                "%s is stuck at offset %d: the message there is damaged on its broker; skip it by resetting the "
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
        # Log only the first of several failures in a row, of one queue of a broker: it may be away for hours.
        if self.error is None:
            cause = "failed", self.queue.broker_name, type(error)
            self._parts.seldom.warning(cause, "pulling %s failed and is retried: %s", self.queue, error)
        self.error = error
        self._parts.policy.failed(self.process_queue, error)
        if isinstance(error, BrokerError) and error.code in _NOT_SUBSCRIBED:
            # The broker was restarted, or has not got our heartbeat with the subscription yet.
            self._parts.client.heartbeats.send_soon()
        await trio.sleep(self._parts.config.pull_time_delay_when_exception)

    def _recovered(self) -> None:
        self._damaged = 0
        self._topic_gone = False
        if self.error is not None:
            self._parts.seldom.warning(("again", self.queue.broker_name), "%s is pulled again", self.queue)
            self.error = None
