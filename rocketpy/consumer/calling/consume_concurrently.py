"""ConsumeMessageConcurrentlyService: many messages of a queue at the same time, in no particular order.

It turns pulled messages into calls of listeners, and the results of those calls into offsets. A message that succeeded
is done. One that failed, or took too long, is sent back to a broker and is done once the broker has it; if no broker
takes it, it is retried here. One whose topic has no listener waits. The offset of a queue moves only past messages that
are done. Plays the part of ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.calling.consume_service import ConsumeService
from rocketpy.consumer.calling.runners import RunnerMaker, TaskRunner
from rocketpy.consumer.calling.thread_runner import runner_for_plain_listeners
from rocketpy.consumer.calls import Call, Finished, messages_of
from rocketpy.consumer.listeners import BROKER_DECIDES, Raised, is_a, is_async_listener, judge
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.consumer.subscription import Listener
from rocketpy.message import MessageExt

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.calling.send_back import SendBack
    from rocketpy.consumer.calling.unheard import UnheardMessage
    from rocketpy.consumer.consumed import Consumed
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.consumer.rates import ConsumerRates
    from rocketpy.consumer.subscription import Subscriptions

__all__ = ["ConsumeMessageConcurrentlyService"]

RETRY_HERE_AFTER = 5.0
"""Seconds after which a message that no broker took back is retried."""
EXPIRED_DELAY_LEVEL = 3


@attrs.define(eq=False)
class _Failure:
    """A message that has to be sent back."""

    queue: ProcessQueue
    message: MessageExt
    delay_level: int
    listener: Listener | None
    """The listener that gets it when it is retried here; None while an earlier call with it may still be running."""
    due: float = 0.0
    untried: bool = False
    """Whether no listener has seen it, so that no attempt is counted."""


class ConsumeMessageConcurrentlyService(ConsumeService):
    """Calls the listeners of one push consumer concurrently. Its arguments are those of `ConsumeService`."""

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
        super().__init__(
            config,
            subscriptions,
            offsets,
            send_back,
            plain=plain,
            tasks=tasks,
            rates=rates,
            consumed=consumed,
            finished=finished,
        )
        self._failures: deque[_Failure] = deque()
        self._later: deque[_Failure] = deque()
        self._some_later = trio.Event()
        self._share()

    def _services(self) -> Iterable[Callable[[], Awaitable[None]]]:
        return *super()._services(), self._retry_here_service

    @property
    def _is_giving_back(self) -> bool:
        return bool(self._failures) or super()._is_giving_back

    # --- in: from messages to calls ---------------------------------------------------------------------

    def subscriptions_changed(self) -> None:
        """Listeners were added or removed."""
        self._share()
        super().subscriptions_changed()

    def _share(self) -> None:
        """Keep workers of each kind, plain and async, for every topic: none may take all of them."""
        topics = self._subscriptions.user_topics
        kinds: dict[bool, list[str]] = {False: [], True: []}
        for topic in topics:
            listener = self._subscriptions.listener(topic)
            kinds[listener is not None and is_async_listener(listener)].append(topic)
        self._plain.share(kinds[False])
        self._tasks.share(kinds[True])

    def _call_for(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self._runner_of(listener).submit(messages[0].topic, self._calls(listener, queue, messages))

    def _fail_unheard(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self._fail(queue, messages, BROKER_DECIDES, None)

    # --- out: from calls to offsets ---------------------------------------------------------------------

    def collect(self) -> None:
        """Process the calls that have ended since the last time."""
        self._note_times()
        succeeded = self._finished.take_succeeded()
        if self._direct_calls:
            succeeded = [call for call in succeeded if not self._was_direct(call)]
        if self._expired:
            succeeded = [call for call in succeeded if not self._was_expired(call)]
        self._note_succeeded(succeeded)
        for call, outcome in self._finished.take_others():
            if not (self._was_direct(call) or self._was_expired(call)):
                self._note_outcome(call, outcome)

    def _note_outcome(self, call: Call, outcome: object) -> None:
        listener, queue, _ = call
        messages = messages_of(call)
        cut_off = is_a(outcome, Raised) and outcome.cut_off
        again = cut_off or not self._broadcasts
        verdict = judge(
            outcome,
            messages,
            batch=self._batch_size > 1,
            seldom=self._seldom,
            again=again,
            listener=listener,
            logged=self._logged,
        )
        if verdict.done:
            self._note_consumed(queue, verdict.done)
            self._dealt_with(queue, messages[: verdict.done])
        if cut_off and self._broadcasts:
            self._note_failed(queue, len(messages))
            self._later_here(_Failure(queue, message, BROKER_DECIDES, listener) for message in messages)
        elif verdict.done < len(messages):
            self._fail(queue, messages[verdict.done :], verdict.delay_level, listener)

    # --- what failed ------------------------------------------------------------------------------------

    def _fail(
        self, queue: ProcessQueue, messages: Sequence[MessageExt], delay_level: int, listener: Listener | None
    ) -> None:
        self._note_failed(queue, len(messages))
        if self._broadcasts:
            self._let_go(queue, messages)
            return
        self._give_back([_Failure(queue, message, delay_level, listener) for message in messages])

    def _put_off(self, waited: Iterable[UnheardMessage]) -> None:
        self._give_back([_Failure(each.queue, each.message, BROKER_DECIDES, None, untried=True) for each in waited])

    def _give_back(self, failures: Iterable[_Failure]) -> None:
        """Send messages back, as many at a time as listeners may run: a broker in trouble must not be flooded."""
        self._failures.extend(failures)
        while self._nursery is not None and self._senders < min(len(self._failures), self._config.consume_thread_max):
            self._senders += 1
            self._nursery.start_soon(self._send_failures)

    @trio.lowlevel.enable_ki_protection
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
                self._later_here([failure])
        self._senders -= 1
        self._settle()

    def _later_here(self, failures: Iterable[_Failure]) -> None:
        for failure in failures:
            self.counters.retried_here += 1
            failure.due = trio.current_time() + RETRY_HERE_AFTER
            self._later.append(failure)
        self._some_later.set()

    @trio.lowlevel.enable_ki_protection
    async def _retry_here_service(self) -> None:
        """Retry messages that no broker took back, and those of a broadcast whose listener was cut off."""
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

    def _expire(self, call: Call) -> None:
        _, queue, _ = call
        messages = messages_of(call)
        self._seldom.error(
            ("late", messages[0].topic),
            "the listener has not returned from %r for %g seconds: the message comes again later, and what the "
            "listener returns is ignored",
            messages[0],
            self._config.consume_timeout,
        )
        self._allow_more()
        self.counters.timed_out += len(messages)
        self._fail(queue, messages, EXPIRED_DELAY_LEVEL, None)

    def _was_expired(self, call: Call) -> bool:
        if not super()._was_expired(call):
            return False
        self._allow_more()
        return True

    def _allow_more(self) -> None:
        """Allow one more call for each that hangs, so that others can run, up to twice `consume_thread_max` in all.

        That is the setting, or what was set later if it is more.
        """
        limit = self._config.consume_thread_max
        self._allow(min(self.most + len(self._expired), 2 * max(self.most, limit)) - limit)
