"""ConsumeService: what consuming side by side and consuming in order have in common.

Two runners call listeners, plain ones and async ones; what comes of the calls is dealt with in the trio thread, those
of one turn of the loop together; a listener that takes too long is noticed. Plays the part of ConsumeMessageService.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.consumed import Consumed
from rocketpy.consumer.crew import Call, Finished
from rocketpy.consumer.inside import is_inside
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.consumer.runners import ListenerRunner, RunnerMaker, TaskRunner
from rocketpy.consumer.thread_runner import runner_for_plain_listeners
from rocketpy.consumer.unheard import Unheard, Waiting
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import MessageQueue
from rocketpy.results import MessageModel

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.offset_store import OffsetStore
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.send_back import SendBack
    from rocketpy.consumer.subscription import Listener, Subscriptions
    from rocketpy.message import MessageExt

__all__ = ["BESIDE", "ConsumeCounters", "ConsumeService"]

logger = get_logger(__name__)

BESIDE = "(beside)"
"""The lane of calls that belong to no topic; no topic has such a name."""


@attrs.define
class ConsumeCounters:
    """What has become of messages so far."""

    consumed: int = 0
    failed: int = 0
    """Listener calls' messages that failed or took too long."""
    timed_out: int = 0
    sent_back: int = 0
    dropped: int = 0
    """Messages that failed where nobody gives anything back, and that count as dealt with."""
    retried_here: int = 0
    """Messages that no broker took back at once; all that come again where order counts."""


class ConsumeService(ABC):
    """Consumes for one push consumer.

    Args:
        config: of the consumer.
        subscriptions: who listens to which topic.
        offsets: where to note how far queues are consumed.
        send_back: gives messages back.
        plain: makes the runner for plain listeners.
        tasks: makes the runner for async listeners.
        rates: where to count what listeners do, and how long it takes.
        consumed: what is remembered so that copies of it are known.
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
        rates: ConsumerRates | None = None,
        consumed: Consumed | None = None,
    ) -> None:
        self.counters = ConsumeCounters()
        self._rates = rates or ConsumerRates(trio.current_time)
        self._consumed = consumed or Consumed(None, 0)
        self._config = config
        self._batch_size = config.consume_message_batch_max_size
        self._broadcasts = config.message_model is MessageModel.BROADCASTING
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._send_back = send_back
        self._finished = Finished()
        self._ended = trio.Event()
        limit = config.consume_thread_max
        self._plain: ListenerRunner = plain(limit, self._finished, self._report)
        self._tasks: ListenerRunner = tasks(limit, self._finished, self._report)
        self._most = limit
        self._expired: dict[int, Call] = {}
        self._senders = 0
        self._settled = trio.Event()
        self._unheard = Unheard(subscriptions, config.pull_threshold_for_queue // 2, self._hand_over, self._put_off)
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._stopping = False
        self._nursery: trio.Nursery | None = None

    # --- what differs -----------------------------------------------------------------------------------

    @abstractmethod
    def _call_for(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Have a listener called with messages."""

    @abstractmethod
    def _fail_unheard(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """These say of no topic that they came from it: nobody will ever listen to them."""

    @abstractmethod
    def _put_off(self, waited: Iterable[Waiting]) -> None:
        """Nobody has listened to these for a while."""

    @abstractmethod
    def collect(self) -> None:
        """Deal with the calls that have ended since the last time."""

    @abstractmethod
    def _expire(self, call: Call) -> None:
        """A listener has not returned from a call for `consume_timeout`."""

    @property
    def _is_giving_back(self) -> bool:
        """Whether messages are on their way back to a broker."""
        return self._senders > 0

    def _services(self) -> Iterable[Callable[[], Awaitable[None]]]:
        """What goes on while it runs."""
        return self._collect_service, self._expiry_service, self._unheard.run

    # --- life -----------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The service, until it is cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                for service in self._services():
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
    def owner(self) -> object:
        """What stands for this consumer in the marks of `inside`."""
        return self._finished

    @property
    def in_listener(self) -> bool:
        """Whether this is called by one of the listeners. For any thread."""
        return is_inside(self._finished)

    def subscriptions_changed(self) -> None:
        """Listeners came or went."""
        if not self._stopping:
            self._unheard.look()

    def _settle(self) -> None:
        if self._stopping and not self._is_giving_back:
            self._settled.set()

    def set_most(self, most: int) -> None:
        """Let so many listeners run at the same time from now on: 1 to twice `consume_thread_max`."""
        self._most = most
        self._allow_more()

    def _allow_more(self) -> None:
        self._allow(self._most - self._config.consume_thread_max)

    def _allow(self, extra: int) -> None:
        self._plain.allow(extra)
        self._tasks.allow(extra)

    # --- in: from messages to calls ---------------------------------------------------------------------

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
            self._fail_unheard(queue, messages)
        else:
            self._unheard.add(queue, messages)

    def _runner_of(self, listener: Listener) -> ListenerRunner:
        return self._tasks if is_async_listener(listener) else self._plain

    def call_beside(self, call: Call) -> None:
        """Make a call that does not wait behind those of any topic. Its queue is to be dropped before it ends."""
        self._runner_of(call[0]).submit(BESIDE, [call])

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

    def _note_succeeded(self, calls: Iterable[Call]) -> None:
        """All messages of these calls are consumed."""
        by_queue: dict[ProcessQueue, list[MessageExt]] = {}
        last, done = None, []
        for _, queue, what in calls:
            if queue is not last:
                last, done = queue, by_queue.setdefault(queue, [])
            if isinstance(what, list):
                done += what
            else:
                done.append(what)
        for queue, done in by_queue.items():
            self._note_consumed(queue, len(done))
            self._dealt_with(queue, done)

    def _note_consumed(self, queue: ProcessQueue, count: int) -> None:
        self.counters.consumed += count
        self._rates.note_consumed(queue.queue.topic, count)

    def _note_failed(self, queue: ProcessQueue, count: int) -> None:
        self.counters.failed += count
        self._rates.note_failed(queue.queue.topic, count)

    def _note_times(self) -> None:
        for key, calls, seconds in self._finished.take_times():
            self._rates.note_calls(key.topic if isinstance(key, MessageQueue) else str(key), calls, seconds)

    def _let_go(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Where every member gets every message, none can be given back to all of them."""
        self.counters.dropped += len(messages)
        more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
        self._seldom.warning(
            ("dropped", messages[0].topic),
            "%r%s failed, and does not come again: broadcasting has no retries",
            messages[0],
            more,
        )
        self._dealt_with(queue, messages)

    def _dealt_with(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        if queue.dropped:
            # Somebody else consumes the queue by now, from the offset that was committed when we lost it.
            return
        queue.last_consume = trio.current_time()
        self._offsets.update(queue.queue, queue.remove(messages), increase_only=True)

    # --- what takes too long ------------------------------------------------------------------------------

    async def _expiry_service(self) -> None:
        """Notice what a listener has had for too long. The listener is left alone: it may hold anything."""
        timeout = self._config.consume_timeout
        while True:
            oldest = min((since for call, since in self.running() if id(call) not in self._expired), default=None)
            await trio.sleep_until((trio.current_time() if oldest is None else oldest) + timeout)
            now = trio.current_time()
            for call, since in self.running():
                # The same sum as above: a difference may come out a hair smaller, and this would go round and round.
                if since + timeout <= now and id(call) not in self._expired:
                    self._expired[id(call)] = call
                    self._expire(call)

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way, each with its beginning on trio's clock. For any thread."""
        return self._plain.running() + self._tasks.running()

    def in_order(self, queue: ProcessQueue) -> list[int]:
        """Where order counts, the offsets of what listeners have of a queue, or have not committed. For any thread."""
        return []

    def _was_expired(self, call: Call) -> bool:
        """Whether a call that has ended had taken too long."""
        return self._expired.pop(id(call), None) is not None
