"""SmallFiles: a folder of small files that are replaced as a whole. Blocking; a part of `rocketpy.seams.Storage`."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

__all__ = ["SmallFiles"]

_fcntl: ModuleType | None
try:
    import fcntl as _fcntl
except ImportError:  # Windows, where nothing keeps two processes apart
    _fcntl = None

_held: set[str] = set()
"""Files that this process has locked: a record lock does not exclude the process that holds it."""
_guard = threading.Lock()


def _forget_after_fork() -> None:
    """Forget the locks in the child of a fork: record locks stay with the parent."""
    global _guard
    _guard = threading.Lock()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


class SmallFiles:
    """The files of a folder. Every method may raise OSError.

    Args:
        folder: the folder, which need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        return (self._folder / path).exists()

    def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        return (self._folder / path).read_bytes()

    def make_dir(self, path: str) -> None:
        """Make a folder and its parents."""
        (self._folder / path).mkdir(parents=True, exist_ok=True)

    def write_bytes_atomic(self, path: str, data: bytes, *, backup: str = "") -> None:
        """Replace a file as a whole: write and flush a temporary file, then rename it to `path`.

        Args:
            path: the file, below the folder.
            data: its new content.
            backup: what to rename the old file to first; it is replaced at once if empty.
        """
        target = self._folder / path
        temporary = target.with_name(target.name + ".tmp")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if backup:
            with suppress(FileNotFoundError):
                target.replace(self._folder / backup)
        temporary.replace(target)
        self._sync()

    def _sync(self) -> None:
        """Flush the folder, where the platform allows it, so that the new names are on disk."""
        try:
            descriptor = os.open(self._folder, os.O_RDONLY)
        except OSError:
            return
        try:
            with suppress(OSError):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on a file, which is made if it is missing. Returns a function that releases it.

        Raises:
            BlockingIOError: the file is locked already, in this process or another.
        """
        target = str((self._folder / path).resolve())
        with _guard:
            if target in _held:
                raise BlockingIOError(errno.EAGAIN, "locked by this process", target)
            descriptor = os.open(target, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                _lock(descriptor, target)
            except OSError:
                os.close(descriptor)
                raise
            _held.add(target)
        owner = os.getpid()

        def release() -> None:
            os.close(descriptor)
            if os.getpid() == owner:
                with _guard:
                    _held.discard(target)

        return release

    def describe(self, path: str) -> str:
        """The full path, for messages."""
        return str(self._folder / path)


def _lock(descriptor: int, target: str) -> None:
    if _fcntl is None:
        return
    try:
        _fcntl.lockf(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise BlockingIOError(errno.EAGAIN, "locked by another process", target) from error
        raise
