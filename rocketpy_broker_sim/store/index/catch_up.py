"""Bringing a key index level with a log that is ahead of it: after a crash, or when index files are gone.

A little is made up for while the store is opened. What would keep a broker from its clients for long is left to steps,
which it takes beside its work; the index does not hear of new messages before they are done, because it is read from
the log in order. Plays the part of what ReputMessageService does for the index after a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.disk.failure import store_error
from rocketpy_broker_sim.store.index.file import FOLDER
from rocketpy_broker_sim.store.index.key_index import MUCH
from rocketpy_broker_sim.store.log.scan import LogScan, find_record

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.index.key_index import KeyIndex
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["IndexCatchUp"]

AT_ONCE = 64 * 1024 * 1024
"""Bytes of the log that are read while the store is opened; of more than that none are."""
CHUNK = 1000
"""Records between two looks at how far it is, while the store is opened."""
log = get_logger(__name__)


class IndexCatchUp:
    """Reads a log for its index.

    Args:
        index: what lags behind.
        commit_log: the log.
        config: what records are checked for.
        dispatched: says up to where the queues have the log.
    """

    def __init__(
        self,
        index: KeyIndex,
        commit_log: CommitLog,
        config: MessageStoreConfig,
        dispatched: Callable[[], tuple[int, int]],
    ) -> None:
        self._index = index
        self._log = commit_log
        self._config = config
        self._dispatched = dispatched
        self._records: Iterator[LogRecord] | None = None
        self._long: LogRecord | None = None  # one of those, which may have very many keys

    def begin(self) -> None:
        """Catch up at once when it is little; otherwise let the index wait for the steps."""
        index, end = self._index, self._dispatched()[0]
        if index.position >= end:
            return
        index.is_behind = True
        where = f"the index goes on at position {index.position} of the log, which ends at {end}"
        if end - index.position > AT_ONCE:
            log.warning("%s: it catches up in the background; until then, queries find only some messages", where)
            return
        log.info("%s", where)
        while self.step(CHUNK):
            pass

    def step(self, most: int) -> bool:
        """Index up to so many records more, fewer where they may have many keys; whether others are left."""
        index, end = self._index, self._dispatched()[0]
        if not index.is_behind or index.failed:
            return False
        is_fresh = self._records is None
        try:
            if self._long is not None:
                self._go_on(self._long)
            else:
                self._take(most, end, is_fresh=is_fresh)
        except (OSError, StoreCorruptError) as exc:
            self._forget()
            if is_fresh:  # else the file that was being read may just have been cleaned away
                index.give_up(exc)
                return False
        index.is_behind = index.position < end
        if not index.is_behind:
            index.is_busy = False
            self._forget()
        return index.is_behind

    def _take(self, most: int, end: int, *, is_fresh: bool) -> None:
        """Index the next records before a position, up to one with long properties."""
        index = self._index
        chunk = self._read(most, end)
        index.put_records(chunk)
        if not chunk and self._long is None:
            self._records = None
            if is_fresh and index.position < end:
                index.position = self._next_record(index.position, end)

    def _go_on(self, record: LogRecord) -> None:
        """Index some more keys of one record."""
        if not self._index.put_part(record):
            self._long = None

    def _forget(self) -> None:
        """Read from where the index stands when there is something to read again."""
        self._records = self._long = None

    def write_again(self) -> None:
        """Write once more what may be lost of an index that was given up, so that `try_again` can go on. For a thread.

        Raises:
            StoreError: The disk still refuses.
        """
        with self._told():
            self._index.write_again()

    def try_again(self) -> None:
        """Go on with an index that was given up; the steps bring what it lacks.

        Raises:
            StoreError: The disk still refuses.
        """
        self._forget()
        with self._told():
            self._index.try_again(self._dispatched()[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise store_error(exc, "going on with the index", FOLDER) from exc

    def _read(self, most: int, end: int) -> list[LogRecord]:
        """The next records before a position. One that has long properties ends them and goes on by itself."""
        if self._records is None:
            self._records = iter(LogScan(self._log.row, self._index.position, self._config))
        found: list[LogRecord] = []
        size = 0
        for record in self._records:
            if record.position >= end:
                break
            if len(record.properties) > MUCH:
                self._long = record
                break
            found.append(record)
            size += len(record.properties)
            if len(found) == most or size > MUCH:
                break
        return found

    def _next_record(self, position: int, end: int) -> int:
        """Where to go on when no record begins where one should: the log was cleaned meanwhile, or is damaged."""
        if position < self._log.start:
            return min(self._log.start, end)
        follower = find_record(self._log.row, position, self._config)
        found = end if follower is None else min(follower.position, end)
        log.warning("the log is damaged at position %d: the index omits messages before %d", position, found)
        return found
