"""Taking in the files of a key index when a store is opened: which of them can be gone on with, and which cannot.

The log says everything that an index says, so nothing is refused here: what is damaged, or claims more than the log
has, is deleted, and read from the log again. Plays the part of load in IndexService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.disk.row_loading import is_number
from rocketpy_broker_sim.store.index.file import FOLDER, NAME_LENGTH, IndexFile, IndexHeader, IndexShape
from rocketpy_broker_sim.store.index.growth import GrowingIndexFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy.seams import Storage

__all__ = ["index_names", "load_files"]

log = get_logger(__name__)


def load_files(
    storage: Storage, shape: IndexShape, log_end: int, newest: int | None, *, mend: bool, safe: int | None
) -> list[GrowingIndexFile]:
    """The files that can be gone on with, the oldest first.

    Args:
        storage: The directory.
        shape: How many slots and entries they should have.
        log_end: Where the log ends.
        newest: The store time, ms, up to which files can be trusted; None when all of them can.
        safe: Up to where in the log they had reached the disk; None when nobody knows.
        mend: Whether a crash may have left slots that run ahead of the header.
    """
    before = index_names(storage)
    files = _kept(_sound_files(storage, shape), log_end, newest)
    if mend and files and not files[-1].is_full:
        try:
            files[-1].mend()
        except StoreCorruptError as exc:
            log.warning("rebuilding an index file from the log: %s", exc)
            files.pop().delete()
    for file in files:
        if mend and safe is not None and file.header.end_position >= safe:
            file.write_again()
    if len(files) < len(before):
        storage.sync_dir(FOLDER)  # were they back after a power loss, they would lead to what was written since
    return files


def index_names(storage: Storage) -> list[str]:
    """The names of the files of an index, the oldest first."""
    return [name for name in storage.list(FOLDER) if len(name) == NAME_LENGTH and is_number(name)]


def _sound_files(storage: Storage, shape: IndexShape) -> list[GrowingIndexFile]:
    """The files in order; none at all when they do not make a whole."""
    _remove_unfinished(storage, shape)
    files: list[GrowingIndexFile] = []
    try:
        for name in index_names(storage):
            file = GrowingIndexFile(storage, name, shape)
            file.load()
            file.follow(files[-1].header if files else IndexHeader())  # one without entries says nothing of its own
            files.append(file)
    except StoreCorruptError as exc:
        log.warning("rebuilding the index from the log: %s", exc)
        _delete([IndexFile(storage, name, shape) for name in index_names(storage)])
        return []
    return files


def _remove_unfinished(storage: Storage, shape: IndexShape) -> None:
    """Remove last files that a crash, or a full disk, left short while they were made."""
    for name in reversed(index_names(storage)):
        path = f"{FOLDER}/{name}"
        file = storage.open(path)
        try:
            size = file.size()
        finally:
            file.close()
        if size >= shape.size:
            return
        storage.unlink(path)


def _kept(files: list[GrowingIndexFile], log_end: int, newest: int | None) -> list[GrowingIndexFile]:
    """Delete files that reach behind the end of the log, that were written too late to be trusted, or that follow one
    that is not full.
    """
    count = 0
    for file in files:
        header = file.header
        if header.end_position >= log_end or (newest is not None and header.end_timestamp > newest):
            break
        count += 1
        if not file.is_full:
            break
    _delete(files[count:])
    return files[:count]


def _delete(files: Sequence[IndexFile]) -> None:
    """Delete files, the last of them first."""
    for file in reversed(files):
        file.delete()
