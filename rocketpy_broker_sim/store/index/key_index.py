"""The key index of a store: messages found by key or unique id, over files of one shape.

It follows the log behind the consume queues. What it has reached the disk with, it need not read again at the next
start; everything behind that is taken from the log once more, by position. It is a help and no record: where it fails,
messages are taken all the same, and it catches up when the disk takes it again. One loop calls everything but `flush`
and `write_again`, which run in one thread at a time. Plays the part of IndexService.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreCorruptError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketpy_broker_sim.store.index.file import FOLDER, IndexFile, IndexShape
from rocketpy_broker_sim.store.index.growth import GrowingIndexFile
from rocketpy_broker_sim.store.index.key_columns import KeyColumns
from rocketpy_broker_sim.store.index.keys import KeyHashes, hash_of
from rocketpy_broker_sim.store.index.loading import load_files
from rocketpy_broker_sim.store.queue.units import positions_of
from rocketpy_broker_sim.store.running_flags import RunningFlag
from rocketpy_broker_sim.store.steps import finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.checkpoint import Checkpoint
    from rocketpy_broker_sim.store.dispatch import QueuedRequest
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.running_flags import RunningFlags
    from rocketpy_broker_sim.store.steps import Steps

__all__ = ["Found", "IndexProgress", "KeyIndex"]

ATTEMPTS = 3
"""How often a write is tried before the index is given up for now."""
WRITE_AT = 64
"""Dispatches that are written together."""
MUCH = 8 * 1024
"""Bytes of properties that are written at once: a few milliseconds, should they be full of keys."""
MOST_KEYS = 2000
"""Keys of a message that are indexed at a time, when its properties are so long by themselves."""
SEAL_AT = 100_000
"""Entries that wait in memory at most before the next flush takes them."""
SEAL_EVERY = 10
"""Flushes of the store of which one takes the index along, however little it has."""
log = get_logger(__name__)


class Found(NamedTuple):
    """What a search found.

    Attributes:
        positions: Where messages stand whose keys have the hash that was looked for, the newest first. Other keys may
            have it too.
        last_timestamp: Store time of the last message that is indexed, ms; 0 when none is.
        last_position: Where that message stands.
    """

    positions: list[int]
    last_timestamp: int
    last_position: int


class IndexProgress(NamedTuple):
    """How far the disk has the index.

    Attributes:
        position: Everything before is indexed, or has no keys; None when that is not known.
        end: Where the last message stands that is indexed; -1 when none is.
        full_timestamp: Store time of the last message in the newest full file, ms; for Apache's broker.
    """

    position: int | None = None
    end: int = -1
    full_timestamp: int = 0


class KeyIndex:
    """All files of one index.

    Attributes:
        files: The files, the oldest first.
        position: Where the log goes on behind what was put.
        progress: How far the disk has it.
        is_behind: Whether messages before the newest are still to be read from the log; new ones are among those then.
        is_busy: Whether that is so because of a message with very many keys; each `reput` of the store goes on with it.
        failed: Whether it was given up for now, because the disk refused.
    """

    def __init__(self, storage: Storage, config: MessageStoreConfig, flags: RunningFlags) -> None:
        """Nothing is touched before `load`."""
        self._storage = storage
        self._config = config
        self._flags = flags
        self._shape = IndexShape.of(config)
        self._hashes = KeyHashes()
        self._waiting: list[QueuedRequest] = []
        self._waiting_bytes = 0
        self._unsealed = 0
        self._sealed: tuple[IndexProgress, Sequence[GrowingIndexFile]] | None = None
        self._partly = (-1, 0)
        self._names_synced = True
        self._flush_failed = False
        self.files: tuple[IndexFile, ...] = ()
        self.position = 0
        self.progress = IndexProgress()
        self.is_behind = False
        self.is_busy = False
        self.failed = False

    # --- loading

    def load(self, checkpoint: Checkpoint, log_start: int, log_end: int, *, unclean: bool) -> None:
        """Take in the files and settle where in the log to go on: at `position`.

        Args:
            checkpoint: What is known to have reached the disk.
            log_start: Where the log begins.
            log_end: Where it ends, now that it has been recovered.
            unclean: Whether the broker that wrote the files was not stopped in good order.
        """
        self.progress = IndexProgress(checkpoint.indexed, checkpoint.index_end, checkpoint.index_timestamp)
        if not self._config.message_index_enable:
            return
        # Without our positions in the checkpoint the files may be another broker's, who promises nothing of slots.
        newest = checkpoint.index_timestamp if unclean and checkpoint.flushed is None else None
        mend = unclean or checkpoint.indexed != log_end
        self.files = tuple(load_files(self._storage, self._shape, log_end, newest, mend=mend, safe=checkpoint.indexed))
        end = self._end
        known = checkpoint.indexed if end >= checkpoint.index_end else None  # else files were taken away
        self.position = min(max(end, log_start, known or 0), log_end)
        self._note_partly(end)
        self.progress = IndexProgress(known, end, min(self._full_timestamp, checkpoint.index_timestamp))

    @property
    def _end(self) -> int:
        """Where the last message stands that is indexed; -1 when none is."""
        if not self.files or (len(self.files) == 1 and self.files[0].header.next_entry == 1):
            return -1
        return self.files[-1].header.end_position

    @property
    def _full_timestamp(self) -> int:
        """Store time of the last message in the newest full file, ms; 0 without one."""
        return next((file.header.end_timestamp for file in reversed(self.files) if file.is_full), 0)

    def _note_partly(self, end: int) -> None:
        """Note how many keys of the last message are indexed: the rest of them may be missing."""
        count = 0
        for file in reversed(self.files):
            number = file.header.next_entry - 1
            while number > 0 and file.entry(number).position == end:
                count, number = count + 1, number - 1
            if number > 0:
                break
        self._partly = (end, count)
        self._close_full()

    # --- putting

    def put(self, requests: Sequence[QueuedRequest]) -> None:
        """Index messages that have come into their queues; never fails. A few wait until they are worth a write.

        From a message on that may have very many keys, they are left to `IndexCatchUp`.
        """
        if self.failed or self.is_behind or not requests:
            return
        size = sum([sum(map(len, request.properties)) for request in requests])
        if size > MUCH:
            requests = self._before_long(requests)
        self._waiting.extend(requests)
        self._waiting_bytes += size
        if len(self._waiting) >= WRITE_AT or self._waiting_bytes > MUCH:
            self._write_waiting()

    def _before_long(self, requests: Sequence[QueuedRequest]) -> Sequence[QueuedRequest]:
        """Those before the first that has long properties; from there on the index is behind."""
        for number, request in enumerate(requests):
            if max(map(len, request.properties)) > MUCH:
                self._waiting.extend(requests[:number])
                self._write_waiting()
                self.position = max(self.position, request.position)
                self.is_behind = self.is_busy = not self.failed
                return requests[:0]
        return requests

    def _write_waiting(self) -> None:
        """Bring the messages that wait to the files."""
        requests, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        if self.failed or not requests:
            return
        keys = KeyColumns.of()
        single: list[tuple[str, bytes, int, int]] = []
        for queue, _, position, _, _, timestamp, sys_flag, properties, units in requests:
            if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
                continue
            if len(properties) == 1:
                single.append((queue.topic, properties[0], position, timestamp))
            else:
                keys.extend(KeyColumns.of(self._hashes.of_all(single)))
                single = []
                keys.extend(self._hashes.of_batch(queue.topic, properties, positions_of(units), timestamp))
        keys.extend(KeyColumns.of(self._hashes.of_all(single)))
        last = requests[-1]
        self._put(keys, last.position + last.size)

    def put_records(self, records: Sequence[LogRecord]) -> None:
        """Index messages that were read from the log; never fails."""
        if self.failed or not records:
            return
        messages = [
            (record.topic.decode("utf-8", "replace"), record.properties, record.position, record.store_timestamp)
            for record in records
            if record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
        ]
        self._put(KeyColumns.of(self._hashes.of_all(messages)), records[-1].position + records[-1].size)

    def put_part(self, record: LogRecord) -> bool:
        """Index some more keys of a record that may have very many; whether there can be others. Never fails."""
        position, end = record.position, record.position + record.size
        done = self._partly[1] if self._partly[0] == position else 0
        hashes: list[int] = []
        if record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            topic = record.topic.decode("utf-8", "replace")
            hashes = self._hashes.some(topic, record.properties, done, MOST_KEYS)
        self._append(KeyColumns.of([(hashed, position, record.store_timestamp) for hashed in hashes]))
        if self.failed:
            return False
        is_more = len(hashes) == MOST_KEYS
        self._partly = (position, done + len(hashes))
        self.position = max(self.position, position if is_more else end)
        return is_more

    def _put(self, keys: KeyColumns, end: int) -> None:
        """Bring keys to the files that are not there yet.

        Args:
            keys: In log order.
            end: Where the log goes on behind their messages.
        """
        if keys and keys.positions[0] < self.position:
            keys = keys[bisect_left(keys.positions, self.position) :]
        if keys and keys.positions[0] == self._partly[0]:
            keys = keys[self._partly[1] :]
        self._append(keys)
        if not self.failed:
            self.position = max(self.position, end)

    def _append(self, keys: KeyColumns) -> None:
        """Write keys to the files; after too many errors give the index up."""
        attempt = 0
        while keys:
            try:
                count = self._growing().append(keys)
            except (OSError, StoreCorruptError) as exc:
                attempt += 1
                if attempt == ATTEMPTS:
                    self.give_up(exc)
                    return
            else:
                keys = keys[count:]
                self._note_success()

    def give_up(self, cause: Exception) -> None:
        """Leave the index as it is, because of an error of the disk."""
        if not self._flags.has(RunningFlag.INDEX_ERROR):
            log.error(
                "the index in %s cannot be written, and is not updated until that works again; messages are still "
                "accepted: %s",
                self._storage.describe(FOLDER),
                cause,
            )
        self.failed = True
        self.is_busy = False
        self._flags.set(RunningFlag.INDEX_ERROR)

    def write_again(self) -> None:
        """Write once more what a flush that failed may have lost; nothing is put meanwhile. For a thread.

        Raises:
            OSError: The disk still refuses.
            StoreCorruptError: A file has become shorter than it was.
        """
        if self._flush_failed:
            for file in self.files:
                if isinstance(file, GrowingIndexFile):
                    file.write_again()
            self._flush_failed = False

    def try_again(self, end: int) -> None:
        """Go on with an index that was given up: what it lacks is read from the log.

        Args:
            end: Up to where the queues have the log.

        Raises:
            OSError: The disk still refuses.
            StoreCorruptError: A file has become shorter than it was.
        """
        last = self._end
        self._note_partly(last)
        self._waiting = []
        self.position = max(self.position, last)
        self.is_behind = self.position < end
        self.failed = False

    def _note_success(self) -> None:
        """The disk took something."""
        if self._flags.bits and self._flags.clear(RunningFlag.INDEX_ERROR):
            log.warning("the index in %s is updated again", self._storage.describe(FOLDER))

    def _growing(self) -> GrowingIndexFile:
        """The file that takes the next key, made when there is none or the last one is full."""
        last = self.files[-1] if self.files else None
        if isinstance(last, GrowingIndexFile) and not last.is_full:
            return last
        file = GrowingIndexFile(self._storage, self._new_name(), self._shape)
        file.create()
        self._names_synced = False
        if last is not None:
            file.follow(last.header)
        self._close_full()
        self.files = (*self.files, file)
        return file

    def _new_name(self) -> str:
        """The wall clock's time, local as Java has it; later than that of the file before, whatever the clock does."""
        seconds, milliseconds = divmod(wall_ms(), 1000)
        name = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{milliseconds:03d}"
        return max(name, str(int(self.files[-1].name) + 1)) if self.files else name

    def _close_full(self) -> None:
        """Keep no file open but the last."""
        for file in self.files[:-1]:
            file.close()

    # --- searching

    def find(self, topic: str, key: str, most: int, begin: int, end: int) -> Found:
        """Look for messages of a topic by one of their keys, or by their unique id.

        Args:
            topic: Their topic.
            key: The key.
            most: How many are wanted; the settings may lower it.
            begin: The earliest store time, ms.
            end: The latest one.
        """
        return finish(self.find_steps(topic, key, most, begin, end))

    def find_steps(self, topic: str, key: str, most: int, begin: int, end: int) -> Steps[Found]:
        """`find` in steps. Files that are cleaned away meanwhile are left out, as their messages are."""
        most = min(most, self._config.max_msgs_num_batch)
        self._write_waiting()
        hashed = hash_of(topic, key)
        positions: list[int] = []
        for file in reversed(self.files):
            if file.covers(begin, end):
                with suppress(FileNotFoundError):
                    yield from file.select(positions, hashed, most, begin, end)
            if file.header.begin_timestamp < begin or len(positions) >= most:
                break
        self._close_full()
        if not self.files:
            return Found(positions, 0, 0)
        newest = self.files[-1].header
        return Found(positions, newest.end_timestamp, newest.end_position)

    # --- the disk

    def seal(self, *, everything: bool = False) -> None:
        """Settle what the next flush brings to the disk.

        Args:
            everything: Take what there is; otherwise that waits until it is much, or has waited for a while.
        """
        self._write_waiting()
        self._close_full()  # a flush may have brought to the disk what full files kept in memory
        self._unsealed += 1
        if self.failed or self._sealed is not None or self.position == self.progress.position:
            return
        growing = [file for file in self.files if isinstance(file, GrowingIndexFile) and file.is_dirty]
        due = everything or self._config.message_index_safe or self._unsealed >= SEAL_EVERY or len(growing) > 1
        if due or sum(file.waiting for file in growing) >= SEAL_AT:
            self._unsealed = 0
            for file in growing:
                file.seal()
            self._sealed = (IndexProgress(self.position, self._end, self._full_timestamp), growing)

    def flush(self, log_flushed: int) -> None:
        """Return when the disk has what was sealed. For a thread; the loop may go on putting.

        Args:
            log_flushed: How far the disk has the log; what leads further waits.
        """
        sealed = self._sealed
        if sealed is None or self.failed or (sealed[0].position or 0) > log_flushed:
            return
        progress, files = sealed
        try:
            self._sync_names()
            for file in files:
                file.flush()
        except OSError as exc:
            self._flush_failed = True
            self.give_up(exc)
            return
        self.progress = progress
        self._sealed = None
        self._note_success()

    def _sync_names(self) -> None:
        """Return when the disk knows the names of all files: a file that counts must not come back without those before
        it.
        """
        if self._names_synced:
            return
        self._names_synced = True
        try:
            self._storage.sync_dir(FOLDER)
            self._storage.sync_dir("")
        except OSError:
            self._names_synced = False
            raise

    def take_expired(self, log_start: int) -> IndexFile | None:
        """Take the oldest file out when no message of it is left, never the newest; the caller deletes it.

        Args:
            log_start: Where the log begins now.
        """
        if len(self.files) < 2 or self._sealed is not None:  # a thread may be at work with what was sealed
            return None
        oldest = self.files[0]
        if oldest.header.end_position >= log_start or (isinstance(oldest, GrowingIndexFile) and oldest.is_dirty):
            return None
        self.files = self.files[1:]
        oldest.close()
        return oldest

    def close(self) -> None:
        """Close all files; what is not flushed is taken from the log at the next start."""
        for file in self.files:
            file.close()
