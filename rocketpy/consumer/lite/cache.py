"""Cache: the messages that were pulled and not handed out yet, and those handed out and not committed yet.

Pulled messages go into it, and it decides whether more may be pulled. None of its methods waits, and all are for the
loop's thread; a poll that finds nothing waits for `arrival`. Plays the part of consumeRequestCache and
AssignedMessageQueue.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    from rocketpy.consumer.lite.offsets import NotedOffsets
    from rocketpy.consumer.pulling.pull import QueuePuller
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Cache", "CacheCounters", "Part"]

logger = get_logger(__name__)

_MIB = 1024 * 1024


class Part(NamedTuple):
    """Messages of one queue that were handed out together."""

    queue: ProcessQueue
    """The queue that they were pulled from."""
    messages: list[MessageExt]
    """In the order of their offsets."""


@attrs.define
class CacheCounters:
    """Counts of messages so far."""

    handed_out: int = 0
    """Without those that were given back because they had reached nobody."""
    acknowledged: int = 0


class Cache:
    """The cache of one consumer.

    Args:
        config: the limits, and whether commits are automatic.
        offsets: where the progress of each queue is recorded.
        pullers: the puller of each queue that this consumer has; its `Assignment` keeps them.
        rates: where handed-out messages are counted.

    Attributes:
        arrival: set, and replaced, whenever polls that wait should look again.
        paused: queues from which nothing is handed out or pulled.
        counters: messages handed out and acknowledged so far.
    """

    lite = True

    def __init__(
        self,
        config: LitePullConsumerConfig,
        offsets: NotedOffsets,
        pullers: Mapping[MessageQueue, QueuePuller],
        rates: ConsumerRates | None = None,
    ) -> None:
        self.counters = CacheCounters()
        self._rates = rates or ConsumerRates(trio.current_time)
        self._pullers = pullers
        self._config = config
        self._offsets = offsets
        self._limits = FlowLimits(
            config.pull_threshold_for_queue, config.pull_threshold_size_for_queue * _MIB, config.consume_max_span
        )
        self.arrival = trio.Event()
        self.paused: frozenset[MessageQueue] = frozenset()
        self._leaving: set[ProcessQueue] = set()
        """Process queues about to be given up, from which nothing more is handed out."""
        self._rotation: deque[ProcessQueue] = deque()
        self._in_rotation: set[ProcessQueue] = set()
        self._handed_out: dict[ProcessQueue, HandedOut] = {}
        self._unconfirmed: dict[HandedOut, None] = {}
        self._acknowledges = False
        self._refusals: dict[MessageQueue, BrokerError] = {}
        self._seldom = Seldom(logger, clock=trio.current_time)

    # --- pulled messages, as a Consumption ----------------------------------------------------------------

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Have messages that `queue` holds handed out by the next polls."""
        if queue not in self._in_rotation:
            self._in_rotation.add(queue)
            self._rotation.append(queue)
        self.wake()

    def wake(self) -> None:
        """Have every poll that waits look again."""
        self.arrival.set()
        self.arrival = trio.Event()

    def collect(self) -> None:
        """Record the progress of each queue if commits are automatic."""
        self.forget_dropped()
        if self._config.auto_commit:
            for puller in tuple(self._pullers.values()):
                queue = puller.process_queue
                self._offsets.note(queue.queue, self._automatic(queue))

    def _automatic(self, queue: ProcessQueue) -> int:
        """The offset up to which a queue is committed automatically."""
        handed_out = self._handed_out.get(queue)
        if handed_out is None:
            return queue.next_offset
        if self._acknowledges:
            return handed_out.acknowledged
        # If nothing was handed out since the last poll, messages that were filtered out count as done too.
        return handed_out.confirmed if handed_out.is_open else queue.next_offset

    def forget_dropped(self) -> None:
        """Forget the messages of queues that were given up, or moved to another offset."""
        if any(queue.dropped for queue in self._rotation):
            self._rotation = deque(queue for queue in self._rotation if not queue.dropped)
            self._in_rotation = set(self._rotation)
            self._look_again()
        for queue, handed_out in [*self._handed_out.items()]:
            if queue.dropped:
                del self._handed_out[queue]
                if handed_out.is_open and len(handed_out) and self._pullers.get(queue.queue) is None:
                    logger.warning(
                        "%s moves to another member with %s handed out and not committed, for that member to get again",
                        queue.queue,
                        counted(len(handed_out), "message"),
                    )
        self._unconfirmed = {handed_out: None for handed_out in self._unconfirmed if not handed_out.queue.dropped}
        self._leaving = {queue for queue in self._leaving if not queue.dropped}
        self._refusals = {queue: each for queue, each in self._refusals.items() if self._pullers.get(queue)}

    # --- whether to pull, as a PullPolicy -----------------------------------------------------------------

    def limits(self, queues: int) -> FlowLimits:
        """How much of each queue may be held."""
        return self._limits

    def reason_to_wait(self, queue: ProcessQueue) -> str | None:
        """Why a queue must not be pulled now: it is paused, or too many messages are held or not acknowledged."""
        if queue.queue in self.paused:
            return "paused"
        held, most = self._held(), self._config.pull_threshold_for_all
        if held > most:
            return f"{counted(held, 'message')} held of all queues, over {most}"
        handed_out = self._handed_out.get(queue) if self._acknowledges else None
        if handed_out is None:
            return None
        if len(handed_out) > self._limits.messages:
            return (
                f"{counted(len(handed_out), 'message')} handed out and not acknowledged, over {self._limits.messages}"
            )
        if handed_out.span > self._limits.span:
            return (
                f"offset {handed_out.lowest_open} handed out and not acknowledged, {handed_out.span} behind, over "
                f"{self._limits.span:g}"
            )
        return None

    def _held(self) -> int:
        """How many messages of all queues are held, without those of paused queues.

        Nothing would bring the sum down while queues are paused, and the others would wait for them; each of those has
        its own limits.
        """
        return sum(len(queue) for queue in self._rotation if not queue.dropped and queue.queue not in self.paused)

    def advanced(self, queue: ProcessQueue) -> None:
        """A pull was answered, so its broker does not refuse any more. Commits depend on what is handed out instead."""
        if self._refusals:
            self._refusals.pop(queue.queue, None)

    def moved(self, queue: ProcessQueue) -> None:
        """Record the position, even without automatic commits, so that the old offset is not committed again."""
        self._offsets.note(queue.queue, queue.position)

    def failed(self, queue: ProcessQueue, error: RocketMQError) -> None:
        """Remember a refusal of lite pulls, so that polls raise it instead of waiting in vain."""
        if isinstance(error, NoPermissionError | RequestCodeNotSupportedError):
            self._refusals[queue.queue] = error
            self.wake()

    def check_refused(self) -> None:
        """Raise the error of a broker that refuses lite pulls.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: the broker of one of this consumer's queues refuses.
        """
        for queue, error in self._refusals.items():
            if self._pullers.get(queue) is not None:
                raise _explained(queue, error)

    # --- what goes out ------------------------------------------------------------------------------------

    def polled(self) -> None:
        """A poll begins: with automatic commits and without acks, everything handed out before counts as done."""
        if self._acknowledges or not self._config.auto_commit:
            return
        for handed_out in self._unconfirmed:
            handed_out.confirm()
        self._unconfirmed.clear()

    def take(self, most: int) -> list[Part]:
        """Hand out up to `most` messages, from one queue after another."""
        parts: list[Part] = []
        made_room = False
        was_over = self._held() > self._config.pull_threshold_for_all
        for _ in range(len(self._rotation)):
            queue = self._rotation.popleft()
            rests = queue.dropped or queue.queue in self.paused or queue in self._leaving
            messages = [] if rests else queue.hand_out(most)
            if queue.dropped or not len(queue):
                self._in_rotation.discard(queue)
                made_room |= queue.dropped  # it is not counted as held any more, and pullers have not been told
            else:
                self._rotation.append(queue)
            if messages:
                most -= len(messages)
                self._note(queue, messages)
                parts.append(Part(queue, messages))
                if not most:
                    break
        if made_room or (was_over and self._held() <= self._config.pull_threshold_for_all):
            self._look_again()
        return parts

    def _note(self, queue: ProcessQueue, messages: list[MessageExt]) -> None:
        queue.last_consume = trio.current_time()
        self._count(queue, len(messages))
        handed_out = self._handed_out.get(queue)
        if handed_out is None:
            handed_out = self._handed_out[queue] = HandedOut(queue)
            handed_out.confirmed = messages[0].queue_offset
        self._unconfirmed[handed_out] = None
        handed_out.add(messages)
        if not self._acknowledges:
            handed_out.forget_oldest()

    def in_flight(self) -> Counter[str]:
        """How many messages are handed out and not done, by topic. Thread-safe."""
        found: Counter[str] = Counter()
        for queue, handed_out in self._handed_out.copy().items():
            found[queue.queue.topic] += len(handed_out)
        return found

    def _count(self, queue: ProcessQueue, messages: int) -> None:
        self.counters.handed_out += messages
        self._rates.note_consumed(queue.queue.topic, messages)

    def give_back(self, parts: Iterable[Part]) -> None:
        """Take back messages that were handed out and have reached nobody: they are handed out next."""
        for queue, messages in parts:
            self._count(queue, -len(messages))
            if queue.dropped or not messages:
                continue
            queue.give_back(messages)
            self._take_back(queue, messages)
            if queue in self._in_rotation:
                self._rotation.remove(queue)
            self._in_rotation.add(queue)
            self._rotation.appendleft(queue)
        self.wake()

    def _take_back(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Undo it if another task's poll has declared these messages done meanwhile."""
        handed_out = self._handed_out[queue]
        settled = handed_out.confirmed
        handed_out.give_back(messages)
        if handed_out.confirmed < settled == self._offsets.memory(queue.queue):
            self._offsets.note(queue.queue, handed_out.confirmed)

    def leave(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Hand out no more messages of these queues, of all by default: they are about to be given up."""
        held = tuple(self._pullers.values())
        self._leaving.update(each.process_queue for each in held if queues is None or each.queue in queues)

    def _look_again(self) -> None:
        """Have pullers that wait check whether they may pull again."""
        for puller in tuple(self._pullers.values()):
            if puller.paused is not None:
                puller.look_again()

    # --- what is done -------------------------------------------------------------------------------------

    def acknowledge(self, queue: MessageQueue, offset: int) -> bool:
        """Mark one message as done; from the first call on, only acknowledged messages are.

        Returns:
            False if the message was not handed out, was acknowledged before, or its queue was given up.
        """
        self._acknowledges = True
        puller = self._pullers.get(queue)
        handed_out = None if puller is None else self._handed_out.get(puller.process_queue)
        if puller is None or handed_out is None or not handed_out.acknowledge(offset):
            return False
        self.counters.acknowledged += 1
        if puller.paused is not None:
            puller.look_again()
        return True

    def settle(self) -> dict[MessageQueue, int]:
        """For each queue, the offset to commit now that the user asks for it; it is recorded."""
        self.forget_dropped()
        settled: dict[MessageQueue, int] = {}
        for puller in tuple(self._pullers.values()):
            queue = puller.process_queue
            handed_out = self._handed_out.get(queue)
            if self._acknowledges:
                offset = queue.next_offset if handed_out is None else handed_out.acknowledged
            else:
                offset = queue.next_offset if handed_out is None else handed_out.confirm()
            settled[queue.queue] = offset
            self._offsets.note(queue.queue, offset)
        return settled

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Neither pull these queues nor hand out their messages."""
        self.paused |= frozenset(queues)
        self._look_again()

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull these queues and hand out their messages again."""
        self.paused -= frozenset(queues)
        self._look_again()
        self.wake()


def _explained(queue: MessageQueue, error: BrokerError) -> BrokerError:
    """A refusal with advice, as a new exception for each caller."""
    told = type(error)(error.code, error.remark, address=error.address, doing=f"a lite pull of {queue}")
    unknown = isinstance(error, RequestCodeNotSupportedError)
    advice = "where lite pull is forbidden (litePullMessageEnable), use PushConsumer or PullConsumer"
    told.args = (f"{told}; {'is that a broker?' if unknown else advice}",)
    return told
