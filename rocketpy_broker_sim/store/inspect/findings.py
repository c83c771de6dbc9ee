"""What a check found: where, what, and whether the next start of a broker mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy_broker_sim.store.inspect.rows import FileRow, StoreFile

__all__ = ["DAMAGE", "NOTE", "RECOVERED", "Finding", "file_findings"]

DAMAGE = "damage"
"""Something is lost or contradicts the rest; no start of a broker mends it."""
RECOVERED = "recovered"
"""What a crash, or a broker that runs, leaves behind: it will be recovered at the next start."""
NOTE = "note"
"""Worth knowing, and as it should be."""


@attrs.frozen(kw_only=True)
class Finding:
    """One of them.

    Attributes:
        kind: DAMAGE, RECOVERED or NOTE.
        part: log, queue, index or checkpoint.
        path: The file, or the folder when it is about several files.
        position: Where: a position of the log, an offset of a queue, the number of an index entry.
        offset: Where in the file, in bytes.
        size: How much: bytes of the log, units of a queue, entries of an index.
        text: What.
    """

    kind: str
    part: str
    path: str
    text: str
    position: int | None = None
    offset: int | None = None
    size: int | None = None

    def row(self) -> dict[str, Any]:
        """For machines."""
        row = attrs.asdict(self)
        row["reason"] = row.pop("text")
        return row


def file_findings(row: FileRow, part: str, *, unclean: bool) -> Iterator[Finding]:
    """What is odd about the files of a row: their sizes, and what is missing between them."""
    for index, file in enumerate(row.files):
        is_last = index == len(row.files) - 1
        if file.size != row.file_size:
            torn = is_last and unclean and file.size < row.file_size
            yield _at(file, part, RECOVERED if torn else DAMAGE, _size_text(file, row, torn), size=file.size)
        before = row.files[index - 1] if index else None
        if file.start % row.file_size:
            yield _at(file, part, DAMAGE, f"its name is not a multiple of the file size {row.file_size}")
        elif before is not None and before.start + row.file_size != file.start:
            missing = file.start - before.start - row.file_size
            text = f"the files before it are missing, {missing} bytes: put them back from a copy, or repair the store"
            yield _at(file, part, DAMAGE, text, size=missing)
    for file in row.empty:
        if row.files and file.start < row.files[-1].start:
            yield _at(file, part, DAMAGE, "is empty, though later files are not: put it back from a copy")


def _at(file: StoreFile, part: str, kind: str, text: str, size: int | None = None) -> Finding:
    return Finding(kind=kind, part=part, path=file.path, position=file.start, offset=0, size=size, text=text)


def _size_text(file: StoreFile, row: FileRow, torn: bool) -> str:
    if torn:
        return f"has {file.size} of {row.file_size} bytes: it was being made, and will be brought to its size"
    return (
        f"has {file.size} bytes where {row.file_size} belong: put it back from a copy, or name the settings "
        "that the store was made with (-c broker.conf)"
    )
