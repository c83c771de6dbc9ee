"""Taking in the files of a row: which of them belong to it, and what to do with those that a power loss left maimed.

New files that had not reached the disk may be missing, short or empty afterwards, in any mixture. That is mended, but
only behind the position up to which files are known to have been safe; anything before it is damage, and refused.
Plays the part of MappedFileQueue.load.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.disk.mapped_file import MappedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketpy.seams import Storage

__all__ = ["ALL_BUT_LAST", "NAME_LENGTH", "is_number", "load_row"]

NAME_LENGTH = 20
ALL_BUT_LAST = -1
"""Stands for a safe position that nobody has written down: up to the beginning of the last file."""
_MAX_POSITION = 2**63 - 1
_KEYS = "mappedFileSizeCommitLog, mappedFileSizeConsumeQueue, mappedFileSizeTimerLog"
_NO_FILE = {errno.ELOOP: "link", errno.EISDIR: "folder", errno.ENXIO: "pipe"}
log = get_logger(__name__)


def load_row(
    storage: Storage,
    folder: str,
    file_size: int,
    on_open: Callable[[], None] | None = None,
    *,
    safe: int | None = None,
) -> tuple[tuple[MappedFile, ...], bool]:
    """The files of a folder that follow each other.

    Args:
        storage: The directory.
        folder: Where the files lie in it.
        file_size: Bytes in each of them.
        on_open: Called whenever one of them has been opened.
        safe: Position up to which they had reached the disk: what is maimed behind it is mended. None mends nothing,
            ALL_BUT_LAST the last file only.

    Returns:
        The files, and whether any was changed or removed.

    Raises:
        StoreCorruptError: A file has another size than configured, or one is missing in between.
    """
    names = [name for name in storage.list(folder) if len(name) == NAME_LENGTH and is_number(name)]
    files = [MappedFile(storage, f"{folder}/{name}", int(name), file_size, on_open) for name in names]
    if safe == ALL_BUT_LAST:
        safe = files[-1].start if files else 0
    changed = False
    for index, file in enumerate(files):
        before = files[index - 1] if index else None
        if not _follows(file, before):
            if safe is None or before is None or before.end < safe:
                raise _misplaced(storage, file)
            _remove(storage, files[index:])
            return tuple(files[:index]), True
        size = _size(storage, file, keep_open=file is files[-1])
        if size == 0 and file is files[-1] and (index if safe is None else file.start >= safe):
            file.delete()  # it was made ahead, or a crash came while it was made
            return tuple(files[:index]), True
        if size != file_size:
            file.close()
            if safe is None or size > file_size or file.start + size < safe:
                raise _wrong_size(storage, file, size)
            file.create()
            file.close()
            changed = True
    return tuple(files), changed


def is_number(name: str) -> bool:
    """Whether a name is made of the ten digits alone; ``str.isdigit`` takes others too, which ``int`` refuses."""
    return name.isascii() and name.isdigit()


def _follows(file: MappedFile, before: MappedFile | None) -> bool:
    fits = file.start % file.size == 0 and file.end <= _MAX_POSITION
    return fits and (before is None or before.end == file.start)


def _size(storage: Storage, file: MappedFile, *, keep_open: bool) -> int:
    try:
        return file.size_now(keep_open=keep_open)
    except OSError as exc:
        if exc.errno not in _NO_FILE:
            raise
        raise StoreCorruptError(
            f"{storage.describe(file.path)} is not a regular file but a {_NO_FILE[exc.errno]}: put the file itself in "
            "its place",
            path=file.path,
            offset=0,
        ) from exc


def _remove(storage: Storage, files: Sequence[MappedFile]) -> None:
    """Remove what nothing leads to any more; from the end, so that a crash in between leaves no other gap."""
    for file in reversed(files):
        log.warning("%s follows a file that never reached the disk: removed", storage.describe(file.path))
        file.delete()


def _wrong_size(storage: Storage, file: MappedFile, size: int) -> StoreCorruptError:
    return StoreCorruptError(
        f"{storage.describe(file.path)} has {size} bytes where {file.size} are configured: open the "
        f"store with the file sizes it was made with ({_KEYS}), or put the file back from a copy",
        path=file.path,
        offset=min(size, file.size),
    )


def _misplaced(storage: Storage, file: MappedFile) -> StoreCorruptError:
    return StoreCorruptError(
        f"{storage.describe(file.path)} does not continue the files before it: put the missing one back from "
        "a copy, or open the store with the file sizes it was made with",
        path=file.path,
        offset=0,
    )
