"""Cache: what was pulled and is not handed out yet, and what was handed out and is not committed yet.

Everything here is plain and belongs to the loop; who finds nothing waits for `arrival`. It is what pulled messages are
given to, and decides whether more may be pulled. Plays the part of consumeRequestCache and AssignedMessageQueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from rocketpy.consumer.lite.handed_out import HandedOut
from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.errors import BrokerError, NoPermissionError, RequestCodeNotSupportedError, RocketMQError
from rocketpy.logs import Seldom, counted, get_logger

if TYPE_CHECKING:
    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.consumer.assignment import Assignment
    from rocketpy.consumer.lite.offsets import NotedOffsets
    from rocketpy.consumer.pull import QueuePuller
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Cache", "CacheCounters", "Part"]

logger = get_logger(__name__)

_MIB = 1024 * 1024


class Part(NamedTuple):
    """Messages of one queue that were handed out together."""

    queue: ProcessQueue
    messages: list[MessageExt]


@attrs.define
class CacheCounters:
    """What has become of messages so far."""

    handed_out: int = 0
    """Less what was given back, since it had reached nobody."""
    acknowledged: int = 0


class Cache:
    """That of one consumer.

    Args:
        config: the limits, and whether committing is automatic.
        offsets: where it is noted how far the group is.
        rates: where to count what is handed out.

    Attributes:
        assignment: the queues that are ours; set once both are made.
        arrival: set, and replaced, whenever somebody who waits should look again.
        paused: queues of which nothing is to be handed out, or pulled.
        counters: what was handed out and acknowledged so far.
        leaving: what is about to be given up: nothing more of it is handed out.
    """

    lite = True
    assignment: Assignment

    def __init__(
        self, config: LitePullConsumerConfig, offsets: NotedOffsets, rates: ConsumerRates | None = None
    ) -> None:
        self.counters = CacheCounters()
        self._rates = rates or ConsumerRates(trio.current_time)
        self._config = config
        self._offsets = offsets
        self._limits = FlowLimits(
            config.pull_threshold_for_queue, config.pull_threshold_size_for_queue * _MIB, config.consume_max_span
        )
        self.arrival = trio.Event()
        self.paused: frozenset[MessageQueue] = frozenset()
        self.leaving: set[ProcessQueue] = set()
        self._turns: deque[ProcessQueue] = deque()
        self._in_turn: set[ProcessQueue] = set()
        self._books: dict[ProcessQueue, HandedOut] = {}
        self._unconfirmed: dict[HandedOut, None] = {}
        self._acknowledges = False
        self._refusals: dict[MessageQueue, BrokerError] = {}
        self._seldom = Seldom(logger, clock=trio.current_time)

    # --- what comes in, as a Consumption ------------------------------------------------------------------

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Hand these out when they are asked for."""
        if queue not in self._in_turn:
            self._in_turn.add(queue)
            self._turns.append(queue)
        self.wake()

    def wake(self) -> None:
        """Have everybody who waits look again."""
        self.arrival.set()
        self.arrival = trio.Event()

    def collect(self) -> None:
        """Note how far the group is, where committing is automatic."""
        self.forget_dropped()
        if self._config.auto_commit:
            for puller in self.assignment:
                queue = puller.process_queue
                self._offsets.note(queue.queue, self._automatic(queue))

    def _automatic(self, queue: ProcessQueue) -> int:
        """Up to where a queue is committed by itself."""
        book = self._books.get(queue)
        if book is None:
            return queue.next_offset
        if self._acknowledges:
            return book.acknowledged
        # With nothing handed out since the last poll, what nobody wants is dealt with too.
        return book.confirmed if book.is_open else queue.next_offset

    def forget_dropped(self) -> None:
        """Keep nothing of queues that were given up, or left for another offset."""
        if any(queue.dropped for queue in self._turns):
            self._turns = deque(queue for queue in self._turns if not queue.dropped)
            self._in_turn = set(self._turns)
            self.look_again(self.assignment)
        for queue, book in [*self._books.items()]:
            if queue.dropped:
                del self._books[queue]
                if book.is_open and len(book) and self.assignment.get(queue.queue) is None:
                    logger.warning(
                        "%s moves to another member with %s handed out and not committed, for that member to get again",
                        queue.queue,
                        counted(len(book), "message"),
                    )
        self._unconfirmed = {book: None for book in self._unconfirmed if not book.queue.dropped}
        self.leaving = {queue for queue in self.leaving if not queue.dropped}
        self._refusals = {queue: each for queue, each in self._refusals.items() if self.assignment.get(queue)}

    # --- whether to pull, as a PullManner -----------------------------------------------------------------

    def limits(self, queues: int) -> FlowLimits:
        """What may be held of each queue."""
        return self._limits

    def brake(self, queue: ProcessQueue) -> str | None:
        """Why a queue must not be pulled now: it is paused, or too much is held in all, or not acknowledged."""
        if queue.queue in self.paused:
            return "paused"
        held, most = self._held(), self._config.pull_threshold_for_all
        if held > most:
            return f"{counted(held, 'message')} held of all queues, over {most}"
        book = self._books.get(queue) if self._acknowledges else None
        if book is None:
            return None
        if len(book) > self._limits.messages:
            return f"{counted(len(book), 'message')} handed out and not acknowledged, over {self._limits.messages}"
        if book.span > self._limits.span:
            return (
                f"offset {book.lowest_open} handed out and not acknowledged, {book.span} behind, over "
                f"{self._limits.span:g}"
            )
        return None

    def _held(self) -> int:
        """Messages of all queues."""
        return sum(len(queue) for queue in self._turns if not queue.dropped)

    def advanced(self, queue: ProcessQueue) -> None:
        """What is committed follows from what is handed out; a broker that has answered refuses no more."""
        if self._refusals:
            self._refusals.pop(queue.queue, None)

    def failed(self, queue: ProcessQueue, error: RocketMQError) -> None:
        """A poll has to hear of a broker that will never give anything."""
        if isinstance(error, NoPermissionError | RequestCodeNotSupportedError):
            self._refusals[queue.queue] = error
            self.wake()

    def check_refused(self) -> None:
        """Tell that brokers do not give messages to lite pull consumers.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: that is so for a queue that is ours.
        """
        for queue, error in self._refusals.items():
            if self.assignment.get(queue) is not None:
                raise _explained(queue, error)

    # --- what goes out ------------------------------------------------------------------------------------

    def polled(self) -> None:
        """Somebody asks for more: what was handed out before counts as dealt with, unless it is acknowledged."""
        if self._acknowledges or not self._config.auto_commit:
            return
        for book in self._unconfirmed:
            book.confirm()
        self._unconfirmed.clear()

    def take(self, most: int) -> list[Part]:
        """Hand out so many messages at most, of one queue after the other."""
        parts: list[Part] = []
        was_over = self._held() > self._config.pull_threshold_for_all
        for _ in range(len(self._turns)):
            queue = self._turns.popleft()
            rests = queue.dropped or queue.queue in self.paused or queue in self.leaving
            messages = [] if rests else queue.hand_out(most)
            if queue.dropped or not len(queue):
                self._in_turn.discard(queue)
            else:
                self._turns.append(queue)
            if messages:
                most -= len(messages)
                self._note(queue, messages)
                parts.append(Part(queue, messages))
                if not most:
                    break
        if was_over and self._held() <= self._config.pull_threshold_for_all:
            self.look_again(self.assignment)
        return parts

    def _note(self, queue: ProcessQueue, messages: list[MessageExt]) -> None:
        queue.last_consume = trio.current_time()
        self._count(queue, len(messages))
        book = self._books.get(queue)
        if book is None:
            book = self._books[queue] = HandedOut(queue)
            book.confirmed = messages[0].queue_offset
        self._unconfirmed[book] = None
        book.add(messages)
        if not self._acknowledges:
            book.forget_oldest()

    def _count(self, queue: ProcessQueue, messages: int) -> None:
        self.counters.handed_out += messages
        self._rates.note_consumed(queue.queue.topic, messages)

    def give_back(self, parts: Iterable[Part]) -> None:
        """These were handed out and have reached nobody: they are handed out next."""
        for queue, messages in parts:
            self._count(queue, -len(messages))
            if queue.dropped or not messages:
                continue
            queue.give_back(messages)
            self._take_back(queue, messages)
            if queue in self._in_turn:
                self._turns.remove(queue)
            self._in_turn.add(queue)
            self._turns.appendleft(queue)
        self.wake()

    def _take_back(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Another task may have said meanwhile that everything handed out is dealt with: these are not."""
        book = self._books[queue]
        settled = book.confirmed
        book.give_back(messages)
        if book.confirmed < settled == self._offsets.memory(queue.queue):
            self._offsets.note(queue.queue, book.confirmed)

    def look_again(self, pullers: Iterable[QueuePuller]) -> None:
        """Some reason not to pull may be gone."""
        for puller in pullers:
            if puller.paused is not None:
                puller.look_again()

    # --- what is dealt with -------------------------------------------------------------------------------

    def acknowledge(self, queue: MessageQueue, offset: int) -> bool:
        """One message is dealt with; from the first one on, only such are. False when it is not ours any more."""
        self._acknowledges = True
        puller = self.assignment.get(queue)
        book = None if puller is None else self._books.get(puller.process_queue)
        if puller is None or book is None or not book.acknowledge(offset):
            return False
        self.counters.acknowledged += 1
        if puller.paused is not None:
            puller.look_again()
        return True

    def settle(self) -> dict[MessageQueue, int]:
        """For each queue, up to where the group may commit when it is asked to. Offsets are noted."""
        self.forget_dropped()
        settled: dict[MessageQueue, int] = {}
        for puller in self.assignment:
            queue = puller.process_queue
            book = self._books.get(queue)
            if self._acknowledges:
                offset = queue.next_offset if book is None else book.acknowledged
            else:
                offset = queue.next_offset if book is None else book.confirm()
            settled[queue.queue] = offset
            self._offsets.note(queue.queue, offset)
        return settled

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Neither pull these nor hand out what is held of them."""
        self.paused |= frozenset(queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on with these."""
        self.paused -= frozenset(queues)
        self.look_again(self.assignment)
        self.wake()


def _explained(queue: MessageQueue, error: BrokerError) -> BrokerError:
    """A refusal, with what to do about it. A new one for each who hears it."""
    told = type(error)(error.code, error.remark, address=error.address, doing=f"a lite pull of {queue}")
    unknown = isinstance(error, RequestCodeNotSupportedError)
    advice = "where lite pull is forbidden (litePullMessageEnable), use PushConsumer or PullConsumer"
    told.args = (f"{told}; {'is that a broker?' if unknown else advice}",)
    return told
