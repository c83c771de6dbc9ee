"""ConsumeMessageConcurrentlyService: many messages of a queue at the same time, in no order.

It turns pulled messages into calls of listeners, and what comes of the calls into offsets: what succeeded is dealt
with; what failed, or took too long, is given back to a broker and then dealt with; what no broker takes is tried again
here; what nobody listens to waits. An offset moves only past messages that are dealt with. Plays the part of
ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.inside import is_inside
from rocketpy.consumer.listeners import BROKER_DECIDES, is_async_listener, judge
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.consumer.runners import Call, Finished, ListenerRunner, RunnerMaker, TaskRunner, messages_of
from rocketpy.consumer.subscription import Listener
from rocketpy.consumer.thread_runner import runner_for_plain_listeners
from rocketpy.consumer.unheard import Unheard, Waiting
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import MessageExt

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.offset_store import OffsetStore
    from rocketpy.consumer.send_back import SendBack
    from rocketpy.consumer.subscription import Subscriptions

__all__ = ["ConsumeCounters", "ConsumeMessageConcurrentlyService"]

logger = get_logger(__name__)

RETRY_HERE_AFTER = 5.0
"""Seconds after which a message is tried again that no broker took back."""
EXPIRED_DELAY_LEVEL = 3


@attrs.define
class ConsumeCounters:
    """What has become of messages so far."""

    consumed: int = 0
    failed: int = 0
    """Listener calls' messages that failed or took too long."""
    timed_out: int = 0
    sent_back: int = 0
    retried_here: int = 0
    """Messages that no broker took back at once."""


@attrs.define(eq=False)
class _Failure:
    """A message that has to be given back."""

    queue: ProcessQueue
    message: MessageExt
    delay_level: int
    listener: Listener | None
    """Who gets it when it is tried again here; None while a call of it may still be under way."""
    due: float = 0.0
    untried: bool = False
    """Whether nobody listened, so that its attempts are not counted."""


class ConsumeMessageConcurrentlyService:
    """Consumes for one push consumer.

    Args:
        config: of the consumer.
        subscriptions: who listens to which topic.
        offsets: where to note how far queues are consumed.
        send_back: gives messages back.
        plain: makes the runner for plain listeners.
        tasks: makes the runner for async listeners.
    """

    def __init__(
        self,
        config: PushConsumerConfig,
        subscriptions: Subscriptions,
        offsets: OffsetStore,
        send_back: SendBack,
        *,
        plain: RunnerMaker = runner_for_plain_listeners,
        tasks: RunnerMaker = TaskRunner,
    ) -> None:
        self.counters = ConsumeCounters()
        self._config = config
        self._batch_size = config.consume_message_batch_max_size
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._send_back = send_back
        self._finished = Finished()
        self._ended = trio.Event()
        limit = config.consume_thread_max
        self._plain: ListenerRunner = plain(limit, self._finished, self._report)
        self._tasks: ListenerRunner = tasks(limit, self._finished, self._report)
        self._expired: dict[int, Call] = {}
        self._failures: deque[_Failure] = deque()
        self._senders = 0
        self._later: deque[_Failure] = deque()
        self._some_later = trio.Event()
        self._settled = trio.Event()
        self._unheard = Unheard(subscriptions, config.pull_threshold_for_queue // 2, self._hand_over, self._put_off)
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._stopping = False
        self._nursery: trio.Nursery | None = None
        self._share()

    # --- life -----------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The service, until it is cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                services = self._collect_service, self._retry_here_service, self._expiry_service, self._unheard.run
                for service in services:
                    self._nursery.start_soon(service)
                task_status.started()
                async with trio.open_nursery() as runners:
                    runners.start_soon(self._plain.run)
                    runners.start_soon(self._tasks.run)
                # Both have stopped, so no call is under way any more.
                self.collect()
                self._stopping = True
                self._settle()
        finally:
            self._nursery = None
            self._settled.set()

    async def stop(self) -> None:
        """Begin no more calls, and wait for those under way, and until what failed has been given back."""
        self._plain.stop()
        self._tasks.stop()
        await self._settled.wait()

    @property
    def in_listener(self) -> bool:
        """Whether this is called by one of the listeners. For any thread."""
        return is_inside(self._finished)

    def _settle(self) -> None:
        if self._stopping and not self._failures and not self._senders:
            self._settled.set()

    # --- in: from messages to calls ---------------------------------------------------------------------

    def subscriptions_changed(self) -> None:
        """Listeners came or went."""
        self._share()
        if not self._stopping:
            self._unheard.look()

    def _share(self) -> None:
        """No topic may take all workers of its kind."""
        topics = self._subscriptions.user_topics
        kinds: dict[bool, list[str]] = {False: [], True: []}
        for topic in topics:
            listener = self._subscriptions.listener(topic)
            kinds[listener is not None and is_async_listener(listener)].append(topic)
        self._plain.share(kinds[False])
        self._tasks.share(kinds[True])

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages that `queue` holds."""
        if queue.queue.topic == self._subscriptions.retry_topic:
            self._subscriptions.show_original_topic(messages)
            for message in messages:
                self._hand_over(queue, [message])
        else:
            self._hand_over(queue, messages)

    def _hand_over(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """To the listener of their topic, which is one for all."""
        topic = messages[0].topic
        listener = self._subscriptions.listener(topic)
        if listener is not None:
            self._call_for(listener, queue, messages)
        elif topic == self._subscriptions.retry_topic:
            self._seldom.warning(
                "no origin", "%d messages of %s do not say which topic they come from: failed", len(messages), topic
            )
            self._fail(queue, messages, BROKER_DECIDES, None)
        else:
            self._unheard.add(queue, messages)

    def _call_for(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        runner = self._tasks if is_async_listener(listener) else self._plain
        runner.submit(messages[0].topic, self._calls(listener, queue, messages))

    def _calls(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> Iterable[Call]:
        size = self._batch_size
        if size == 1:
            return zip(repeat(listener), repeat(queue), messages, strict=False)
        return [(listener, queue, list(messages[at : at + size])) for at in range(0, len(messages), size)]

    # --- out: from calls to offsets ---------------------------------------------------------------------

    def _report(self) -> None:
        """Calls have ended. Those of one turn of the loop are dealt with together."""
        self._ended.set()

    async def _collect_service(self) -> None:
        while True:
            await self._ended.wait()
            self._ended = trio.Event()
            self.collect()

    def collect(self) -> None:
        """Deal with the calls that have ended since the last time."""
        succeeded = self._finished.take_succeeded()
        if self._expired:
            succeeded = [call for call in succeeded if not self._was_expired(call)]
        by_queue: dict[ProcessQueue, list[MessageExt]] = {}
        for _, queue, what in succeeded:
            done = by_queue.setdefault(queue, [])
            if isinstance(what, list):
                done += what
            else:
                done.append(what)
        for queue, done in by_queue.items():
            self.counters.consumed += len(done)
            self._dealt_with(queue, done)
        for call, outcome in self._finished.take_others():
            if not self._was_expired(call):
                self._note_outcome(call, outcome)

    def _note_outcome(self, call: Call, outcome: object) -> None:
        listener, queue, _ = call
        messages = messages_of(call)
        verdict = judge(outcome, messages, batch=self._batch_size > 1, seldom=self._seldom)
        self.counters.consumed += verdict.done
        if verdict.done:
            self._dealt_with(queue, messages[: verdict.done])
        if verdict.done < len(messages):
            self._fail(queue, messages[verdict.done :], verdict.delay_level, listener)

    def _dealt_with(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        if queue.dropped:
            # Somebody else consumes the queue by now, from the offset that was committed when we lost it.
            return
        queue.last_consume = trio.current_time()
        self._offsets.update(queue.queue, queue.remove(messages), increase_only=True)

    # --- what failed ------------------------------------------------------------------------------------

    def _fail(
        self, queue: ProcessQueue, messages: Sequence[MessageExt], delay_level: int, listener: Listener | None
    ) -> None:
        self.counters.failed += len(messages)
        self._give_back([_Failure(queue, message, delay_level, listener) for message in messages])

    def _put_off(self, waited: Iterable[Waiting]) -> None:
        self._give_back([_Failure(each.queue, each.message, BROKER_DECIDES, None, untried=True) for each in waited])

    def _give_back(self, failures: Iterable[_Failure]) -> None:
        """As many at a time as listeners may run: a broker in trouble is not to be stormed."""
        self._failures.extend(failures)
        while self._nursery is not None and self._senders < min(len(self._failures), self._config.consume_thread_max):
            self._senders += 1
            self._nursery.start_soon(self._send_failures)

    async def _send_failures(self) -> None:
        while self._failures:
            failure = self._failures.popleft()
            if failure.queue.dropped or failure.message.queue_offset not in failure.queue:
                continue
            if failure.untried:
                if await self._send_back.put_off(failure.message):
                    self._dealt_with(failure.queue, [failure.message])
                else:
                    self._unheard.keep(failure.queue, failure.message)
            elif await self._send_back.send_back(failure.message, failure.delay_level):
                self.counters.sent_back += 1
                self._dealt_with(failure.queue, [failure.message])
            else:
                self.counters.retried_here += 1
                failure.due = trio.current_time() + RETRY_HERE_AFTER
                self._later.append(failure)
                self._some_later.set()
        self._senders -= 1
        self._settle()

    async def _retry_here_service(self) -> None:
        """Try again what no broker took back."""
        while True:
            await self._some_later.wait()
            self._some_later = trio.Event()
            while self._later:
                await trio.sleep_until(self._later[0].due)
                self._retry_here(self._later.popleft())

    def _retry_here(self, failure: _Failure) -> None:
        if failure.queue.dropped:
            return
        if failure.listener is None:
            self._give_back([failure])
            return
        failure.message.count_failed_attempt()
        self._call_for(failure.listener, failure.queue, [failure.message])

    # --- what takes too long ------------------------------------------------------------------------------

    async def _expiry_service(self) -> None:
        """Give back what a listener has had for too long. The listener is left alone: it may hold anything."""
        timeout = self._config.consume_timeout
        while True:
            oldest = min((since for call, since in self._running() if id(call) not in self._expired), default=None)
            await trio.sleep_until((trio.current_time() if oldest is None else oldest) + timeout)
            now = trio.current_time()
            for call, since in self._running():
                # The same sum as above: a difference may come out a hair smaller, and this would go round and round.
                if since + timeout <= now and id(call) not in self._expired:
                    self._expire(call)

    def _running(self) -> list[tuple[Call, float]]:
        return self._plain.running() + self._tasks.running()

    def _expire(self, call: Call) -> None:
        _, queue, _ = call
        messages = messages_of(call)
        self._seldom.error(
            ("late", messages[0].topic),
            "the listener has not returned from %r for %g seconds: the message comes again later, and what the "
            "listener says of it counts no more",
            messages[0],
            self._config.consume_timeout,
        )
        self._expired[id(call)] = call
        self._allow_more()
        self.counters.timed_out += len(messages)
        self._fail(queue, messages, EXPIRED_DELAY_LEVEL, None)

    def _was_expired(self, call: Call) -> bool:
        if self._expired.pop(id(call), None) is None:
            return False
        self._allow_more()
        return True

    def _allow_more(self) -> None:
        """A listener that hangs must not keep the others from running; but many that hang must not pile up."""
        extra = min(len(self._expired), self._config.consume_thread_max)
        self._plain.allow(extra)
        self._tasks.allow(extra)
