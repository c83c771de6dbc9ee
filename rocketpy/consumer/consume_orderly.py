"""ConsumeMessageOrderlyService: the messages of each queue one after the other, each once the one before it is done.

Every queue has a lane of its own, which at most one worker may enter. The worker goes on by itself from one message to
the next as long as all is well: the call was a success, the queue is ours, and its lock counts, which is one comparison
with a time that the lane has. Anything else closes the lane until it is decided here what follows: the same messages
again after a pause, while those behind them wait; or, after too many attempts, the dead-letter queue, and on to the
next ones. A worker leaves a lane every few milliseconds for others that wait, long before the minute after which Java's
does. Plays the part of ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.consume_service import ConsumeService
from rocketpy.consumer.crew import Call, messages_of
from rocketpy.consumer.listeners import A_COPY, OrderVerdict, judge_in_order
from rocketpy.consumer.runners import ListenerRunner, RunnerMaker, TaskRunner
from rocketpy.consumer.thread_runner import runner_for_plain_listeners
from rocketpy.consumer.unheard import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.consumed import Consumed
    from rocketpy.consumer.offset_store import OffsetStore
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.rates import ConsumerRates
    from rocketpy.consumer.send_back import SendBack
    from rocketpy.consumer.subscription import Listener, Subscriptions
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["ConsumeMessageOrderlyService"]

_ALWAYS = float("inf")


@attrs.define(eq=False)
class _Line:
    """What is known of one queue.

    Attributes:
        until: when its lock stops to count.
        runners: those that have a lane for it: one, but for the retry topic, whose messages may have listeners of both
            kinds.
        uncommitted: calls that succeeded and are not committed, where listeners commit.
        closing: runners in which a listener may still be at work, while the queue is given up.
        out: set when there is none any more.
    """

    until: float = _ALWAYS
    runners: list[ListenerRunner] = attrs.Factory(list)
    uncommitted: list[Call] = attrs.Factory(list)
    closing: int | None = None
    out: trio.Event = attrs.Factory(trio.Event)


class ConsumeMessageOrderlyService(ConsumeService):
    """Consumes for one push consumer, in order. Arguments are those of `ConsumeService`.

    Attributes:
        restart: what to do about a queue whose messages are to go to a listener of the other kind from now on: two
            kinds of workers must not be in it at the same time.
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
        super().__init__(
            config, subscriptions, offsets, send_back, plain=plain, tasks=tasks, rates=rates, consumed=consumed
        )
        self.restart: Callable[[MessageQueue], None] = lambda queue: None
        self._lines: dict[MessageQueue, _Line] = {}
        self._beside: dict[int, Call] = {}
        self._waited: deque[Waiting] = deque()
        most = config.max_reconsume_times
        self._most_attempts = most if most >= 0 else None

    # --- the queues -------------------------------------------------------------------------------------

    def allow_until(self, queue: MessageQueue, until: float) -> None:
        """Begin calls of a queue until then, a time of trio's clock. A call that has begun goes on."""
        line = self._lines.setdefault(queue, _Line())
        line.until = until
        for runner in line.runners:
            runner.order(queue, until)

    async def leave(self, queue: MessageQueue) -> None:
        """Begin no more calls of a queue, and wait until its listener is out of it, however long that takes."""
        line = self._lines.get(queue)
        if line is None:
            return
        if line.closing is None:
            line.closing = len(line.runners)
            for runner in line.runners:
                runner.close(queue)
        if line.closing:
            await line.out.wait()
        if self._lines.get(queue) is line:
            self._forget(line.uncommitted)
            del self._lines[queue]

    def uncommitted(self, queue: MessageQueue) -> int:
        """Calls that succeeded and that no listener has committed. For any thread."""
        line = self._lines.get(queue)
        return 0 if line is None else len(line.uncommitted)

    def in_order(self, queue: ProcessQueue) -> list[int]:
        """Offsets of what a listener has of a queue, or has not committed. For any thread."""
        line = self._lines.get(queue.queue)
        calls = [call for call, _ in self.running()] + ([] if line is None else list(line.uncommitted))
        found = {message.queue_offset for call in calls if call[1] is queue for message in messages_of(call)}
        return [offset for offset in found if offset in queue]

    # --- in: from messages to calls ---------------------------------------------------------------------

    def _call_for(self, listener: Listener, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        line = self._lines.setdefault(queue.queue, _Line())
        runner = self._runner_of(listener)
        if runner not in line.runners:
            if line.runners and queue.queue.topic != self._subscriptions.retry_topic:
                self.restart(queue.queue)
                return
            line.runners.append(runner)
            runner.order(queue.queue, line.until)
        if line.closing is None:
            runner.submit(queue.queue, self._calls(listener, queue, messages))

    def call_beside(self, call: Call) -> None:
        """Make a call that does not wait behind those of any queue, and that nothing follows."""
        self._beside[id(call)] = call
        super().call_beside(call)

    def _was_beside(self, call: Call) -> bool:
        return self._beside.pop(id(call), None) is not None

    def _fail_unheard(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        self._put_off(Waiting(queue, message, 0.0) for message in messages)

    def _put_off(self, waited: Iterable[Waiting]) -> None:
        """To the end of the retry topic, one after the other."""
        self._waited.extend(waited)
        if self._nursery is not None and self._waited and not self._senders:
            self._senders += 1
            self._nursery.start_soon(self._send_waited)

    async def _send_waited(self) -> None:
        while self._waited:
            each = self._waited.popleft()
            if each.gone:
                continue
            if await self._send_back.put_off(each.message):
                self._dealt_with(each.queue, [each.message])
            else:
                self._unheard.keep(each.queue, each.message)
        self._senders -= 1
        self._settle()

    # --- out: from calls to offsets ---------------------------------------------------------------------

    def collect(self) -> None:
        """Deal with the calls that have ended since the last time."""
        self._note_times()
        # In this order: a worker that is out has ended its calls, and what was no success comes after what succeeded.
        out, others, succeeded = (
            self._finished.take_out(),
            self._finished.take_others(),
            self._finished.take_succeeded(),
        )
        if self._beside:
            succeeded = [call for call in succeeded if not self._was_beside(call)]
            others = [(call, outcome) for call, outcome in others if not self._was_beside(call)]
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
        """Consumed, and held until a listener commits."""
        for call in calls:
            self._note_consumed(call[1], len(messages_of(call)))
            line = self._lines.get(call[1].queue)
            if line is not None and not call[1].dropped:
                call[1].last_consume = trio.current_time()
                line.uncommitted.append(call)
                if len(call[1]) > self._config.pull_threshold_for_queue:
                    self._seldom.warning(
                        ("uncommitted", call[1].queue),
                        "%d messages of %s are held uncommitted: nothing more is pulled until a listener returns "
                        "ConsumeResult.COMMIT",
                        len(call[1]),
                        call[1].queue,
                    )
            else:
                self._forget([call])

    def _forget(self, calls: Iterable[Call]) -> None:
        """Where listeners commit, this was not committed: whoever gets it again, it counts as no copy."""
        for call in calls:
            self._consumed.forget(messages_of(call))

    def _note_out(self, queue: object) -> None:
        line = self._lines.get(queue)  # type: ignore[call-overload]  # all keys of lanes are queues here
        if line is not None and line.closing:
            line.closing -= 1
            if not line.closing:
                line.out.set()

    def _decide(self, call: Call, outcome: object) -> None:
        """What follows a call that did not simply succeed. Its lane is closed meanwhile."""
        listener, queue, _ = call
        line = self._lines.get(queue.queue)
        if (line is None or queue.dropped) and not self._config.auto_commit:
            self._forget([call])
        if line is None:
            return
        if queue.dropped:
            self._go_on(line, call, [])
            return
        if outcome is A_COPY:
            self._succeeded_in_part(call, line, commit=not self._uncommitted_of(line, queue))
            self._go_on(line, call, [])
            return
        messages = messages_of(call)
        verdict = judge_in_order(
            outcome,
            messages,
            batch=self._batch_size > 1,
            auto_commit=self._config.auto_commit,
            pause=self._config.suspend_current_queue_time,
            seldom=self._seldom,
        )
        if verdict.rollback:
            self._note_failed(queue, len(messages))
            self._forget(line.uncommitted)
            calls, line.uncommitted = [*self._uncommitted_of(line, queue), call], []
            self._later(line, call, calls, verdict.pause)
            return
        if verdict.done:
            self._succeeded_in_part((listener, queue, messages[: verdict.done]), line, commit=verdict.commit)
        if verdict.done == len(messages):
            self._go_on(line, call, [])
        else:
            self._failed(line, (listener, queue, messages[verdict.done :]), verdict)

    def _succeeded_in_part(self, call: Call, line: _Line, *, commit: bool) -> None:
        if self._config.auto_commit:
            self._note_succeeded([call])
            return
        self._keep([call])
        if commit:
            calls, line.uncommitted = self._uncommitted_of(line, call[1]), []
            self._dealt_with(call[1], [message for each in calls for message in messages_of(each)])

    @staticmethod
    def _uncommitted_of(line: _Line, queue: ProcessQueue) -> list[Call]:
        """Without what was held of the queue before it was moved or lost."""
        return [call for call in line.uncommitted if call[1] is queue]

    def _go_on(self, line: _Line, call: Call, calls: Sequence[Call]) -> None:
        """Open the lane again, with these calls first."""
        # The queue may have been given up and taken again meanwhile: then this is not what closed the lane.
        if self._lines.get(call[1].queue) is line:
            self._runner_of(call[0]).again(call[1].queue, [] if call[1].dropped else calls)

    # --- what failed ------------------------------------------------------------------------------------

    def _failed(self, line: _Line, call: Call, verdict: OrderVerdict) -> None:
        """The same again after a pause; dead letters of what was tried often enough, and on."""
        messages = messages_of(call)
        self._note_failed(call[1], len(messages))
        dead = [message for message in messages if verdict.dead or self._is_used_up(message)]
        if dead and self._broadcasts:
            self._let_go(call[1], dead)
            self._without(line, call, dead, verdict.pause)
            return
        if dead and self._nursery is not None:
            self._senders += 1
            self._nursery.start_soon(self._bury, line, call, dead, verdict.pause)
            return
        self._try_again(line, call, verdict.pause)

    def _is_used_up(self, message: MessageExt) -> bool:
        return self._most_attempts is not None and message.reconsume_times >= self._most_attempts

    async def _bury(self, line: _Line, call: Call, dead: list[MessageExt], pause: float) -> None:
        """To the dead-letter queue. What no broker takes stays, so that nothing overtakes it."""
        buried: list[MessageExt] = []
        for message in dead:
            if not call[1].dropped and await self._send_back.dead_letter(message):
                self.counters.sent_back += 1
                buried.append(message)
        self._senders -= 1
        self._dealt_with(call[1], buried)
        self._without(line, call, buried, pause)
        self._settle()

    def _without(self, line: _Line, call: Call, buried: list[MessageExt], pause: float) -> None:
        """Go on with what is left of a call."""
        gone = {message.queue_offset for message in buried}
        left = [message for message in messages_of(call) if message.queue_offset not in gone]
        if left:
            self._try_again(line, (call[0], call[1], left), pause)
        else:
            self._go_on(line, call, [])

    def _try_again(self, line: _Line, call: Call, pause: float) -> None:
        messages = messages_of(call)
        for message in messages:
            message.count_failed_attempt()
        self.counters.retried_here += len(messages)
        listener, queue, _ = call
        self._later(line, call, [(listener, queue, messages if self._batch_size > 1 else messages[0])], pause)

    def _later(self, line: _Line, call: Call, calls: list[Call], pause: float) -> None:
        """Open the lane after a pause. One such task for each queue at the most, for it is closed meanwhile."""
        if self._nursery is not None:
            self._nursery.start_soon(self._suspend, line, call, calls, pause)

    async def _suspend(self, line: _Line, call: Call, calls: list[Call], pause: float) -> None:
        await trio.sleep(pause)
        self._go_on(line, call, calls)

    # --- what takes too long ------------------------------------------------------------------------------

    def _expire(self, call: Call) -> None:
        """Only told: giving the message to somebody else would break the order."""
        message = messages_of(call)[0]
        self._seldom.error(
            ("late", message.topic),
            "the listener has not returned from %r for %g seconds: until it does, nothing else of %s is consumed, and "
            "the queue cannot go to another member",
            message,
            self._config.consume_timeout,
            call[1].queue,
        )
