"""The files of one folder as they are found: any size, gaps between them, short last ones.

Unlike `mapped_file_queue` this refuses nothing and changes nothing; what is odd is for the caller to judge. A few files
are kept open, so that thousands of queues can be walked through.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy_broker_sim.store.disk.failure import store_error

if TYPE_CHECKING:
    from rocketpy.seams import File, Storage

__all__ = ["FileRow", "OpenFiles", "StoreFile", "find_files", "translated"]

NAME_LENGTH = 20
MAX_OPEN = 48


class StoreFile(NamedTuple):
    """One file of a row."""

    path: str
    """From the root of the store."""
    start: int
    """Position of its first byte in the row; also its name."""
    size: int
    """Bytes that it has."""

    @property
    def end(self) -> int:
        """Position behind its last byte."""
        return self.start + self.size


@contextmanager
def translated(storage: Storage, path: str) -> Iterator[None]:
    """Turn errors of the disk into those of the store, with what to do about them.

    Raises:
        StoreCorruptError: A symbolic link, or something that is no file, stands where a file belongs.
        StoreError: The disk refused.
    """
    try:
        yield
    except OSError as exc:
        where = storage.describe(path)
        if exc.errno in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO):
            raise StoreCorruptError(
                f"{where} is not a regular file: a store has files there and no links; put the file itself in its "
                "place",
                path=path,
                offset=0,
            ) from exc
        if exc.errno == errno.ENOENT:
            raise StoreError(
                f"{where} was deleted while it was read: a running broker has cleaned up; try again"
            ) from exc
        if exc.errno in (errno.EACCES, errno.EPERM):
            raise StoreError(
                f"reading {where} failed: permission denied; run this as the user that owns the store, or on a copy"
            ) from exc
        raise store_error(exc, "reading", where) from exc


class OpenFiles:
    """Reads files by path, with those of late kept open."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._files: OrderedDict[str, File] = OrderedDict()

    def read(self, path: str, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`; short at the end of the file.

        Raises:
            StoreError: It cannot be read.
        """
        with translated(self.storage, path):
            return self._file(path).pread(size, offset)

    def size(self, path: str) -> int:
        """Bytes in a file.

        Raises:
            StoreError: It cannot be looked at.
        """
        with translated(self.storage, path):
            file = self.storage.open(path)
            try:
                return file.size()
            finally:
                file.close()

    def _file(self, path: str) -> File:
        file = self._files.pop(path, None)
        if file is None:
            file = self.storage.open(path)
            if len(self._files) >= MAX_OPEN:
                self._files.popitem(last=False)[1].close()
        self._files[path] = file
        return file

    def close(self) -> None:
        """Close all of them."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def find_files(files: OpenFiles, folder: str) -> list[StoreFile]:
    """The files of a row in a folder, lowest position first.

    Raises:
        StoreError: The folder or one of the files cannot be looked at.
    """
    with translated(files.storage, folder):
        names = files.storage.list(folder)
    paths = [f"{folder}/{name}" for name in names if len(name) == NAME_LENGTH and name.isascii() and name.isdigit()]
    return [StoreFile(path, int(path[-NAME_LENGTH:]), files.size(path)) for path in paths]


class FileRow:
    """The files of one folder, addressed by position.

    Attributes:
        folder: Where they lie.
        file_size: Bytes that each of them should have.
        files: Those that have bytes, lowest position first.
        empty: Those that have none.
    """

    __slots__ = ("_starts", "empty", "file_size", "files", "folder", "opened")

    def __init__(self, opened: OpenFiles, folder: str, file_size: int, files: list[StoreFile]) -> None:
        self.opened = opened
        self.folder = folder
        self.file_size = file_size
        self.files = [file for file in files if file.size]
        self.empty = [file for file in files if not file.size]
        self._starts = [file.start for file in self.files]

    @property
    def start(self) -> int:
        """Position of the first byte that is there; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Position behind the last byte that is there."""
        return self.files[-1].end if self.files else 0

    def find(self, position: int) -> StoreFile | None:
        """The file that holds a position; None when none does."""
        index = bisect_right(self._starts, position) - 1
        return self.files[index] if index >= 0 and position < self.files[index].end else None

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from a position on, none of them past the end of its file."""
        file = self.find(position)
        if file is None:
            return b""
        return self.scan(file, position - file.start, size)

    def scan(self, file: StoreFile, at: int, size: int) -> bytes:
        """Up to `size` bytes of a file."""
        return self.opened.read(file.path, min(size, file.size - at), at)
