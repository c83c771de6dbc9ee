"""A row of equally large files that together are one long run of bytes, addressed by position.

Loads and checks the files of a folder, finds the one that holds a position, rolls to the next, cuts the end off, drops
old ones, flushes. It knows nothing of records or units.
Plays the part of MappedFileQueue.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from rocketpy_broker_sim.store.disk.failure import beginning
from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
from rocketpy_broker_sim.store.disk.row_loading import NAME_LENGTH, load_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.seams import Storage

__all__ = ["MappedFileQueue", "NextFiles"]

_STEP = 1024 * 1024


class NextFiles(Protocol):
    """Makes the next file of a row before it is needed."""

    def take(self, start: int) -> MappedFile | None:
        """The file for a position of the row; None when there is none.

        Raises:
            OSError: It cannot be made.
        """

    def rolled(self, before: MappedFile | None) -> None:
        """Note that the row has begun a new file, behind this one."""


class MappedFileQueue:
    """The files of one folder in order.

    Attributes:
        folder: Where they lie in the storage.
        file_size: Bytes in each of them.
        files: The files, lowest position first. Replaced as a whole, so that a thread may walk the one it took.
        entries_synced: Whether the disk has the names of all of them.
    """

    __slots__ = ("_next_files", "_on_open", "_storage", "entries_synced", "file_size", "files", "folder")

    def __init__(
        self, storage: Storage, folder: str, file_size: int, on_open: Callable[[], None] | None = None
    ) -> None:
        """Nothing is loaded yet.

        Args:
            storage: The directory.
            folder: Where the files lie in it.
            file_size: Bytes in each of them.
            on_open: Called whenever one of them has been opened.
        """
        self._storage = storage
        self._on_open = on_open
        self.folder = folder
        self.file_size = file_size
        self.files: tuple[MappedFile, ...] = ()
        self.entries_synced = True
        self._next_files: NextFiles | None = None

    def take_next_from(self, next_files: NextFiles) -> None:
        """Take every new file from `next_files`, where it has one."""
        self._next_files = next_files

    # --- loading

    def load(self, *, safe: int | None = None) -> bool:
        """Take in the files of the folder.

        Args:
            safe: Position up to which they had reached the disk: what a power loss left maimed behind it is mended.
                None after a clean stop, when nothing may be.

        Returns:
            Whether files were changed or removed.

        Raises:
            StoreCorruptError: A file has another size than configured, or one is missing in between.
        """
        self.files, mended = load_row(self._storage, self.folder, self.file_size, self._on_open, safe=safe)
        # A crash may have come before the folder was synced, if there is a folder.
        self.entries_synced = safe is None or not (self.files or mended)
        return mended

    def restore(self, start: int, count: int) -> None:
        """Take in `count` files from `start` on, which are known to be there."""
        self.files = tuple(self.file_at(start + number * self.file_size) for number in range(count))

    # --- finding

    @property
    def start(self) -> int:
        """Position of the first byte that is there; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Position behind the last file; 0 without files."""
        return self.files[-1].end if self.files else 0

    def find(self, position: int) -> MappedFile | None:
        """The file that holds `position`."""
        files = self.files
        if not files:
            return None
        index = (position - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    # --- changing

    def find_or_create(self, position: int) -> MappedFile:
        """The file that holds `position`, made when it is the next one, or the first at all.

        Raises:
            OSError: It cannot be made; a file further behind would leave a gap.
        """
        return self.find(position) or self._create(position - position % self.file_size)

    def file_at(self, start: int) -> MappedFile:
        """The file that begins at `start`, which is not there yet."""
        path = f"{self.folder}/{start:0{NAME_LENGTH}d}"
        return MappedFile(self._storage, path, start, self.file_size, self._on_open)

    def _create(self, start: int) -> MappedFile:
        before = self.files[-1] if self.files else None
        if before is not None and start != before.end:
            raise OSError(
                errno.EINVAL, f"a file at {start} would not continue {self.folder}, which has {self.end} bytes"
            )
        file = None if self._next_files is None else self._next_files.take(start)
        if file is None:
            file = self.file_at(start)
            file.create()
            self.entries_synced = False
        self.files = (*self.files, file)
        if self._next_files is not None:
            self._next_files.rolled(before)
        return file

    def cut(self, position: int, *, keep_first: bool = False) -> bool:
        """Drop everything from `position` on: later files are deleted, the tail of its own file is made zero.

        Args:
            position: Where to cut.
            keep_first: Keep the first file whatever the position, so that the row still says where it stands.

        Returns:
            Whether something had to be written or deleted.
        """
        kept = tuple(file for file in self.files if file.start < position) or self.files[:keep_first]
        dropped = self.files[len(kept) :]
        self.files = kept
        for file in reversed(dropped):  # from the end, so that a crash in between leaves no gap
            file.delete()
        if dropped:
            self.entries_synced = False
        if not kept or kept[-1].end <= position:
            return bool(dropped)
        return kept[-1].clear_from(max(0, position - kept[-1].start)) or bool(dropped)

    def oldest(self, position: int, most: int) -> tuple[MappedFile, ...]:
        """The first files that lie wholly before `position`, never the last one."""
        return tuple(file for file in self.files[:-1][:most] if file.end <= position)

    def take_first(self, position: int) -> MappedFile | None:
        """Take the first file out of the row when it lies wholly before `position` and is not the last one."""
        first = next(iter(self.oldest(position, 1)), None)
        if first is not None:
            self.files = self.files[1:]
        return first

    def put_first(self, file: MappedFile) -> None:
        """Take a file up again that was taken out."""
        self.files = (file, *self.files)

    def delete_first(self, position: int) -> str | None:
        """Delete the first file under the same conditions.

        Returns:
            The folder, whose entries must reach the disk before the next file goes; None when there was none to delete.

        Raises:
            OSError: The disk refused; the file stays.
        """
        file = self.take_first(position)
        if file is None:
            return None
        try:
            file.delete()
        except OSError:
            self.put_first(file)
            raise
        return self.folder

    def delete(self) -> None:
        """Delete all files.

        Raises:
            OSError: The disk refused; the files that are left stay in the row, to be deleted later.
        """
        while self.files:
            with suppress(FileNotFoundError):
                self.files[-1].delete()
            self.files = self.files[:-1]

    # --- the disk

    def write_again(self, begin: int, end: int) -> None:
        """Write what stands between two positions once more.

        After a flush that failed the system may take pages for written that the disk does not have; only a new write
        makes it try again.
        """
        for file in self.files:
            last = min(end, file.end)
            for at in range(max(begin, file.start), last, _STEP):
                file.write(file.read(at - file.start, min(_STEP, last - at)), at - file.start)

    def flush(self, begin: int, end: int, *, apart: bool = False) -> None:
        """Return when everything between two positions has reached the disk; may be called in a thread.

        Args:
            begin: The first position that the disk may not have.
            end: The position behind the last one.
            apart: Open the files again for it, because the loop may close its own at any time.

        Raises:
            NotBegunError: A file or the folder could not be opened; nothing is lost by that.
            OSError: What the disk has is not known any more.
        """
        for file in self.files:
            if file.start < end and file.end > begin:
                file.flush(apart=apart)
        if not self.entries_synced:
            # A new file that its folder does not list after a power loss is as good as never written.
            self.entries_synced = True
            try:
                with beginning():
                    self._storage.sync_dir(self.folder)
            except OSError:
                self.entries_synced = False
                raise

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()
