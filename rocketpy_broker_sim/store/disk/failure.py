"""What an error of the disk means to the operator of a store: one place that turns OSError into StoreError."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError, StoreError

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = [
    "FileCreationError",
    "FlushPostponedError",
    "NotBegunError",
    "UnknownOutcomeError",
    "beginning",
    "opening",
    "store_error",
    "translated",
]

_ADVICE = {
    errno.ENOSPC: "the disk is full: free space or let fewer messages be kept (fileReservedTime)",
    errno.EDQUOT: "the disk quota is used up: raise it or free space",
    errno.EACCES: "permission denied: let the user that runs the broker own the store directory",
    errno.EPERM: "not permitted: let the user that runs the broker own the store directory",
    errno.EROFS: "the file system is read-only: remount it or choose another store directory",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine: raise the limit of the system",
    errno.ENOMEM: "the machine has no memory left: free some, or look for what takes it",
    errno.EINTR: "the system broke it off",
    errno.EIO: "the disk reports an error: look into the system's log and check the disk",
    errno.ENOBUFS: "all buffers are in use: raise transientStorePoolSize, or look for what slows the disk down",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another store directory",
    errno.EEXIST: "a file stands where a folder is needed: choose another store directory",
    errno.ENOENT: "a file or folder is not there and cannot be made: look whether this is the directory you mean",
}
_ABOUT_A_PATH = (errno.ENOTDIR, errno.EEXIST, errno.ENOENT)
"""Errors of one place in or above the store, which need not be the one that was named."""


_NOT_BEGUN = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EINTR,
    errno.EACCES,
    errno.EPERM,
)
"""What the system says when it does not let a file be opened; no flush of written data fails with these."""


class NotBegunError(OSError):
    """A flush could not begin, because the file or folder could not be opened: what was written waits as before."""


class FlushPostponedError(StoreError):
    """Nothing could be flushed for now, and nothing is lost: the next flush may succeed."""


@contextmanager
def beginning() -> Iterator[None]:
    """Around what opens a folder and flushes it: tell "not begun" from "failed".

    After a flush that failed, nobody knows what the disk has. One that was never begun changes nothing.

    Raises:
        NotBegunError: In place of an OSError that says so.
    """
    try:
        yield
    except OSError as exc:
        if exc.errno not in _NOT_BEGUN or isinstance(exc, NotBegunError):
            raise
        raise NotBegunError(exc.errno, exc.strerror, exc.filename) from exc


@contextmanager
def opening() -> Iterator[None]:
    """Around opening what is to be flushed, and nothing else: no error of that is a flush that failed.

    Raises:
        NotBegunError: In place of any OSError but one that says that nothing is there.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise NotBegunError(exc.errno, exc.strerror, exc.filename) from exc


class FileCreationError(StoreError):
    """The disk has no room for a new file of the log, or does not let it be made."""


class UnknownOutcomeError(StoreError):
    """A write failed, and so did taking back the part of it that was done.

    The messages count as not stored; but if the broker ends before it can take them back, the next start finds them.
    """


def store_error(exc: OSError, doing: str, where: str, *, fatal: bool = False) -> StoreError:
    """The StoreError for `exc`: what was being done, to what, and what to do next.

    Args:
        exc: What the system said.
        doing: For instance "writing to the commit log".
        where: The path as the operator knows it.
        fatal: Whether nothing can be stored any more until the store is opened again.
    """
    if exc.errno in (errno.ELOOP, errno.EISDIR):
        path = exc.filename if isinstance(exc.filename, str) else where
        kind = "link" if exc.errno == errno.ELOOP else "folder"
        text = f"{doing} failed: {path} is not a regular file but a {kind}: put the file itself in its place"
        return StoreCorruptError(text, path=path, offset=0)
    advice = _ADVICE.get(exc.errno or 0, exc.strerror or str(exc))
    if exc.errno in _ABOUT_A_PATH and isinstance(exc.filename, str) and exc.filename != where:
        advice = f"{exc.filename}: {advice}"
    ending = "; nothing is stored any more until the broker is restarted" if fatal else ""
    if exc.errno == errno.EINTR and not fatal:
        advice += ": it is tried again"
    return StoreError(f"{doing} at {where} failed: {advice}{ending}")


@contextmanager
def translated(storage: Storage, doing: str) -> Iterator[None]:
    """Around what uses the files of a store.

    Args:
        storage: The directory.
        doing: For instance "reading a queue".

    Raises:
        StoreError: In place of an OSError.
    """
    try:
        yield
    except OSError as exc:
        raise store_error(exc, doing, storage.describe("")) from exc
