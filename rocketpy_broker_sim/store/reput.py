"""Reput: how far the log has been brought into what is derived from it, and the next step of that.

What was just written comes from memory, where little of it may wait: when more is written than can be dispatched (a
disk that refuses units, a flush that hangs), the rest is forgotten and read again from the log, by position. A step
that fails is tried again; after thirty failures in a row the store is marked and takes no more messages, until a step
succeeds.
Plays the part of ReputMessageService and of the retries in ConsumeQueue.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.delay_levels import DelayLevels
from rocketpy_broker_sim.store.disk.failure import store_error
from rocketpy_broker_sim.store.log.scan import LogScan
from rocketpy_broker_sim.store.queue import consume_queue
from rocketpy_broker_sim.store.queue.consume_queue import UNIT
from rocketpy_broker_sim.store.running_flags import RunningFlag

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.dispatch import CommitLogDispatcher, QueuedRequest
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.put_result import Arrival
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.running_flags import RunningFlags

__all__ = ["MAX_FAILURES", "Reput"]

MAX_FAILURES = 30
"""Failures in a row after which no more messages are taken until a step succeeds."""
MAX_WAITING = 16_384
"""Requests that may wait in memory."""
MAX_WAITING_BYTES = 32 * 1024 * 1024
"""Bytes of the log that they may span; their properties are a part of it."""
CHUNK = 250
"""Requests that one step dispatches, and records that it reads from the log: a few milliseconds of work."""
NEW_QUEUE = 12
"""So many requests cost as much as one whose queue has no file yet."""
RECORDS = 8
"""So many records of a batch cost as much as one request."""
KEYS = 8
"""So many keys of a message cost as much as one request; blanks stand between them."""
KEY_BYTES = 128
"""So many bytes of properties cost as much as one key, which is hashed character by character."""
USUAL_BYTES = 256
"""Bytes of properties for each message that cost nothing by themselves."""
FEW = 32
"""Requests that need no count of what they cost."""
FEW_BYTES = 8 * 1024
"""Bytes of their properties, or of the log where they span no more: their keys are a part of it."""
WINDOW = 256 * 1024
"""Bytes that it reads from the log at a time."""


class Reput:
    """The dispatching of one log.

    Args:
        storage: The directory, for the words of an error.
        config: What records are checked for when they are read again.
        commit_log: The log.
        dispatcher: Takes the requests.
        flags: Where it is said that it has failed for long.

    Attributes:
        done: (position, store timestamp of the last record) up to which everything is dispatched.
        most_waiting: The most requests that waited in memory at a time.
    """

    def __init__(
        self,
        storage: Storage,
        config: MessageStoreConfig,
        commit_log: CommitLog,
        dispatcher: CommitLogDispatcher,
        flags: RunningFlags,
    ) -> None:
        self._storage = storage
        self._config = config
        self._log = commit_log
        self._dispatcher = dispatcher
        self._flags = flags
        self._levels = DelayLevels(config.message_delay_level)
        self._waiting: list[QueuedRequest] = []
        self._is_torn = False  # whether something between `done` and what waits must be read from the log
        self._forgotten: dict[str, int] = {}
        self._failures = 0
        self.done = (0, 0)
        self.most_waiting = 0

    # --- what is to be done

    def add(self, requests: Sequence[QueuedRequest]) -> None:
        """Take requests of records that were just written, in log order."""
        if not requests:
            return
        waiting = self._waiting
        for request in requests:
            if request.size <= FEW_BYTES or len(request.properties) == 1:
                waiting.append(request)
            else:
                waiting.extend(_cut(request))
        count = len(waiting)
        if count > self.most_waiting:
            self.most_waiting = count
        if count > MAX_WAITING or waiting[-1].position - waiting[0].position > MAX_WAITING_BYTES:
            self._waiting = []
            self._is_torn = True

    def forget(self, topic: str) -> None:
        """Leave out what the log holds of a topic by now: it is being deleted."""
        self._waiting = [request for request in self._waiting if request.queue.topic != topic]
        self._forgotten = {name: end for name, end in self._forgotten.items() if end > self.done[0]}
        if self.done[0] < self._log.position:
            self._forgotten[topic] = self._log.position

    def behind(self, end: int) -> int:
        """Bytes up to `end` whose messages are not in their queues yet."""
        return max(0, end - self.done[0]) if self._waiting or self._is_torn else 0

    # --- doing it

    def step(self, end: int) -> Sequence[Arrival]:
        """Dispatch what waits, or a chunk of what must be read again, up to a position of the log.

        Returns:
            What can be read now.

        Raises:
            StoreError: The disk refused, or the log is damaged where it was read; a later call tries it again.
        """
        if not self._waiting and not self._is_torn:
            return ()
        requests, done = self._read_again(end) if self._is_torn else self._take(end)
        try:
            arrivals = self._dispatcher.dispatch(requests)
        except OSError as exc:
            self._is_torn = True
            self._note_failure()
            raise store_error(exc, "writing to the consume queues", self._where) from exc
        came_further, self.done = done != self.done, done
        self._dispatcher.settle()
        if self._failures and came_further:
            self._failures = 0
            self._flags.clear(RunningFlag.QUEUE_ERROR)
        return arrivals

    @property
    def _where(self) -> str:
        return self._storage.describe(consume_queue.FOLDER)

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            self._flags.set(RunningFlag.QUEUE_ERROR)

    def _take(self, end: int) -> tuple[Sequence[QueuedRequest], tuple[int, int]]:
        """The requests that wait, up to a position, and how far they go."""
        waiting = self._waiting
        last = waiting[-1]
        # One by itself is a batch of which `add` has seen that a step has time for it, or a message.
        if last.position + last.size <= end and (len(waiting) == 1 or _are_few(waiting)):
            self._waiting = []
            return waiting, (last.position + last.size, last.store_timestamp)
        count = bisect_right(waiting, end, key=lambda request: request.position + request.size)
        count = _share(waiting, min(count, CHUNK))
        taken, self._waiting = waiting[:count], waiting[count:]
        if not taken:
            return taken, self.done
        last = taken[-1]
        return taken, (last.position + last.size, last.store_timestamp)

    # --- reading it again

    def _read_again(self, end: int) -> tuple[Sequence[QueuedRequest], tuple[int, int]]:
        try:
            return self._reread(end)
        except OSError as exc:
            self._note_failure()
            where = self._storage.describe(self._log.row.folder)
            raise store_error(exc, "reading the commit log again", where) from exc

    def _reread(self, end: int) -> tuple[Sequence[QueuedRequest], tuple[int, int]]:
        """The next records of the log that were not dispatched, and how far they go."""
        stop = min(end, self._waiting[0].position) if self._waiting else end
        scan = LogScan(self._log.row, self.done[0], self._config, window=WINDOW)
        done, whole = self.done, True
        requests: list[QueuedRequest] = []
        cost, spent = _Cost(), 0
        for record in scan:
            if record.position >= stop or spent >= CHUNK:
                whole = record.position >= stop
                break
            done = (record.position + record.size, record.store_timestamp)
            for request in self._request_of(record):
                requests.append(request)
                spent = cost.add(request)
        else:
            self._check_end(scan, stop)
        if whole:
            self._is_torn = stop != (self._waiting[0].position if self._waiting else self._log.appended)
        return requests, done

    def _request_of(self, record: LogRecord) -> Iterable[QueuedRequest]:
        """The request of a record; none when its topic was deleted since."""
        if self._forgotten:
            end = self._forgotten.get(record.topic.decode("utf-8", "replace"), 0)
            if record.position < end:
                return ()
        return (self._dispatcher.request_of(record, self._levels),)

    def _check_end(self, scan: LogScan, stop: int) -> None:
        """Refuse to pass over bytes that were a record when they were written."""
        if scan.position >= stop:
            return
        self._note_failure()
        folder = self._log.row.folder
        raise StoreCorruptError(
            f"{self._storage.describe(folder)} is damaged at position {scan.position}, behind which messages were "
            "acknowledged: stop the broker, look into the disk, and put the file back from a copy",
            path=folder,
            offset=scan.position,
        )


class _Cost:
    """What requests cost together, in those whose queue has files."""

    def __init__(self) -> None:
        self._new: set[ConsumeQueue] = set()
        self._count = 0

    def add(self, request: QueuedRequest) -> int:
        """Count one more; what all of them cost."""
        self._count += 1 + len(request.tags_codes) // RECORDS + _keys(request.properties) // KEYS
        queue = request.queue
        if not queue.row.files and queue not in self._new:
            self._new.add(queue)
            self._count += NEW_QUEUE - 1
        return self._count


def _keys(properties: Sequence[bytes]) -> int:
    """As how many keys the keys of messages count."""
    joined = b"".join(properties)  # one copy costs less than a call for each of them
    blanks = joined.count(b" ") if b" " in joined else 0  # most have none, which is sooner found out than counted
    return blanks + max(0, len(joined) - USUAL_BYTES * len(properties)) // KEY_BYTES


def _cut(request: QueuedRequest) -> Sequence[QueuedRequest]:
    """The records of a batch in parts, each with as many keys as a step has time for, or one record."""
    most = KEYS * CHUNK
    if _keys(request.properties) <= most:
        return (request,)
    parts, start, keys = [], 0, 0
    for number, text in enumerate(request.properties):
        more = _keys((text,))
        if keys + more > most and number > start:
            parts.append(_part(request, start, number))
            start, keys = number, 0
        keys += more
    parts.append(_part(request, start, len(request.properties)))
    return parts


def _part(request: QueuedRequest, start: int, end: int) -> QueuedRequest:
    """Some records of a batch."""
    units = request.units[start * UNIT.size : end * UNIT.size]
    first, last = UNIT.unpack_from(units), UNIT.unpack_from(units, len(units) - UNIT.size)
    return request._replace(
        queue_offset=request.queue_offset + start,
        position=first[0],
        size=last[0] + last[1] - first[0],
        tags_codes=request.tags_codes[start:end],
        properties=request.properties[start:end],
        units=units,
    )


def _are_few(waiting: Sequence[QueuedRequest]) -> bool:
    if len(waiting) > FEW or sum([len(request.tags_codes) for request in waiting]) > FEW * RECORDS:
        return False
    if waiting[-1].position + waiting[-1].size - waiting[0].position <= FEW_BYTES:
        return True
    return sum([len(text) for request in waiting for text in request.properties]) <= FEW_BYTES


def _share(waiting: Sequence[QueuedRequest], most: int) -> int:
    """How many of the first requests one step takes: up to `most`, and up to what they may cost together."""
    cost = _Cost()
    for number in range(most):
        if cost.add(waiting[number]) > CHUNK and number:
            return number
    return most
