"""What a simulated disk consists of: files and folders that know which of their changes have reached the disk.

Both hold two states: as the process sees them, and as they are on the disk for certain. In between stand changes of
which a power loss keeps what it likes: whole sectors of writes, any part of a growth, any of the changes of a folder.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

__all__ = ["SECTOR", "FileNode", "FolderNode", "apply", "sectors_of"]

SECTOR = 512
Write = tuple[int, bytes]
Resize = tuple[int, None]


class FileNode:
    """The content of a file.

    Attributes:
        data: As the process sees it.
        safe: As it is on the disk for certain.
        pending: Changes since: (offset, bytes) of a write, (size, None) of a change of size.
        modified: When it was last changed, ms.
    """

    __slots__ = ("data", "modified", "pending", "safe")

    def __init__(self, data: bytes = b"", modified: int = 0) -> None:
        self.data = bytearray(data)
        self.safe = bytearray(data)
        self.pending: list[Write | Resize] = []
        self.modified = modified

    def write(self, offset: int, data: bytes) -> None:
        apply(self.data, offset, data)
        self.pending.append((offset, data))

    def resize(self, size: int) -> None:
        apply(self.data, size, None)
        self.pending.append((size, None))

    def sync(self) -> None:
        """Everything has reached the disk; but not what a sync that failed has given up."""
        for offset, data in self.pending:
            apply(self.safe, offset, data)
        self.pending.clear()

    def give_up(self) -> None:
        """A sync failed: the system counts the pages as written from now on, and the disk does not have them."""
        self.pending = [(offset, data) for offset, data in self.pending if data is None]

    # --- what a power loss leaves

    def some(self, rng: Random) -> bytes:
        """Any of the sectors of each write, and any part of a growth."""
        left = bytearray(self.safe)
        keep = rng.choice((0.1, 0.5, 0.9))
        for offset, data in self.pending:
            if data is None:
                if rng.random() < keep:
                    apply(left, offset, None)
                elif offset > len(left):
                    apply(left, rng.choice((len(left), rng.randint(len(left), offset))), None)
                continue
            for begin, end in sectors_of(offset, len(data)):
                if rng.random() < keep and begin < len(left):
                    apply(left, begin, data[begin - offset : min(end, len(left)) - offset])
        return bytes(left)


def apply(target: bytearray, offset: int, data: bytes | None) -> None:
    """Write, or change the size (no data)."""
    if data is not None:
        if offset > len(target):
            target.extend(bytes(offset - len(target)))
        target[offset : offset + len(data)] = data
    elif offset < len(target):
        del target[offset:]
    else:
        target.extend(bytes(offset - len(target)))


def sectors_of(offset: int, size: int) -> list[tuple[int, int]]:
    """The parts of a write that reach the disk whole or not at all."""
    cuts = [offset, *range(offset - offset % SECTOR + SECTOR, offset + size, SECTOR), offset + size]
    return list(pairwise(cuts)) if size else []


Node = "FileNode | FolderNode"


class FolderNode:
    """The entries of a folder: `names` as the process sees them, `safe` on the disk for certain, `pending` since."""

    __slots__ = ("names", "pending", "safe")

    def __init__(self) -> None:
        self.names: dict[str, FileNode | FolderNode] = {}
        self.safe: dict[str, FileNode | FolderNode] = {}
        self.pending: list[tuple[str, str, FileNode | FolderNode | None]] = []

    def link(self, name: str, node: FileNode | FolderNode) -> None:
        self.change("", name, node)

    def unlink(self, name: str) -> None:
        self.change(name, "", None)

    def rename(self, source: str, target: str) -> None:
        self.change(source, target, self.names[source])

    def change(self, gone: str, new: str, node: FileNode | FolderNode | None) -> None:
        change(self.names, gone, new, node)
        self.pending.append((gone, new, node))

    def sync(self) -> None:
        for entry in self.pending:
            change(self.safe, *entry)
        self.pending.clear()

    def give_up(self) -> None:
        """A sync failed: only the pages of files are forgotten, a folder is tried again by the next one."""

    def some(self, rng: Random) -> dict[str, FileNode | FolderNode]:
        """Any of the changes; a rename happens whole or not at all."""
        left = dict(self.safe)
        keep = rng.choice((0.1, 0.5, 0.9))
        for entry in self.pending:
            if rng.random() < keep:
                change(left, *entry)
        return left


def change(names: dict[str, FileNode | FolderNode], gone: str, new: str, node: FileNode | FolderNode | None) -> None:
    names.pop(gone, None)
    if node is not None:
        names[new] = node
