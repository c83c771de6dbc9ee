"""A disk that loses power: plays Storage, keeps a journal, and gives the disks that a power loss could leave.

What counts as having reached the disk: the content of a file after its sync, an entry of a folder after the sync of
that folder. Replacing a small file at once runs the real disk's own code. Deterministic: every choice comes from the
`Random` that is passed in.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from typing import Any

from rocketpy.seams import wall_ms
from rocketpy_broker_sim.store.disk.memory import MemoryStorage, MemoryView
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.crash.nodes import FileNode, FolderNode

__all__ = ["CHANGES", "PowerLoss", "SimDisk", "SimFile"]

CHANGES = ("link", "folder", "write", "resize", "sync", "rename", "unlink", "remove", "sync_dir")
"""Operations that stand in the journal."""

Entry = tuple[Any, ...]
Keep = Callable[[str, "FileNode | FolderNode"], "bytes | dict[str, FileNode | FolderNode]"]
"""Says what is left of a file (its content) or a folder (its entries)."""


class PowerLoss(BaseException):
    """The power is gone: no code of the broker may go on."""


class SimFile:
    """An open file; plays File."""

    __slots__ = ("_disk", "_node", "_number", "_path")

    def __init__(self, disk: SimDisk, path: str, number: int) -> None:
        self._disk = disk
        self._path = path
        self._number = number
        self._node: FileNode = disk.nodes[number]

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        room = self._disk.ask("write", self._path, len(data))
        kept = bytes(data) if room is None else bytes(data[:room])
        self._disk.do("write", self._number, offset, kept)
        self._node.modified = wall_ms()
        if len(kept) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def pread(self, size: int, offset: int) -> bytes:
        return bytes(self._node.data[offset : offset + size])

    def map(self) -> SimView:
        return SimView(self._node)

    def truncate(self, size: int) -> None:
        self._disk.ask("resize", self._path, size)
        self._disk.do("resize", self._number, size)

    def clear(self, offset: int) -> bool:
        data = self._node.data
        size = len(data) - offset
        if size <= 0 or data.count(0, offset) == size:
            return False
        self.pwrite(bytes(size), offset)
        return True

    def fdatasync(self) -> None:
        self._disk.sync(self._path, self._number)

    def fetch(self, offset: int, size: int) -> None:
        """Reading ahead changes nothing that a crash could lose."""

    def size(self) -> int:
        return len(self._node.data)

    def close(self) -> None:
        pass


class SimView:
    """A file that is in memory anyway; plays MappedView."""

    __slots__ = ("_node",)

    def __init__(self, node: FileNode) -> None:
        self._node = node

    lock_in_memory = MemoryView.lock_in_memory

    def __len__(self) -> int:
        return len(self._node.data)

    def close(self) -> None:
        pass


class SimDisk:
    """A directory tree that knows what of it has reached the disk.

    Attributes:
        journal: Every change in order; `None` until `record` was called.
        fault: Asked before every change: (operation, path, bytes). May raise OSError or PowerLoss, or say of a write
            how many bytes of it are done before the disk is full.
        nodes: Everything that ever was, by number.
    """

    def __init__(self, root: FolderNode | None = None) -> None:
        self.nodes: list[Any] = []
        self.journal: list[Entry] | None = None
        self.fault: Callable[[str, str, int], int | None] | None = None
        self._numbers: dict[str, int] = {}
        self._locks: set[str] = set()
        self._adopt("", root or FolderNode())

    def _adopt(self, path: str, node: FileNode | FolderNode) -> None:
        self._numbers[path] = len(self.nodes)
        self.nodes.append(node)
        if isinstance(node, FolderNode):
            for name, child in sorted(node.names.items()):
                self._adopt(f"{path}/{name}" if path else name, child)

    def record(self) -> None:
        """Keep a journal from now on."""
        self.journal = []

    # --- changes: all of them go through here

    def ask(self, operation: str, path: str, size: int = 0) -> int | None:
        return None if self.fault is None else self.fault(operation, path, size)

    def do(self, operation: str, *arguments: Any) -> None:
        """Change something, and write it down."""
        if self.journal is not None:
            self.journal.append((operation, *arguments))
        self.apply(operation, *arguments)

    def apply(self, operation: str, number: int, *arguments: Any) -> None:
        """Change something, now or again from a journal."""
        node = self.nodes[number]
        if operation == "link":
            self.nodes.append(FileNode())
            node.link(arguments[0], self.nodes[-1])
        elif operation == "folder":
            self.nodes.append(FolderNode())
            node.link(arguments[0], self.nodes[-1])
        else:
            getattr(node, _METHODS.get(operation, operation))(*arguments)

    def sync(self, path: str, number: int, operation: str = "sync") -> None:
        try:
            self.ask(operation, path)
        except OSError:
            self.do("give_up", number)
            raise
        self.do(operation, number)

    @contextmanager
    def failing(self, operation: str, *, code: int = errno.EIO, under: str = "") -> Iterator[None]:
        """For a block, let every `operation` below `under` fail with `code`."""

        def fault(what: str, path: str, size: int) -> None:
            if what == operation and path.startswith(under):
                raise OSError(code, os.strerror(code), path)

        before, self.fault = self.fault, fault
        try:
            yield
        finally:
            self.fault = before

    # --- what a power loss leaves

    def left(self, keep: Keep) -> SimDisk:
        """The disk after a power loss, on which everything that is there has reached it."""
        return SimDisk(_left("", self.nodes[0], keep))

    def left_none(self) -> SimDisk:
        """Only what had reached the disk for certain."""
        return self.left(lambda path, node: node.safe)

    def left_all(self) -> SimDisk:
        """Everything, as after the end of the process alone."""
        return self.left(lambda path, node: node.names if isinstance(node, FolderNode) else node.data)

    def left_some(self, rng: Random) -> SimDisk:
        """Any part of what had not reached it."""
        return self.left(lambda path, node: node.some(rng))

    @property
    def unsynced(self) -> int:
        """How many changes have not reached the disk."""
        return sum(len(node.pending) for node in self.nodes)

    def files(self) -> dict[str, bytes]:
        """The content of every file by path."""
        return {
            path: bytes(self.nodes[number].data)
            for path, number in sorted(self._numbers.items())
            if isinstance(self.nodes[number], FileNode)
        }

    def node(self, path: str) -> FileNode:
        return self.nodes[self._numbers[path]]

    # --- changes behind the broker's back

    def plant(self, path: str, data: bytes | None) -> None:
        """Let a file have this content, or be missing, as if it had always been so."""
        if data is None:
            folder, _, name = path.rpartition("/")
            del self.nodes[self._numbers[folder]].names[name], self.nodes[self._numbers[folder]].safe[name]
            del self._numbers[path]
            return
        self.open(path, create=True)
        for each in (self.node(path).data, self.node(path).safe):
            each[:] = data
        for number in self._numbers.values():
            self.nodes[number].sync()

    # --- Storage

    def open(self, path: str, *, create: bool = False) -> SimFile:
        number = self._numbers.get(_checked(path))
        if number is None:
            if not create:
                raise _missing(path)
            folder, _, name = path.rpartition("/")
            self._make_dir(folder)
            self.ask("link", path)
            self.do("link", self._numbers[folder], name)
            number = self._numbers[path] = len(self.nodes) - 1
        elif isinstance(self.nodes[number], FolderNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimFile(self, path, number)

    def exists(self, path: str) -> bool:
        return _checked(path) in self._numbers

    def list(self, path: str) -> list[str]:
        number = self._numbers.get(_checked(path))
        return [] if number is None else sorted(self.nodes[number].names)

    def is_dir(self, path: str) -> bool:
        number = self._numbers.get(_checked(path))
        return number is not None and isinstance(self.nodes[number], FolderNode)

    def read_bytes(self, path: str) -> bytes:
        return bytes(self.nodes[self._number(path)].data)

    write_bytes_atomic = RealStorage.write_bytes_atomic

    def rename(self, source: str, target: str) -> None:
        number = self._number(source)
        folder = source.rpartition("/")[0]
        if target.rpartition("/")[0] != folder:
            raise OSError(errno.EXDEV, "only within a folder", target)
        self.ask("rename", source)
        self.do("rename", self._numbers[folder], source.rpartition("/")[2], target.rpartition("/")[2])
        del self._numbers[source]
        self._numbers[_checked(target)] = number

    def unlink(self, path: str) -> None:
        self._number(path)
        self.ask("unlink", path)
        folder, _, name = path.rpartition("/")
        self.do("unlink", self._numbers[folder], name)
        del self._numbers[path]

    def remove_dir(self, path: str) -> None:
        if self.nodes[self._number(path)].names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.ask("remove", path)
        folder, _, name = path.rpartition("/")
        self.do("remove", self._numbers[folder], name)
        del self._numbers[path]

    def make_dir(self, path: str) -> None:
        above = {path.rpartition("/")[0]} if path not in self._numbers else set()
        self._make_dir(path)
        for folder in above:
            self.sync_dir(folder)

    def _make_dir(self, path: str) -> None:
        if _checked(path) in self._numbers:
            return
        folder, _, name = path.rpartition("/")
        self._make_dir(folder)
        self.ask("folder", path)
        self.do("folder", self._numbers[folder], name)
        self._numbers[path] = len(self.nodes) - 1

    def sync_dir(self, path: str) -> None:
        self.sync(path, self._number(path), "sync_dir")

    def sync_tree(self, path: str) -> bool:
        return False

    def modified_ms(self, path: str) -> int:
        node = self.nodes[self._number(path)]
        return node.modified if isinstance(node, FileNode) else 0

    def lock(self, path: str) -> Callable[[], None]:
        if path in self._locks:
            raise OSError(errno.EAGAIN, "locked by this process", path)
        if not self.exists(path):
            self.open(path, create=True).pwrite(b"lock", 0)
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def lock_folder(self, path: str) -> Callable[[], None]:
        if path in self._locks:
            raise OSError(errno.EAGAIN, "locked by this process", path)
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    usage = MemoryStorage.usage
    space = MemoryStorage.space

    def describe(self, path: str) -> str:
        return f"disk:/{path}"

    def _number(self, path: str) -> int:
        number = self._numbers.get(_checked(path))
        if number is None:
            raise _missing(path)
        return number


_METHODS = {"sync_dir": "sync", "remove": "unlink"}


def _left(path: str, node: FileNode | FolderNode, keep: Keep) -> Any:
    """A node as it is found after the power loss."""
    found: Any = keep(path, node)
    if isinstance(node, FileNode):
        return FileNode(found, node.modified)
    folder = FolderNode()
    for name, child in found.items():
        folder.names[name] = _left(f"{path}/{name}" if path else name, child, keep)
    folder.safe = dict(folder.names)
    return folder


@lru_cache(maxsize=4096)  # the same few hundred paths are opened all the time
def _checked(path: str) -> str:
    if path and any(part in ("", ".", "..") or "\0" in part for part in path.split("/")):
        raise PermissionError(errno.EPERM, "refusing a path that could leave the root", path)
    return path


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
