"""The next file of a row, made before it is needed, so that a roll waits for nothing.

A thread makes it, writes zeros over it and has its pages kept in memory where that is wanted, a piece at a time. The
loop takes it when the row rolls, as far as it is; a file that nobody took goes away with a clean close. Where none
could be made ahead the row makes its next file itself.
Plays the part of AllocateMappedFileService, and of warmMappedFile and mlock in DefaultMappedFile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.store.disk.failure import store_error

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rocketpy.seams import MappedView, Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
    from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue

__all__ = ["FilesAhead", "SpareFile"]

PAGE = 4096
WRITE = 16 * PAGE
"""Bytes of one write of zeros: one byte a page, as Java writes them, takes ten times as long beside a busy loop."""
PIECE = 256 * WRITE
_ZEROS = bytes(WRITE)


class SpareFile:
    """A file that is made ahead.

    Attributes:
        is_durable: Whether it is there after a power loss too.
        refusal: What the system said when it would not keep the pages in memory.
    """

    __slots__ = (
        "_file",
        "_force_every",
        "_is_made",
        "_lock",
        "_outgrown",
        "_pieces",
        "_storage",
        "_taken",
        "is_durable",
        "refusal",
    )

    def __init__(
        self,
        storage: Storage,
        file: MappedFile,
        lock: AbstractContextManager[object],
        force_every: int | None,
        outgrown: MappedView | None,
    ) -> None:
        """Nothing is made yet.

        Args:
            storage: The directory.
            file: The file.
            lock: Held for each piece of work, and while the file is taken.
            force_every: Bytes of zeros after which the disk has to have them; 0 leaves that to the system, and None
                writes none.
            outgrown: A mapping whose pages need not be kept in memory any more; closing a large one takes its time.
        """
        self._storage = storage
        self._file = file
        self._lock = lock
        self._force_every = force_every
        self._outgrown = outgrown
        self._is_made = False
        self._taken = False
        self._pieces = self._work()
        self.is_durable = False
        self.refusal: OSError | None = None

    @property
    def start(self) -> int:
        """Position of its first byte in the row."""
        return self._file.start

    # --- in a thread

    def advance(self) -> bool:
        """Do the next piece of work. Returns whether there is more.

        Raises:
            StoreError: The disk refused.
        """
        try:
            return next(self._pieces, False)
        except OSError as exc:
            where = self._storage.describe(self._file.path)
            raise store_error(exc, "making the next file of the commit log", where) from exc

    def _work(self) -> Iterator[bool]:
        with self._lock:
            if self._taken:
                return
            self._file.create()
            self._is_made = True
        if self._outgrown is not None:
            self._outgrown.close()
        self._flush()
        self._storage.sync_dir(self._file.path.rpartition("/")[0])
        self.is_durable = True
        if self._force_every is None:
            return
        yield True
        yield from self._warm(self._force_every)
        if not self._taken:
            self._keep_in_memory()

    def _warm(self, force_every: int) -> Iterator[bool]:
        """Write zeros over all pages, so that they are in memory and have their places on the disk."""
        forced = 0
        for begin in range(0, self._file.size, WRITE):
            with self._lock:
                if self._taken:
                    return
                self._file.write(_ZEROS[: self._file.size - begin], begin)
            end = begin + WRITE
            if force_every and end - forced >= force_every:
                self._flush()
                forced = end
            if end % PIECE == 0:
                yield True
        if force_every:
            self._flush()

    def _flush(self) -> None:
        """Return when the disk has the file.

        The log may have taken it meanwhile. What could not be written is told once to each who has a file open: were it
        told here in place of there, the log would take its records for safe.
        """
        self._file.flush(apart=True)

    def _keep_in_memory(self) -> None:
        view = self._file.map_apart()
        try:
            view.lock_in_memory()
        except OSError as exc:
            view.close()
            self.refusal = exc
            return
        with self._lock:
            if self._taken:
                view.close()
            else:
                self._file.hold(view)

    # --- in the loop

    def take(self) -> MappedFile:
        """The file, to be written from now on; no zeros are written over it any more.

        Raises:
            OSError: It was not made yet, and cannot be.
        """
        with self._lock:
            if not self._is_made:
                self._file.create()
            self._taken = True
        return self._file

    def discard(self) -> None:
        """Remove the file, which nobody took."""
        if self._is_made:
            self._file.delete()

    def close(self) -> None:
        """Let the file lie."""
        self._file.close()


class FilesAhead:
    """Keeps one file ahead of a row."""

    def __init__(self, storage: Storage, config: MessageStoreConfig, row: MappedFileQueue) -> None:
        self._storage = storage
        self._config = config
        self._row = row
        self._spare: SpareFile | None = None
        self._outgrown: MappedView | None = None
        self._listeners: list[Callable[[], None]] = []
        row.take_next_from(self)

    @property
    def is_due(self) -> bool:
        """Whether a file is to be made ahead: the row has begun, and there is none."""
        return self._spare is None and bool(self._row.files)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a plain function whenever the row has begun a new file: the one behind it can be made."""
        self._listeners.append(listener)

    def begin(self, lock: AbstractContextManager[object]) -> SpareFile:
        """The file behind the last one, to be made by a thread.

        Args:
            lock: Held by the thread for a piece of its work, and by the loop while it takes the file.
        """
        file = self._row.file_at(self._row.end)
        self._spare = SpareFile(self._storage, file, lock, self._force_every(), self._outgrown)
        self._outgrown = None
        return self._spare

    def _force_every(self) -> int | None:
        """Bytes of zeros between flushes while warming; None without warming."""
        config = self._config
        if not config.warm_maped_file_enable:
            return None
        is_sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        return config.flush_least_pages_when_warm_maped_file * PAGE if is_sync else 0

    def give_up(self) -> None:
        """Remove what there is of a file that could not be made; the row makes its next one itself."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with suppress(OSError):
                spare.discard()

    def take(self, start: int) -> MappedFile | None:
        """The file for a position of the row; None when none is ahead.

        Raises:
            OSError: It was not made yet, and cannot be.
        """
        spare = self._spare
        if spare is None or spare.start != start:
            return None
        file = spare.take()
        self._spare = None
        if not spare.is_durable:
            self._row.entries_synced = False
        return file

    def rolled(self, before: MappedFile | None) -> None:
        """The row has begun a new file."""
        if before is not None:
            self._outgrown = before.release()
        for listener in self._listeners:
            listener()

    def discard(self) -> None:
        """Remove a file that nobody took."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.discard()

    def close(self) -> None:
        """Let a file that nobody took lie, as the end of the process would."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()
