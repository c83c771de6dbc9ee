"""Messages that linger to be sent in batches: which messages form a batch, and when a batch is sent.

A batch is sent when it is full, or when its first message has lingered for `linger`. A batch with a message that a
caller waits for (by `send`, or by asking a future for its result) is sent sooner: as soon as no other batch of its key
is under way. So a caller does not linger for messages that it would only send after the answer. Messages of threads
that wait stay in the queue until that batch has its answer: to wake the trio thread for each of them would cost more
than the rest of a send, and would make batches so small that they cost more than single messages. Batches to one queue,
including those of sharding keys, are sent in order, one at a time; all others may be under way together.

All of this runs in the trio thread. Other threads only append messages to a queue, and hold no lock while a signal
handler or a finalizer may interrupt them. Plays the part of ProduceAccumulator. Java's batches have one tag each; here
each message of a batch keeps its own tag, so the tags may differ.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

import trio

from rocketpy.client.routes.routing import NEARLY
from rocketpy.client.sends.selection import sharding_queue
from rocketpy.client.sends.send_attempts import never_begun
from rocketpy.errors import ClientClosedError, NameServerUnreachableError, RequestTimeoutError, RocketMQError, unsent
from rocketpy.producer.batching import FIXED, Batch, Routeless, own_error
from rocketpy.remoting.timers import Alarm

if TYPE_CHECKING:
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.client.sends.send_drivers import Done
    from rocketpy.client.sends.sending import SendCore
    from rocketpy.message import MessageQueue
    from rocketpy.producer.batching import Key
    from rocketpy.producer.items import LingeringMessage, Outcome

__all__ = ["Accumulator", "Starter"]

_MOST: Final = 4096
"""Messages of a batch."""
_LEAST = 0.001
"""Seconds that a batch has even when its time is up: it fails with an error of its own then."""


class Starter(Protocol):
    """Sends batches, in the trio thread: the producer."""

    def start_batch(
        self, outgoing: Outgoing, queue: MessageQueue | None, tries: int, timeout: float, done: Done
    ) -> object:
        """Start to send a batch, to a queue or to any; `done` gets the outcome, perhaps before this returns."""

    async def ensure_route(self, topic: str, *, timeout: float) -> TopicPublishInfo:
        """Return the queues of a topic, after fetching its route if necessary."""

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run an async function in a task of the producer."""

    def note_begun(self) -> None:
        """Count a batch as under way, from its first message on: closing waits for it."""

    def note_ended(self) -> None:
        """Count a batch as ended."""


class Accumulator:
    """The batches of one producer.

    Args:
        core: What the attempts of all sends share.
        starter: Sends batches.
        take_ids: Returns the given number of unique ids.
    """

    def __init__(self, core: SendCore, starter: Starter, take_ids: Callable[[int], list[str]]) -> None:
        config = core.config
        assert config.linger is not None
        self._core = core
        self._starter = starter
        self._take_ids = take_ids
        self._linger = config.linger
        self._largest = config.batch_max_bytes
        self._most_in_frame = config.max_message_size
        self._post: Callable[[Callable[[], object]], object] = _nobody
        self._inbox: deque[LingeringMessage] = deque()
        self._awake = False
        self._posts = count(1)
        self._posted = self._begun = 0
        """Calls of `_called` that were surely posted, and those that have begun. The first may be less than it was."""
        self._has_threads = False
        self._is_busy = self._drain_again = False
        self._open: dict[Key, Batch] = {}
        self._flying: dict[Key, int] = {}
        self._lanes: dict[Key, deque[Batch]] = {}
        self._spread: list[Batch] = []
        """Batches under way whose messages have deadlines far apart."""
        self._without_route: dict[str, Routeless] = {}
        self._is_closed = False
        self._alarm: Alarm | None = None

    def start(self) -> None:
        """Start to take messages, in the loop that runs here."""
        self._post = trio.lowlevel.current_trio_token().run_sync_soon
        self._alarm = Alarm(self._core.client.pool.timers, self._ring)

    def attach(self, post: Callable[[Callable[[], object]], object], *, has_threads: bool = False) -> None:
        """Have functions called in the trio thread by `post`, that of a portal.

        Args:
            post: Calls a function soon.
            has_threads: Whether those who wait for a message are threads, rather than tasks of one loop.
        """
        self._post = post
        self._has_threads = has_threads

    def __len__(self) -> int:
        """The number of batches that have not ended."""
        return len(self._open) + sum(self._flying.values()) + sum(map(len, self._lanes.values()))

    # --- any thread --------------------------------------------------------------------------------------

    def drop_in(self, entry: LingeringMessage) -> None:
        """Take a message, from any thread.

        Raises:
            ClientClosedError: the process is ending.
        """
        self._inbox.append(entry)
        if entry.waits:
            # Not by `_awake`: this may be a signal handler that interrupted the lines below. A call that was posted and
            # has not begun will find the message.
            if self._posted <= self._begun and not (self._has_threads and self._will_be_taken(entry)):
                self._post(self._called)
                self._posted = next(self._posts)
        elif not self._awake:
            try:
                self._awake = True
                self._post(self._drain)
            except BaseException:
                self._awake = False
                raise

    def _will_be_taken(self, entry: LingeringMessage) -> bool:
        """Whether the inbox is taken when a batch of the same key lands, before it holds more than one batch does."""
        if entry.queue is not None or entry.head.sharding_key is not None:
            return False  # its batch waits for others of its queue alone
        if len(self._inbox) * len(entry.body) > self._largest:
            return False
        return (entry.topic, entry.head.wait, entry.timeout, entry.tries) in self._flying

    def hurry(self) -> None:
        """Send each batch as soon as no other of its key is under way, because a caller waits."""
        self._post(self._await_all)

    # --- the trio thread: messages in --------------------------------------------------------------------

    def _called(self) -> None:
        self._begun += 1
        self._drain()

    def _drain(self) -> None:
        """Move the messages of the inbox into batches. Awaited batches may be sent once all messages have joined."""
        self._awake = False  # first: a message that arrives from here on causes another call
        if self._is_busy:  # a batch has failed at once, and perhaps a thread relied on its landing
            self._drain_again = True
        else:
            self._undisturbed(self._fill)

    def _undisturbed(self, function: Callable[[], object]) -> None:
        """Call what walks over messages or batches: until it returns, no message joins a batch from within `_landed`.

        A batch may fail while it is launched. If its landing took messages, they could join, or even launch, the very
        batches that `function` is about to put messages into or to launch.
        """
        was_busy, self._is_busy = self._is_busy, True
        try:
            function()
        finally:
            self._is_busy = was_busy
        if self._drain_again and not was_busy:
            self._drain_again = False
            self._post(self._drain)

    def _fill(self) -> None:
        inbox = self._inbox
        awaited: dict[Key, Batch] = {}
        left = len(inbox)
        while left > 0:
            entry = inbox.popleft()
            left -= 1
            try:
                batch = self._place(entry)
            except Exception as error:  # noqa: BLE001 - it is this message's alone
                entry.sink.hear(error)
                continue
            if batch is None:
                continue
            if batch.is_awaited:
                awaited[batch.key] = batch
            if left and self._open.get(batch.key) is batch:
                left -= batch.take_alike(inbox, min(left, _MOST - 1 - len(batch)), self._largest, self._most_in_frame)
        for key, batch in awaited.items():
            if self._open.get(key) is batch and key not in self._flying:
                self._shut(batch)

    def _place(self, entry: LingeringMessage) -> Batch | None:
        """Put a message into its batch. Returns None if the message must wait for a route first."""
        queue, sharding_key = entry.queue, entry.head.sharding_key
        if queue is None and sharding_key is not None:
            info = self._core.client.routes.publish_info(entry.topic)
            if info is None or entry.topic in self._without_route:
                self._ask_for_route(entry.topic, entry)
                return None
            try:
                queue = sharding_queue(info.queues, sharding_key)
            except Exception as error:  # noqa: BLE001 - it is this message's alone
                entry.sink.hear(error)
                return None
        return self._add(entry, queue)

    def _add(self, entry: LingeringMessage, queue: MessageQueue | None) -> Batch:
        topic, body, _, head, outgoing, _, _, timeout, tries, deadline, waits = entry
        wait = head.wait
        key: Key = (topic, wait, timeout, tries) if queue is None else queue
        batch = self._open.get(key)
        size, alone = len(body), outgoing is not None
        frame_size = FIXED + size + len(head.properties)
        if batch is not None and (
            alone
            or batch.size + size > self._largest
            or batch.frame_size + frame_size > self._most_in_frame
            or (queue is not None and not batch.is_like(wait, timeout, tries))
        ):
            self._shut(batch)
            batch = None
        if batch is None:
            due = deadline - timeout + min(self._linger, timeout / 2)
            batch = self._open[key] = Batch(key, queue, wait, timeout, tries, due)
            self._starter.note_begun()
            if self._alarm is not None and due < self._alarm.when:
                self._alarm.set(due)
        batch.entries.append(entry)
        batch.size += size
        batch.frame_size += frame_size
        if waits:
            batch.is_awaited = True
        if alone or batch.size >= self._largest or len(batch.entries) >= _MOST or self._is_closed:
            self._shut(batch)
        return batch

    def _ask_for_route(self, topic: str, entry: LingeringMessage) -> None:
        """Fetch a route, which determines the queue of a sharding key. Later messages with sharding keys wait too."""
        before = self._without_route.get(topic)
        if before is not None:
            before.entries.append(entry)
            if self._alarm is not None:
                self._alarm.set(entry.deadline)
            return
        self._without_route[topic] = Routeless([entry])
        self._starter.note_begun()
        try:
            self._starter.start_soon(partial(self._find_route, topic))
        except RuntimeError:  # the nursery has ended: the message had waited for room while the producer was closed
            del self._without_route[topic]
            self._starter.note_ended()
            entry.sink.hear(_closed(topic))

    @trio.lowlevel.enable_ki_protection
    async def _find_route(self, topic: str) -> None:
        """Look up the route until the last deadline; after that, for those that have come meanwhile."""
        waiting = self._without_route[topic]
        error: BaseException = _closed(topic)
        try:
            while waiting.entries:
                error, deadline = _closed(topic), waiting.begin_lookup()
                if self._alarm is not None:
                    self._alarm.set(min(waiting.dues(), default=math.inf))
                try:
                    await self._starter.ensure_route(topic, timeout=max(_LEAST, deadline - self._core.clock()))
                    break
                except RocketMQError as exc:
                    error, end = exc, self._core.clock() + NEARLY
                    if end < deadline or not isinstance(exc, NameServerUnreachableError):
                        break  # it was not for lack of time, so the others would not fare better
                    self._tell_late(waiting.expire(end), error)
        finally:
            self._undisturbed(partial(self._place_all, self._without_route.pop(topic), topic, error))
            self._starter.note_ended()

    def _place_all(self, waiting: Routeless, topic: str, error: BaseException) -> None:
        """Put messages that waited for a route into their batches, or tell the error if there is none."""
        if self._core.client.routes.publish_info(topic) is not None:
            self._tell_late(waiting.expire(self._core.clock()))
        for entry in waiting.entries:
            batch = None
            if self._core.client.routes.publish_info(topic) is None:
                entry.sink.hear(own_error(error))
            else:
                batch = self._place(entry)
            if batch is not None and batch.is_awaited and self._open.get(batch.key) is batch:
                self._shut(batch)

    def _tell_late(self, late: list[LingeringMessage], error: BaseException | None = None) -> None:
        """Fail messages whose time was up while they waited for a route."""
        for entry in late:
            too_late = self._core.client.routes.too_late
            entry.sink.hear(too_late(entry.topic, entry.timeout) if error is None else own_error(error))

    # --- the trio thread: batches out --------------------------------------------------------------------

    def _shut(self, batch: Batch) -> None:
        """Close a batch to further messages. It is sent now, or after the batches before it in its queue."""
        if self._open.get(batch.key) is batch:
            del self._open[batch.key]
        if batch.queue is not None and batch.key in self._flying:
            self._lanes.setdefault(batch.key, deque()).append(batch)
            self._watch(batch)
        else:
            self._launch(batch)

    def _launch(self, batch: Batch) -> None:
        self._flying[batch.key] = self._flying.get(batch.key, 0) + 1
        done = partial(self._landed, batch)
        try:
            outgoing = batch.outgoing(self._take_ids)
        except Exception as error:  # noqa: BLE001 - its messages must hear of it, and closing must not wait for them
            done(error)
            return
        if outgoing is None:
            self._landed(batch, None)
            return
        deadline = batch.deadline(self._linger)
        if deadline > batch.first_deadline:
            batch.launched = outgoing
            outgoing.renew = partial(batch.renewed, self._take_ids)
            self._spread.append(batch)
            self._watch(batch)
        left = max(_LEAST, deadline - self._core.clock())
        try:
            self._starter.start_batch(outgoing, batch.queue, batch.tries, left, done)
        except BaseException as error:  # noqa: BLE001 - what a hook raises is the outcome of these messages
            done(error)

    def _watch(self, batch: Batch) -> None:
        """Have `_ring` called at the first deadline of a batch."""
        if self._alarm is not None:
            self._alarm.set(batch.first_deadline)

    def _landed(self, batch: Batch, outcome: Outcome | None) -> None:
        """End a batch that was launched; the outcome is None if all of its senders have given up."""
        key = batch.key
        left = self._flying[key] - 1
        if left:
            self._flying[key] = left
        else:
            del self._flying[key]
        if batch in self._spread:
            self._spread.remove(batch)
            batch.launched = None  # it refers to the batch: no cycle may stay behind
        if self._has_threads and self._inbox:
            self._drain()
        if outcome is not None and batch.is_refused(outcome):
            self._part(batch)
            outcome = None
        self._follow(key)
        if outcome is not None:
            batch.tell(outcome)
        self._starter.note_ended()

    def _part(self, batch: Batch) -> None:
        """Send the two halves of a refused batch in its place: perhaps only one message is at fault."""
        for half in reversed(batch.halves()):
            self._starter.note_begun()
            if batch.queue is None:
                self._launch(half)
            else:
                self._lanes.setdefault(batch.key, deque()).appendleft(half)

    def _follow(self, key: Key) -> None:
        """Send the next batch of a key, now that one has ended."""
        if key in self._flying:
            return
        lane = self._lanes.get(key)
        if lane:
            batch = lane.popleft()
            if not lane:
                del self._lanes[key]
            self._launch(batch)
            return
        found = self._open.get(key)
        if found is not None and found.is_awaited:
            self._shut(found)

    def _ring(self, now: float) -> float:
        """Send batches that have lingered long enough, and fail messages whose deadline has passed."""
        if self._has_threads and self._inbox:
            self._drain()
        self._undisturbed(partial(self._shut_due, now))
        waiting = [each for each in self._open.values() if each.due == math.inf]
        waiting += [batch for lane in self._lanes.values() for batch in lane]
        for batch in waiting:
            for sink in batch.expire(now):
                sink.hear(batch.too_late())
        for batch in self._spread:
            for sink in batch.expire(now):
                sink.hear(self._unanswered(batch))
        for routeless in self._without_route.values():
            if min(routeless.dues(), default=math.inf) <= now:
                self._tell_late(routeless.expire(now))
        dues = [batch.due for batch in self._open.values()]
        dues += [
            entry.deadline for batch in (*waiting, *self._spread) for entry in batch.entries if entry.deadline > now
        ]
        dues += [due for each in self._without_route.values() for due in each.dues()]
        if self._has_threads and self._flying:
            dues.append(now + self._linger)  # messages that are left in the inbox linger no longer than others
        return min(dues, default=math.inf)

    def _shut_due(self, now: float) -> None:
        for batch in list(self._open.values()):
            if batch.due <= now and self._is_open(batch):
                if batch.queue is not None and batch.key in self._flying:
                    batch.is_awaited = True  # more messages may join it; it is sent when the one before it has ended
                    batch.due = math.inf
                else:
                    self._shut(batch)

    def _is_open(self, batch: Batch) -> bool:
        """Whether a batch is open still: one that was launched before it may have had it launched, by `_follow`."""
        return self._open.get(batch.key) is batch

    def _unanswered(self, batch: Batch) -> RocketMQError:
        """The error of a message whose time is up while its batch is under way."""
        topic = batch.entries[0].topic
        if batch.is_unsent:
            return never_begun(self._core, topic, batch.timeout)
        place = topic if batch.queue is None else batch.queue
        return RequestTimeoutError(
            f"no answer to the batch with a message for {place} within {batch.timeout:g} s: it may be stored; if it is "
            "sent again, consumers may get it twice",
            timeout=batch.timeout,
        )

    def _await_all(self) -> None:
        self._drain()
        self._undisturbed(self._hurry_all)

    def _hurry_all(self) -> None:
        for batch in list(self._open.values()):
            batch.is_awaited = True
            if batch.key not in self._flying and self._is_open(batch):
                self._shut(batch)

    # --- the end -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Send every batch, and let no message linger from now on."""
        self._is_closed = True
        self._drain()
        self._undisturbed(self._shut_all)

    def _shut_all(self) -> None:
        for batch in list(self._open.values()):
            if self._is_open(batch):
                self._shut(batch)

    def abandon(self) -> None:
        """Fail the messages that have not been sent; batches under way end by themselves."""
        self.close()
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            for batch in lane:
                self._end(batch, _closed(batch.entries[0].topic))

    def _end(self, batch: Batch, outcome: Outcome) -> None:
        """End a batch that was never launched."""
        batch.tell(outcome)
        self._starter.note_ended()


def _closed(topic: str) -> ClientClosedError:
    return unsent(ClientClosedError(f"the producer was closed before a message for {topic} was sent: nothing was sent"))


def _nobody(function: Callable[[], object]) -> None:
    raise AssertionError("an open producer has a loop")
