"""Carrying a plan out: copies first, then the log, then queues and index again from it.

Every step may be the last before a crash: what was replaced is on the disk before it is, and a store without queues
is one whose queues the next start builds. Plays no part of Java's.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rocketpy.errors import StoreError
from rocketpy.seams import wall_ms
from rocketpy_broker_sim.store import checkpoint
from rocketpy_broker_sim.store.disk.failure import store_error
from rocketpy_broker_sim.store.inspect.layout import ABORT, INDEX
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.message_store import LOCK, MessageStore
from rocketpy_broker_sim.store.queue import consume_queue, consume_queue_ext
from rocketpy_broker_sim.store.running_flags import RunningFlag

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.inspect.layout import QueueKey
    from rocketpy_broker_sim.store.repair.plan import Region, RepairPlan

__all__ = ["FOLDER", "Repair"]

FOLDER = "quarantine"
REPORT = "report.jsonl"
STEP = 4 * 1024 * 1024
_QUEUES = (consume_queue.FOLDER, consume_queue_ext.FOLDER)
_DERIVED = (*_QUEUES, INDEX, checkpoint.PATH)
_TOPICS = "config/topics.json"


class Repair:
    """One repair of one store.

    Attributes:
        folder: Where everything goes that is replaced, within the store.
    """

    def __init__(self, storage: Storage, config: MessageStoreConfig) -> None:
        """Nothing is touched yet.

        Args:
            storage: The store, for writing.
            config: The settings of its broker, or the sizes that were found.
        """
        self._storage = storage
        self._config = config
        moment = datetime.fromtimestamp(wall_ms() / 1000, UTC)
        self.folder = f"{FOLDER}/{moment:%Y%m%d%H%M%S}{wall_ms() % 1000:03d}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep brokers out for the time of a block.

        Raises:
            StoreError: One uses the store.
        """
        where = self._storage.describe("")
        try:
            release = self._storage.lock(LOCK)
        except OSError as exc:
            if exc.errno == errno.EAGAIN:
                raise StoreError(
                    f"{where} is in use by a broker: stop it first; looking and checking work while it runs"
                ) from exc
            raise store_error(exc, "locking the store", where) from exc
        try:
            yield
        finally:
            release()

    def mend_log(self, plan: RepairPlan) -> None:
        """Copy what is damaged aside, put place holders there, and move queues, index and checkpoint away.

        Raises:
            StoreError: The disk refused; the same repair may be tried again.
        """
        replacements = list(plan.replacements())  # before anything is changed
        with self._translated():
            for region in plan.all:
                self._copy(region.path, region.begin - region.file_start, region.kept - region.file_start, region.begin)
            self._report([region.row() for region in plan.all])
            for region, records in zip(plan.all, replacements, strict=True):
                self._replace(region, records)
            self._straighten(plan)
            self._move_derived(plan.expired)

    def rebuild(self, topics: set[str]) -> None:
        """Build queues and index from the log, as a broker does that finds none.

        Args:
            topics: Those that had queues; the queues of others are of topics that were deleted.

        Raises:
            StoreError: The store cannot be opened, or the disk refused what is built; the same repair may be tried
                again.
        """
        known = self._listed_topics()
        store = MessageStore(self._storage, self._config)
        store.load()
        try:
            if known is not None:
                store.delete_topics(store.reads.topics() - topics - known)
        finally:
            refused = store.close()
        if refused is not None:
            raise refused
        if store.flags.has(RunningFlag.INDEX_ERROR):  # a broker would go on without it
            where = self._storage.describe(INDEX)
            raise StoreError(f"the index in {where} cannot be written: free space, or mend the disk, and repair again")

    def leave_unclean(self) -> None:
        """Let the next start be one after a crash: groups may have got messages of which nothing is known any more.

        Raises:
            StoreError: The disk refused.
        """
        with self._translated():
            self._storage.write_bytes_atomic(ABORT, b"repaired")

    # --- the parts

    def _copy(self, path: str, begin: int, end: int, position: int) -> None:
        """Keep the bytes of a part of a file; the copy has reached the disk when this returns.

        Args:
            path: The file.
            begin: Where in it the part begins.
            end: Where the part ends.
            position: Where in the log that is: it becomes a part of the name.
        """
        if end <= begin:
            return
        source = self._storage.open(path)
        try:
            copy = f"{self.folder}/{path}-{position}.bin"
            folder = copy.rpartition("/")[0]
            self._storage.make_dir(folder)  # where `open` makes one, the disk may not have it yet
            target = self._storage.open(copy, create=True)
            try:
                for at in range(begin, end, STEP):
                    data = source.pread(min(STEP, end - at), at)
                    if any(data):
                        target.pwrite(data, at - begin)
                target.fdatasync()
            finally:
                target.close()
            self._storage.sync_dir(folder)
        finally:
            source.close()

    def _straighten(self, plan: RepairPlan) -> None:
        """Take log files away that hold nothing, and bring the last one to its size."""
        for file in reversed(plan.surplus):
            self._copy(file.path, 0, file.size, file.start)
            self._storage.unlink(file.path)
        if plan.resized is not None:
            size = self._config.mapped_file_size_commit_log
            self._copy(plan.resized.path, size, plan.resized.size, plan.resized.start + size)
            target = self._storage.open(plan.resized.path)
            try:
                target.truncate(size)
                target.fdatasync()
            finally:
                target.close()
        if plan.surplus:
            self._storage.sync_dir(commit_log.FOLDER)

    def _move_derived(self, kept: Collection[QueueKey]) -> None:
        """Move all away that is built from the log.

        Args:
            kept: Queues that stay. As others then go one by one, the mark of an unclean stop comes first, with which
                a start builds all of them again.
        """
        if kept:
            self._storage.write_bytes_atomic(ABORT, b"under repair")
            self._move(checkpoint.PATH)
            self._storage.sync_dir("")
            for folder in _QUEUES:
                self._move_queues(folder, kept)
        for path in _DERIVED:
            if not (kept and path in _QUEUES):
                self._move(path)
        self._storage.sync_dir("")

    def _move_queues(self, folder: str, kept: Collection[QueueKey]) -> None:
        """Move all but some queues away: topics that have none of these as a whole."""
        of_topic: dict[str, set[str]] = {}
        for topic, queue_id in kept:
            of_topic.setdefault(topic, set()).add(str(queue_id))
        for topic in self._storage.list(folder):
            here = f"{folder}/{topic}"
            staying = of_topic.get(topic)
            if staying is None:
                self._move(here)
                continue
            for name in self._storage.list(here):
                if name not in staying:
                    self._move(f"{here}/{name}")
            self._storage.sync_dir(here)
        if self._storage.exists(folder):
            self._storage.sync_dir(folder)

    def _move(self, path: str) -> None:
        """Move a file or folder to where everything goes that is replaced."""
        if self._storage.exists(path):
            target = f"{self.folder}/{path}"
            self._storage.make_dir(target.rpartition("/")[0])
            self._storage.rename(path, target)

    def _report(self, rows: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        self._storage.make_dir(self.folder)
        self._storage.write_bytes_atomic(f"{self.folder}/{REPORT}", text.encode())

    def _replace(self, region: Region, records: list[bytes]) -> None:
        file = self._storage.open(region.path, create=True)
        try:
            if region.to_file_end:  # a short file grows, what was too much goes
                file.truncate(region.end - region.file_start)
            at = region.begin - region.file_start
            if region.is_tail:
                file.clear(at)
            for record in records:
                file.pwrite(record, at)
                at += len(record)
            file.fdatasync()
        finally:
            file.close()
        self._storage.sync_dir(region.path.rpartition("/")[0])

    def _listed_topics(self) -> set[str] | None:
        """The topics of the broker; None when that is not known."""
        try:
            content = json.loads(self._storage.read_bytes(_TOPICS))
            return set(content["topicConfigTable"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise store_error(exc, "repairing the store", self._storage.describe("")) from exc
