"""ConsumeService: what concurrent and orderly consumption have in common.

Two runners call listeners, one the plain ones and one the async ones. The results are processed in the trio thread, all
those of one turn of the loop together. A listener that takes too long is noticed. Plays the part of
ConsumeMessageService.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.calling.runners import ListenerRunner, RunnerMaker, TaskRunner
from rocketpy.consumer.calling.thread_runner import runner_for_plain_listeners
from rocketpy.consumer.calling.unheard import Unheard, UnheardMessage
from rocketpy.consumer.calls import Call, Finished, messages_of
from rocketpy.consumer.consumed import Consumed
from rocketpy.consumer.listeners import LoggedListeners, is_async_listener
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.logs import Seldom, counted, get_logger
from rocketpy.message import MessageQueue
from rocketpy.results import MessageModel

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.calling.send_back import SendBack
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.subscription import Listener, Subscriptions
    from rocketpy.message import MessageExt

__all__ = ["DIRECT", "ConsumeCounters", "ConsumeService"]

logger = get_logger(__name__)

DIRECT = "(direct)"
"""The lane of direct calls, which belong to no topic. No topic can have this name."""


@attrs.define
class ConsumeCounters:
    """Counts of messages, by what has become of them."""

    consumed: int = 0
    failed: int = 0
    """Messages whose listener call failed or took too long."""
    timed_out: int = 0
    sent_back: int = 0
    dropped: int = 0
    """Messages that failed while broadcasting, which has no retries; they count as done."""
    retried_here: int = 0
    """Messages that no broker took back at once, and those of a broadcast whose call was cancelled; in an orderly
    consumer, all retries."""


class ConsumeService(ABC):
    """Calls the listeners of one push consumer.

    Args:
        config: the consumer's settings.
        subscriptions: has the listener of each topic.
        offsets: where the progress of each queue is recorded.
        send_back: sends messages back to brokers.
        plain: makes the runner for plain listeners.
        tasks: makes the runner for async listeners.
        rates: where to count what listeners do, and how long it takes.
        consumed: remembers consumed messages, to recognise duplicates.
        finished: where runners put calls that have ended; it identifies the consumer for `inside`.

    Attributes:
        most: how many listeners may run at the same time, not counting extra ones that replace listeners that hang.
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
        finished: Finished | None = None,
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
        self._finished = finished or Finished()
        self._ended = trio.Event()
        limit = config.consume_thread_max
        self._plain: ListenerRunner = plain(limit, self._finished, self._report)
        self._tasks: ListenerRunner = tasks(limit, self._finished, self._report)
        self.most = limit
        self._last_listener: Listener | None = None
        self._last_runner = self._plain
        self._expired: dict[int, Call] = {}
        self._direct_calls: dict[int, Call] = {}
        self._senders = 0
        self._settled = trio.Event()
        self._unheard = Unheard(subscriptions, config.pull_threshold_for_queue // 2, self._hand_over, self._put_off)
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._logged = LoggedListeners()
        self._stopping = False
        self._nursery: trio.Nursery | None = None

    # --- what differs -----------------------------------------------------------------------------------

    @abstractmethod
    def _call_for(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Have a listener called with messages."""

    @abstractmethod
    def _fail_unheard(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Fail retried messages that do not name their original topic, so that no listener will ever get them."""

    @abstractmethod
    def _put_off(self, waited: Iterable[UnheardMessage]) -> None:
        """Send messages back that have waited long enough for a listener of their topic."""

    @abstractmethod
    def collect(self) -> None:
        """Process the calls that have ended since the last time."""

    @abstractmethod
    def _expire(self, call: Call) -> None:
        """React to a call from which the listener has not returned within `consume_timeout`."""

    @property
    def _is_giving_back(self) -> bool:
        """Whether messages are on their way back to a broker."""
        return self._senders > 0

    @property
    def is_busy(self) -> bool:
        """Whether a listener is running, or messages are on their way back to a broker."""
        return self._is_giving_back or bool(self.running())

    def _services(self) -> Iterable[Callable[[], Awaitable[None]]]:
        """The services that run with it."""
        return self._collect_service, self._expiry_service, self._unheard.run

    # --- life -----------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the service until it is cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                for service in self._services():
                    self._nursery.start_soon(service)
                task_status.started()
                async with trio.open_nursery() as runners:
                    runners.start_soon(self._plain.run)
                    runners.start_soon(self._tasks.run)
                # Both runners have stopped, so no call is running any more.
                self.collect()
                self._stopping = True
                self._settle()
        finally:
            self._nursery = None
            self._settled.set()

    async def stop(self) -> None:
        """Start no more calls, wait for the running ones, and wait until failed messages have been sent back."""
        self._plain.stop()
        self._tasks.stop()
        await self._settled.wait()

    def subscriptions_changed(self) -> None:
        """Listeners were added or removed."""
        if not self._stopping:
            self._unheard.look()

    def _settle(self) -> None:
        if self._stopping and not self._is_giving_back:
            self._settled.set()

    def set_most(self, most: int) -> None:
        """Set how many listeners may run at the same time, instead of `consume_thread_max`."""
        self.most = most
        self._allow_more()

    def _allow_more(self) -> None:
        self._allow(self.most - self._config.consume_thread_max)

    def _allow(self, extra: int) -> None:
        self._plain.allow(extra)
        self._tasks.allow(extra)

    # --- in: from messages to calls ---------------------------------------------------------------------

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages that `queue` holds."""
        if self._finished.untold:  # then no thread has to say so
            self._take_ended()
        if queue.queue.topic == self._subscriptions.retry_topic:
            self._subscriptions.show_original_topic(messages)
            for message in messages:
                self._hand_over(queue, [message])
        else:
            self._hand_over(queue, messages)

    def _hand_over(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Pass messages, which all have the same topic, to its listener."""
        topic = messages[0].topic
        listener = self._subscriptions.listener(topic)
        if listener is not None:
            self._call_for(listener, queue, messages)
        elif topic == self._subscriptions.retry_topic:
            self._seldom.warning(
                "no origin",
                "failed, because they do not name their original topic: %s of %s",
                counted(len(messages), "message"),
                topic,
            )
            self._fail_unheard(queue, messages)
        else:
            self._unheard.add(queue, messages)

    def _runner_of(self, listener: Listener) -> ListenerRunner:
        if listener is not self._last_listener:  # to find out takes as long as a few calls
            self._last_listener = listener
            self._last_runner = self._tasks if is_async_listener(listener) else self._plain
        return self._last_runner

    def call_directly(self, call: Call) -> None:
        """Make a call that does not wait behind those of any topic or queue, and whose result changes nothing here."""
        self._direct_calls[id(call)] = call
        self._runner_of(call[0]).submit(DIRECT, [call])

    def _was_direct(self, call: Call) -> bool:
        """Whether a call that has ended was a direct one; asking once forgets it."""
        if self._direct_calls.pop(id(call), None) is None:
            return False
        self._was_expired(call)
        return True

    def _calls(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> Iterable[Call]:
        size = self._batch_size
        if size == 1:
            return zip(repeat(listener), repeat(queue), messages, strict=False)
        return [(listener, queue, list(messages[at : at + size])) for at in range(0, len(messages), size)]

    # --- out: from calls to offsets ---------------------------------------------------------------------

    def _report(self) -> None:
        """Calls have ended. Those of one turn of the loop are processed together."""
        self._ended.set()

    @trio.lowlevel.enable_ki_protection
    async def _collect_service(self) -> None:
        while True:
            await self._ended.wait()
            self._ended = trio.Event()
            self._take_ended()

    def _take_ended(self) -> None:
        # Before anything is taken: what ends from here on is told of again.
        self._finished.told = self._finished.untold = False
        self.collect()

    def _note_succeeded(self, calls: Iterable[Call]) -> None:
        """Record that all messages of these calls are consumed."""
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
        for key, calls, seconds, last in self._finished.take_times():
            self._rates.note_calls(key.topic if isinstance(key, MessageQueue) else str(key), calls, seconds, last)

    def _let_go(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Drop failed messages while broadcasting: they cannot be sent back to one member only."""
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
            # Another member may consume the queue by now, from the offset committed when this consumer lost it.
            return
        queue.last_consume = trio.current_time()
        self._offsets.update(queue.queue, queue.remove(messages), increase_only=True)

    # --- what takes too long ------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _expiry_service(self) -> None:
        """Notice calls that take too long. The listener itself is not interrupted: it may hold locks or files."""
        timeout = self._config.consume_timeout
        while True:
            oldest = min((since for call, since in self.running() if id(call) not in self._expired), default=None)
            await trio.sleep_until((trio.current_time() if oldest is None else oldest) + timeout)
            now = trio.current_time()
            for call, since in self.running():
                # The same sum as above: a difference may be smaller by a rounding error, and this would loop busily.
                if since + timeout <= now and id(call) not in self._expired:
                    self._note_expired(call)

    def _note_expired(self, call: Call) -> None:
        self._expired[id(call)] = call
        if id(call) not in self._direct_calls:
            self._expire(call)
            return
        self._seldom.error(
            ("late", DIRECT),
            "the listener has not returned from %r, which an administrator has had consumed, for %g seconds",
            messages_of(call)[0],
            self._config.consume_timeout,
        )
        self._allow_more()

    def running(self) -> list[tuple[Call, float]]:
        """The calls that are running, each with its start on trio's clock. Thread-safe."""
        return self._plain.running() + self._tasks.running()

    def in_flight(self) -> Counter[str]:
        """How many messages listeners have just now, by the topic of their queue. Thread-safe."""
        found: Counter[str] = Counter()
        for call, _ in self.running():
            found[call[1].queue.topic] += len(messages_of(call))
        return found

    def in_order(self, queue: ProcessQueue) -> list[int]:
        """In an orderly consumer, the offsets of a queue with a listener, or waiting for its commit. Thread-safe."""
        return []

    def _was_expired(self, call: Call) -> bool:
        """Whether a call that has ended took too long; asking once forgets it."""
        return self._expired.pop(id(call), None) is not None
