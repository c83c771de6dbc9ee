"""All consume queues of a store, by topic and number: found, made, loaded, flushed, deleted.

Plays the part of ConsumeQueueStore.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rocketpy.wire.names import is_valid_stored_topic
from rocketpy_broker_sim.store.disk.failure import beginning
from rocketpy_broker_sim.store.disk.platforms import max_open_files
from rocketpy_broker_sim.store.disk.row_loading import is_number
from rocketpy_broker_sim.store.queue.consume_queue import FOLDER, MAX_QUEUE_ID, ConsumeQueue
from rocketpy_broker_sim.store.queue.consume_queue_ext import FOLDER as EXT_FOLDER
from rocketpy_broker_sim.store.steps import finish

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.steps import Steps

__all__ = ["QueueTable"]

MIN_OPEN = 64
"""Queues whose files may stay open at least; half of what the process may have open, if that is more."""
MAX_OPEN = 65_536
STAY_EVERY = 8
"""When no more may stay open, one in so many takes the place of the oldest; the others are closed by the next one. With
more queues in use than that, those that are open stay useful, where each would be closed just before it is wanted."""
CLOSE_AT_ONCE = 8
MANY = 512
"""Queues that are flushed with one call for the whole file system: each alone takes a millisecond."""


class QueueTable:
    """The consume queues. A queue has no files before its first unit.

    Attributes:
        file_size: Bytes in each file of a queue.
        units: Units of all queues together, without those of a dispatch that has not come to its end.
    """

    def __init__(self, storage: Storage, file_size: int, *, ext_file_size: int = 0) -> None:
        """Nothing is loaded yet.

        Args:
            storage: The directory.
            file_size: Bytes in each file of a queue.
            ext_file_size: Bytes in each file of an extension; 0 for queues without one.
        """
        self.units = 0
        self._added = 0
        self._storage = storage
        self.file_size = file_size
        self._ext_file_size = ext_file_size
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._by_topic: dict[str, list[ConsumeQueue]] = {}
        self._leaving: dict[str, dict[int, ConsumeQueue]] = {}
        """Queues of deleted topics whose files are still there."""
        self._dirty: deque[ConsumeQueue] = deque()
        self._opened: deque[ConsumeQueue] = deque()
        self._max_open = min(max(MIN_OPEN, max_open_files() // 2), MAX_OPEN)
        self._passing: ConsumeQueue | None = None
        self._passed = 0
        self.find = self._queues.get
        """``find((topic, queue_id))``: the queue, or None."""

    @property
    def may_extend(self) -> bool:
        """Whether queues get an extension once there is something to keep there."""
        return self._ext_file_size > 0

    def __len__(self) -> int:
        """How many queues there are."""
        return len(self._queues)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Every queue."""
        return iter(list(self._queues.values()))

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made when there is none.

        Raises:
            OSError: The disk refused to delete what is left of a queue of that name.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            if topic in self._leaving:
                self._delete_leaving(topic, queue_id)
            queue = ConsumeQueue(
                self._storage, topic, queue_id, self.file_size, self._note_open, ext_file_size=self._ext_file_size
            )
            self._queues[topic, queue_id] = queue
            self._by_topic.setdefault(topic, []).append(queue)
        return queue

    def load(self, *, mend: bool = False) -> None:
        """Take in the queues that have files.

        Args:
            mend: Whether a crash may have left some of them maimed; what is lost is in the log.
        """
        for topic, queue_id in self._places(FOLDER):
            self._load(self.open(topic, queue_id), mend)
        if self._ext_file_size:
            self._drop_stale_entries()

    def _places(self, folder: str) -> Iterator[tuple[str, int]]:
        """(topic, number) of what has a folder of its own; other folders there are none of ours, and left alone."""
        for topic in filter(is_valid_stored_topic, self._storage.list(folder)):
            for name in self._storage.list(f"{folder}/{topic}") if self._storage.is_dir(f"{folder}/{topic}") else ():
                if is_number(name) and name == str(int(name)) and int(name) <= MAX_QUEUE_ID:
                    yield topic, int(name)

    def _drop_stale_entries(self) -> None:
        """Delete extensions without a queue: a power loss left them, or took the queue."""
        for topic, queue_id in list(self._places(EXT_FOLDER)):
            if (topic, queue_id) not in self._queues:
                folder = f"{EXT_FOLDER}/{topic}/{queue_id}"
                for name in reversed(self._storage.list(folder)):
                    self._storage.unlink(f"{folder}/{name}")
                self._storage.remove_dir(folder)

    def _load(self, queue: ConsumeQueue, mend: bool) -> None:
        if queue.load(mend=mend):
            self.mark_dirty(queue)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic."""
        return list(self._by_topic.get(topic, ()))

    def has_topic(self, topic: str) -> bool:
        """Whether a topic has a queue."""
        return topic in self._by_topic

    def topics(self) -> set[str]:
        """Topics that have a queue."""
        return set(self._by_topic)

    def take_out(self, topic: str) -> None:
        """Begin to delete a topic: nobody finds its queues any more; their files go with `delete_steps`."""
        for queue in self._by_topic.pop(topic, ()):
            del self._queues[topic, queue.queue_id]
            self._leaving.setdefault(topic, {})[queue.queue_id] = queue

    def delete_steps(self, topic: str) -> Steps[None]:
        """Delete the files of the queues that were taken out, a queue a step. A queue that is made again begins empty.

        Their units still count: see `forget_units` and `count_units`.
        """
        while leaving := self._leaving.get(topic):
            self._delete_leaving(topic, next(iter(leaving)))
            yield
        self._drop_folders(topic)

    def _delete_leaving(self, topic: str, queue_id: int) -> None:
        leaving = self._leaving[topic]
        queue = leaving.get(queue_id)
        if queue is None:
            return
        try:
            queue.delete()
        finally:
            if not queue.row.files:  # a queue that is made again must not find units of this one
                del leaving[queue_id]
                if not leaving:
                    del self._leaving[topic]

    def delete_topic(self, topic: str) -> None:
        """Delete the queues of a topic with their files, at once."""
        self.take_out(topic)
        finish(self.delete_steps(topic))

    def delete(self, queue: ConsumeQueue) -> None:
        """Delete one queue with its files, and the folder of its topic if it was the last one.

        Its units still count: see `forget_units` and `count_units`.

        Raises:
            OSError: The disk refused; the queue is taken out nevertheless, and what is left of it goes with
                `delete_leaving`, or before a queue of that name is made.
        """
        del self._queues[queue.topic, queue.queue_id]
        of_topic = self._by_topic[queue.topic]
        of_topic.remove(queue)
        if not of_topic:
            del self._by_topic[queue.topic]
        self._leaving.setdefault(queue.topic, {})[queue.queue_id] = queue
        self._delete_leaving(queue.topic, queue.queue_id)
        self._drop_folders(queue.topic)

    def _drop_folders(self, topic: str) -> None:
        """Remove the folders of a topic that hold no queue any more."""
        for folder in (f"{FOLDER}/{topic}", f"{EXT_FOLDER}/{topic}"):
            if self._storage.is_dir(folder) and not self._storage.list(folder):
                self._storage.remove_dir(folder)

    def delete_all(self) -> None:
        """Delete every queue, to build them again from the log."""
        for topic in self.topics():
            self.delete_topic(topic)

    @property
    def is_leaving(self) -> bool:
        """Whether there are still files of queues that were taken out."""
        return bool(self._leaving)

    def delete_leaving(self, most: int) -> None:
        """Delete the files of queues that were taken out and are still there, of so many at once.

        Raises:
            OSError: The disk refused; the others stay too.
        """
        for topic in list(self._leaving):
            for queue_id in list(self._leaving[topic]):
                if most <= 0:
                    return
                most -= 1
                self._delete_leaving(topic, queue_id)
            self._drop_folders(topic)

    def count_units(self) -> None:
        """Count the units of all queues again."""
        self.units = sum(queue.max_offset for queue in self._queues.values())
        self._added = 0

    def add_units(self, count: int) -> None:
        """Note that a dispatch added units; they count with `settle_units`."""
        self._added += count

    def settle_units(self) -> None:
        """Let what was added count, now that everybody may know how far the log is dispatched.

        Never before that: a flush in a thread must not take units for older than they are, or the next start would miss
        some and rebuild all queues.
        """
        self.units += self._added
        self._added = 0

    def forget_units(self, queues: Iterable[ConsumeQueue]) -> int:
        """Count the units of queues no more, which are about to be deleted. Returns how many they were."""
        gone = sum(queue.max_offset for queue in queues)
        self.units -= gone
        return gone

    def mark_dirty(self, queue: ConsumeQueue) -> None:
        """Note that a queue has units the disk may not have."""
        if not queue.dirty:
            queue.dirty = True
            self._dirty.append(queue)

    def flush(self, least_pages: int = 0) -> None:
        """Return when the units written so far have reached the disk; for one thread at a time.

        Args:
            least_pages: Queues with fewer pages of new units wait for a later flush.

        Raises:
            NotBegunError: A file or folder could not be opened; nothing is lost by that.
            OSError: What the disk has is not known any more.
        """
        due: list[ConsumeQueue] = []
        for _ in range(len(self._dirty)):
            queue = self._dirty.popleft()
            if queue.deleted:
                continue
            if queue.unflushed_pages < least_pages:
                self._dirty.append(queue)
            else:
                due.append(queue)
        try:
            extended = [queue for queue in due if queue.ext is not None]
            plain = [queue for queue in due if queue.ext is None]
            if len(plain) < MANY or not self._flush_at_once(plain):
                extended = due
            for queue in extended:
                queue.flush()
        except OSError:
            for queue in due:
                queue.dirty = True
            self._dirty.extend(due)  # the next flush begins with all of them again
            raise

    def _flush_at_once(self, due: list[ConsumeQueue]) -> bool:
        """Flush many queues with one call; False where the storage has none."""
        for queue in due:
            queue.check()
        ends = [queue.begin_flush() for queue in due]
        done = False
        try:
            with beginning():
                done = self._storage.sync_tree(FOLDER)
        finally:
            for queue, end in zip(due, ends, strict=True):
                queue.end_flush(end if done else None)
        return done

    def _note_open(self, queue: ConsumeQueue) -> None:
        """Keep the number of open files bounded: brokers have more queues than processes may have files."""
        if len(self._opened) >= self._max_open:
            self._passed += 1
            if self._passed % STAY_EVERY:
                before, self._passing = self._passing, queue
                if before is not None and before is not queue:
                    before.close()
                return
        self._opened.append(queue)
        for _ in range(min(len(self._opened) - self._max_open, CLOSE_AT_ONCE)):
            oldest = self._opened.popleft()
            if oldest is not queue:
                oldest.close()

    def close(self) -> None:
        """Close all files."""
        for queue in self:
            queue.close()
        for leaving in self._leaving.values():
            for queue in leaving.values():
                queue.close()
