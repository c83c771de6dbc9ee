"""A directory tree that is only looked at: the disk behind the Storage seam with every change refused.

It takes no lock and opens nothing for writing, so a running broker does not notice it, and a copy on a read-only file
system will do. Symbolic links in place of files and things that are no files are refused: a store has none.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from typing import NoReturn

from rocketpy_broker_sim.store.disk.real import RealFile, RealStorage

__all__ = ["ReadOnlyStorage"]

# Without waiting: opening a named pipe would last until somebody writes to it. Not every system has each of these.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)


class ReadOnlyStorage(RealStorage):
    """The files of a store, for reading; plays Storage, and raises OSError (EROFS) for what would change it."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open for reading."""
        if create:
            self._refuse(path)
        descriptor = os.open(self._resolve(path), _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "this is not a file", path)
        return RealFile(descriptor)

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def write_bytes_atomic(self, path: str, data: bytes | Sequence[bytes], *, backup: str = "") -> None:
        """Refused."""
        self._refuse(path)

    def rename(self, source: str, target: str) -> None:
        """Refused."""
        self._refuse(source)

    def unlink(self, path: str) -> None:
        """Refused."""
        self._refuse(path)

    def remove_dir(self, path: str) -> None:
        """Refused."""
        self._refuse(path)

    def make_dir(self, path: str) -> None:
        """Refused."""
        self._refuse(path)

    def sync_dir(self, path: str) -> None:
        """Refused: who changes nothing has nothing to wait for."""
        self._refuse(path)

    def lock(self, path: str) -> Callable[[], None]:
        """Refused."""
        self._refuse(path)
