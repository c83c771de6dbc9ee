"""ConsumeMessageOrderlyService: the messages of each queue one by one, each only when the one before it is done.

Every queue has a lane of its own, which at most one worker may enter. The worker goes from one message to the next by
itself as long as the calls succeed, the queue is not dropped, and its lock is valid, which takes one comparison with a
time that the lane has. Anything else closes the lane until this service has decided what follows: the same messages
again after a pause, while those behind them wait, or, after too many attempts, the dead-letter queue and then the next
messages. A worker leaves a lane for others that wait every few milliseconds; Java's leaves it after a minute. Plays the
part of ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.calling.consume_service import ConsumeService
from rocketpy.consumer.calling.runners import ListenerRunner, RunnerMaker, TaskRunner
from rocketpy.consumer.calling.thread_runner import runner_for_plain_listeners
from rocketpy.consumer.calling.unheard import UnheardMessage
from rocketpy.consumer.calls import Call, Finished, messages_of
from rocketpy.consumer.listeners import A_COPY, OrderVerdict, judge_in_order
from rocketpy.consumer.subscription import Listener
from rocketpy.logs import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.calling.send_back import SendBack
    from rocketpy.consumer.consumed import Consumed
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.rates import ConsumerRates
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["ConsumeMessageOrderlyService"]

_ALWAYS = float("inf")


@attrs.define(eq=False)
class _QueueState:
    """The state of one queue.

    Attributes:
        until: when its lock expires, on trio's clock.
        runners: the runners that have a lane for it: one, or two for the retry topic, whose messages may have plain and
            async listeners.
        listeners: by topic, the listener of the calls that were submitted last: of one topic, or of several for the
            retry topic.
        uncommitted: calls that succeeded and are not committed; with `auto_commit=False` only.
        closing: while the queue is being given up, in how many runners a listener may still be running.
        sending: how many tasks are sending messages of it to the dead-letter queue.
        out: set when `closing` and `sending` have reached 0.
    """

    until: float = _ALWAYS
    runners: list[ListenerRunner] = attrs.Factory(list)
    listeners: dict[str, Listener] = attrs.Factory(dict)
    uncommitted: list[Call] = attrs.Factory(list)
    closing: int | None = None
    sending: int = 0
    out: trio.Event = attrs.Factory(trio.Event)

    def note_less(self) -> None:
        """A runner is out of it, or a task has sent its messages."""
        if self.closing == 0 and not self.sending:
            self.out.set()


class ConsumeMessageOrderlyService(ConsumeService):
    """Calls the listeners of one push consumer in order. Its other arguments are those of `ConsumeService`.

    Args:
        restart: called with a queue whose listener was replaced: the calls that wait, and those that come again, have
            the old one, and if the new one is of the other kind, plain or async, workers of both kinds must not be in
            the queue at the same time.
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
        restart: Callable[[MessageQueue], None],
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
        self._restart = restart
        self._states: dict[MessageQueue, _QueueState] = {}
        self._waited: deque[UnheardMessage] = deque()
        self._sends_waited = False
        most = config.max_reconsume_times
        self._most_attempts = most if most >= 0 else None

    # --- the queues -------------------------------------------------------------------------------------

    def allow_until(self, queue: MessageQueue, until: float) -> None:
        """Start calls of a queue until a time of trio's clock. A call that is running then goes on."""
        state = self._states.setdefault(queue, _QueueState())
        state.until = until
        for runner in state.runners:
            runner.order(queue, until)

    async def leave(self, queue: MessageQueue) -> None:
        """Start no more calls of a queue, and wait until its listener has returned, however long that takes.

        What is on its way to the dead-letter queue has to get there, too: otherwise the queue would be committed at
        that message, and its next owner would consume what is a dead letter already.
        """
        state = self._states.get(queue)
        if state is None:
            return
        if state.closing is None:
            state.closing = len(state.runners)
            for runner in state.runners:
                runner.close(queue)
        if state.closing or state.sending:
            await state.out.wait()
        if self._states.get(queue) is state:
            self._forget(state.uncommitted)
            del self._states[queue]

    def uncommitted(self, queue: MessageQueue) -> int:
        """How many calls of a queue succeeded and are not committed by a listener. Thread-safe."""
        state = self._states.get(queue)
        return 0 if state is None else len(state.uncommitted)

    def in_order(self, queue: ProcessQueue) -> list[int]:
        """The offsets of a queue that are with a listener, or wait for its commit. Thread-safe."""
        state = self._states.get(queue.queue)
        calls = [call for call, _ in self.running()] + ([] if state is None else list(state.uncommitted))
        found = {message.queue_offset for call in calls if call[1] is queue for message in messages_of(call)}
        return [offset for offset in found if offset in queue]

    # --- in: from messages to calls ---------------------------------------------------------------------

    def subscriptions_changed(self) -> None:
        """Listeners were added or removed. One that was replaced gets nothing more, not even what failed."""
        for queue, state in list(self._states.items()):
            if any(self._was_replaced(*each) for each in state.listeners.items()):
                self._restart(queue)
        super().subscriptions_changed()

    def _was_replaced(self, topic: str, listener: Listener) -> bool:
        now = self._subscriptions.listener(topic)
        return now is not None and now is not listener

    def _call_for(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        state = self._states.get(queue.queue)
        if state is None:
            state = self._states[queue.queue] = _QueueState()
        runner = self._runner_of(listener)
        if runner not in state.runners:
            if state.runners and queue.queue.topic != self._subscriptions.retry_topic:
                self._restart(queue.queue)
                return
            state.runners.append(runner)
            runner.order(queue.queue, state.until)
        if state.closing is None:
            state.listeners[messages[0].topic] = listener
            runner.submit(queue.queue, self._calls(listener, queue, messages))

    def _fail_unheard(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Send them to the retry topic, one by one; a broker of 5.x turns them into dead letters."""
        self._waited.extend(UnheardMessage(queue, message, 0.0) for message in messages)
        if self._nursery is not None and self._waited and not self._sends_waited:
            self._sends_waited = True
            self._senders += 1
            self._nursery.start_soon(self._send_waited)

    def _put_off(self, waited: Iterable[UnheardMessage]) -> None:
        """Keep them waiting: brokers of 5.x would turn what a member with locks sends to the retry topic into dead
        letters.
        """
        for each in waited:
            self._unheard.keep(each.queue, each.message)
            self._seldom.warning(
                ("unheard", each.message.topic),
                "no listener for topic %s here: its retries are kept in memory until you subscribe to it",
                each.message.topic,
            )

    @trio.lowlevel.enable_ki_protection
    async def _send_waited(self) -> None:
        while self._waited:
            each = self._waited.popleft()
            if each.gone:
                continue
            state = self._states.get(each.queue.queue)
            if state is not None:
                state.sending += 1  # it may become a dead letter, for which giving the queue up waits
            try:
                sent = await self._send_back.put_off(each.message)
            finally:
                if state is not None:
                    state.sending -= 1
            if sent:
                self._dealt_with(each.queue, [each.message])
            else:
                self._unheard.keep(each.queue, each.message)
            if state is not None:
                state.note_less()
        self._sends_waited = False
        self._senders -= 1
        self._settle()

    # --- out: from calls to offsets ---------------------------------------------------------------------

    def collect(self) -> None:
        """Process the calls that have ended since the last time."""
        self._note_times()
        # In this order: a worker that has left has ended its calls, and a failed call comes after those that succeeded.
        out, others, succeeded = (
            self._finished.take_out(),
            self._finished.take_others(),
            self._finished.take_succeeded(),
        )
        if self._direct_calls:
            succeeded = [call for call in succeeded if not self._was_direct(call)]
            others = [(call, outcome) for call, outcome in others if not self._was_direct(call)]
        if self._expired:
            for call in [*succeeded, *(call for call, _ in others)]:
                self._was_expired(call)
        if self._config.auto_commit:
            self._note_succeeded(succeeded)
        else:
            self._keep(succeeded)
        for call, outcome in others:
            self._decide(call, outcome)
        for key in out:
            self._note_out(key)

    def _keep(self, calls: Iterable[Call]) -> None:
        """Hold consumed messages until a listener commits them."""
        for call in calls:
            self._note_consumed(call[1], len(messages_of(call)))
            state = self._states.get(call[1].queue)
            if state is not None and not call[1].dropped:
                call[1].last_consume = trio.current_time()
                state.uncommitted.append(call)
                if len(call[1]) > self._config.pull_threshold_for_queue:
                    self._seldom.warning(
                        ("uncommitted", call[1].queue),
                        "%s of %s held uncommitted: nothing more is pulled until a listener returns "
                        "ConsumeResult.COMMIT",
                        counted(len(call[1]), "message"),
                        call[1].queue,
                    )
            else:
                self._forget([call])

    def _forget(self, calls: Iterable[Call]) -> None:
        """These were not committed by the listener and will be redelivered: they are no duplicates then."""
        for call in calls:
            self._consumed.forget(messages_of(call))

    def _note_out(self, queue: object) -> None:
        state = self._states.get(queue)  # type: ignore[call-overload]  # all keys of lanes are queues here
        if state is not None and state.closing:
            state.closing -= 1
            state.note_less()

    def _decide(self, call: Call, outcome: object) -> None:
        """Decide what follows a call that did not simply succeed. Its lane is closed meanwhile."""
        listener, queue, _ = call
        state = self._states.get(queue.queue)
        if (state is None or queue.dropped) and not self._config.auto_commit:
            self._forget([call])
        if state is None:
            return
        if queue.dropped:
            self._go_on(state, call, [])
            return
        if outcome is A_COPY:
            self._succeeded_in_part(call, state, commit=not self._uncommitted_of(state, queue))
            self._go_on(state, call, [])
            return
        messages = messages_of(call)
        verdict = judge_in_order(
            outcome,
            messages,
            batch=self._batch_size > 1,
            auto_commit=self._config.auto_commit,
            pause=self._config.suspend_current_queue_time,
            seldom=self._seldom,
            listener=listener,
            logged=self._logged,
        )
        if verdict.rollback:
            self._note_failed(queue, len(messages))
            self._forget(state.uncommitted)
            calls, state.uncommitted = [*self._uncommitted_of(state, queue), call], []
            self._later(state, call, calls, verdict.pause)
            return
        if verdict.done:
            self._succeeded_in_part((listener, queue, messages[: verdict.done]), state, commit=verdict.commit)
        if verdict.done == len(messages):
            self._go_on(state, call, [])
        else:
            self._failed(state, (listener, queue, messages[verdict.done :]), verdict)

    def _succeeded_in_part(self, call: Call, state: _QueueState, *, commit: bool) -> None:
        if self._config.auto_commit:
            self._note_succeeded([call])
            return
        self._keep([call])
        if commit:
            calls, state.uncommitted = self._uncommitted_of(state, call[1]), []
            self._dealt_with(call[1], [message for each in calls for message in messages_of(each)])

    @staticmethod
    def _uncommitted_of(state: _QueueState, queue: ProcessQueue) -> list[Call]:
        """The uncommitted calls of this process queue, without those from before the queue was moved or lost."""
        return [call for call in state.uncommitted if call[1] is queue]

    def _go_on(self, state: _QueueState, call: Call, calls: Sequence[Call]) -> None:
        """Open the lane again, with these calls first."""
        # The queue may have been given up and taken again meanwhile: then its new lane was not closed by this call.
        if self._states.get(call[1].queue) is state:
            self._runner_of(call[0]).again(call[1].queue, [] if call[1].dropped else calls)

    # --- what failed ------------------------------------------------------------------------------------

    def _failed(self, state: _QueueState, call: Call, verdict: OrderVerdict) -> None:
        """Retry messages after a pause, or send those without attempts left to the dead-letter queue."""
        messages = messages_of(call)
        self._note_failed(call[1], len(messages))
        dead = [message for message in messages if verdict.dead or self._is_used_up(message)]
        if dead and self._broadcasts:
            self._let_go(call[1], dead)
            self._continue_without(state, call, dead, verdict.pause)
            return
        if dead and self._nursery is not None:
            self._senders += 1
            state.sending += 1
            self._nursery.start_soon(self._dead_letter, state, call, dead, verdict.pause)
            return
        self._try_again(state, call, verdict.pause)

    def _is_used_up(self, message: MessageExt) -> bool:
        return self._most_attempts is not None and message.reconsume_times >= self._most_attempts

    @trio.lowlevel.enable_ki_protection
    async def _dead_letter(self, state: _QueueState, call: Call, dead: list[MessageExt], pause: float) -> None:
        """Send messages to the dead-letter queue. One that no broker takes stays here, so that nothing overtakes it."""
        sent: list[MessageExt] = []
        for message in dead:
            if not call[1].dropped and await self._send_back.dead_letter(message):
                self.counters.sent_back += 1
                sent.append(message)
        self._senders -= 1
        self._dealt_with(call[1], sent)
        state.sending -= 1
        state.note_less()
        self._continue_without(state, call, sent, pause)
        self._settle()

    def _continue_without(self, state: _QueueState, call: Call, sent: list[MessageExt], pause: float) -> None:
        """Continue with the messages of a call that are left."""
        gone = {message.queue_offset for message in sent}
        left = [message for message in messages_of(call) if message.queue_offset not in gone]
        if left:
            self._try_again(state, (call[0], call[1], left), pause)
        else:
            self._go_on(state, call, [])

    def _try_again(self, state: _QueueState, call: Call, pause: float) -> None:
        messages = messages_of(call)
        for message in messages:
            message.count_failed_attempt()
        self.counters.retried_here += len(messages)
        listener, queue, _ = call
        self._later(state, call, [(listener, queue, messages if self._batch_size > 1 else messages[0])], pause)

    def _later(self, state: _QueueState, call: Call, calls: list[Call], pause: float) -> None:
        """Open the lane after a pause. Each queue has at most one such task, as its lane is closed meanwhile."""
        if self._nursery is not None:
            self._nursery.start_soon(self._suspend, state, call, calls, pause)

    @trio.lowlevel.enable_ki_protection
    async def _suspend(self, state: _QueueState, call: Call, calls: list[Call], pause: float) -> None:
        await trio.sleep(pause)
        self._go_on(state, call, calls)

    # --- what takes too long ------------------------------------------------------------------------------

    def _expire(self, call: Call) -> None:
        """Log it and do nothing else: passing the message to another worker would break the order."""
        message = messages_of(call)[0]
        self._seldom.error(
            ("late", message.topic),
            "the listener has not returned from %r for %g seconds: until it does, nothing else of %s is consumed, and "
            "the queue cannot go to another member",
            message,
            self._config.consume_timeout,
            call[1].queue,
        )
