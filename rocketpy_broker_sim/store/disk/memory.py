"""A storage in memory: for embedded clusters that keep nothing, and for tests that need a disk that fails.

Not a model of power loss: every write is there at once, as it is for a process that was killed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rocketpy.seams import wall_ms
from rocketpy_broker_sim.store.disk.sparse import SparseBytes

__all__ = ["Fault", "MemoryFile", "MemoryStorage", "MemoryView"]

Fault = Callable[[str, str, int], int | None]
"""Asked before every operation that changes something: (operation, path, bytes).

May raise OSError; for "pwrite" it may also return how many bytes are written before the disk is full."""


class _Node:
    """The content of a file, shared by everyone who has it open."""

    __slots__ = ("data", "modified")

    def __init__(self) -> None:
        self.data = SparseBytes()
        self.modified = wall_ms()


class MemoryView:
    """A file that is in memory anyway; plays MappedView."""

    __slots__ = ("_node",)

    def __init__(self, node: _Node) -> None:
        self._node = node

    def lock_in_memory(self) -> None:
        """It is nowhere else."""

    def __len__(self) -> int:
        """Bytes in the file."""
        return len(self._node.data)

    def close(self) -> None:
        """Nothing to give up."""


class MemoryFile:
    """An open file in memory; plays File."""

    __slots__ = ("_node", "_path", "_storage")

    def __init__(self, storage: MemoryStorage, path: str, node: _Node) -> None:
        self._storage = storage
        self._path = path
        self._node = node

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`, or what the fault lets through."""
        room = self._storage.ask("pwrite", self._path, len(data))
        self._node.data.write(data if room is None else data[:room], offset)
        self._node.modified = wall_ms()
        if room is not None and room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`; short at the end of the file."""
        return self._node.data.read(size, offset)

    def map(self) -> MemoryView:
        """What stands for a mapping."""
        return MemoryView(self._node)

    def truncate(self, size: int) -> None:
        """Cut or grow (with zeros) to `size` bytes."""
        self._storage.ask("truncate", self._path, size)
        self._node.data.resize(size)

    def clear(self, offset: int) -> bool:
        """Make everything from `offset` on zero, keeping the size."""
        data = self._node.data
        if data.zero_from(offset):
            return False
        self.pwrite(bytes(len(data) - offset), offset)
        data.clear(offset)  # zeros need no pages
        return True

    def fdatasync(self) -> None:
        """Nothing to wait for, unless a fault says otherwise."""
        self._storage.ask("fdatasync", self._path, 0)

    def fetch(self, offset: int, size: int) -> None:
        """It is in memory."""

    def size(self) -> int:
        """Bytes in the file."""
        return len(self._node.data)

    def close(self) -> None:
        """The content stays."""


class MemoryStorage:
    """A directory tree in memory; plays Storage.

    Attributes:
        fault: Asked before every operation that changes something; None lets everything pass.
        used: Share in use, 0.0 to 1.0, of the disk that a folder is said to lie on; "" stands for all others.
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.used: dict[str, float] = {}
        self._files: dict[str, _Node] = {}
        self._folders: set[str] = {""}
        self._locks: set[str] = set()

    # --- faults and copies, for tests

    def ask(self, operation: str, path: str, size: int) -> int | None:
        """Let the fault speak before an operation."""
        return None if self.fault is None else self.fault(operation, path, size)

    @contextmanager
    def failing(self, operation: str, *, code: int = errno.ENOSPC, under: str = "", after: int = 0) -> Iterator[None]:
        """For a block, let every `operation` below `under` fail with `code`, once `after` of them have passed."""
        passed = 0

        def fault(what: str, path: str, size: int) -> None:
            nonlocal passed
            if what == operation and path.startswith(under):
                passed += 1
                if passed > after:
                    raise OSError(code, os.strerror(code), path)

        before, self.fault = self.fault, fault
        try:
            yield
        finally:
            self.fault = before

    def touch(self, path: str, modified: int) -> None:
        """Say that a file was last changed at a time, ms since 1970."""
        node = self._files.get(_checked(path))
        if node is None:
            raise _missing(path)
        node.modified = modified

    def clone(self) -> MemoryStorage:
        """A copy of all files as they are now, without locks and faults: what a killed process leaves behind."""
        copy = MemoryStorage()
        copy._folders = set(self._folders)
        for path, node in self._files.items():
            copied = _Node()
            copied.data = node.data.copy()
            copied.modified = node.modified
            copy._files[path] = copied
        return copy

    # --- Storage

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open a file; with `create` make it (and its folders) when it is missing."""
        node = self._files.get(_checked(path))
        if node is None:
            if not create:
                raise _missing(path)
            self.ask("create", path, 0)
            self.make_dir(path.rpartition("/")[0])
            node = self._files[path] = _Node()
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return _checked(path) in self._files or path in self._folders

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty when there is no such folder."""
        prefix = _checked(path) + "/" if path else ""
        entries = [*self._files, *(folder for folder in self._folders if folder)]
        return sorted({entry[len(prefix) :].split("/")[0] for entry in entries if entry.startswith(prefix)})

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a folder."""
        return _checked(path) in self._folders

    def read_bytes(self, path: str) -> bytes:
        """A whole small file."""
        node = self._files.get(_checked(path))
        if node is None:
            raise _missing(path)
        return node.data.read(len(node.data), 0)

    def write_bytes_atomic(self, path: str, data: bytes | Sequence[bytes], *, backup: str = "") -> None:
        """Replace a whole small file."""
        data = data if isinstance(data, bytes) else b"".join(data)
        self.ask("write_bytes_atomic", _checked(path), len(data))
        self.make_dir(path.rpartition("/")[0])
        if backup and path in self._files:
            self.rename(path, backup)
        node = self._files[path] = _Node()
        node.data = SparseBytes(data)

    def rename(self, source: str, target: str) -> None:
        """Move within the tree, replacing the target."""
        self.ask("rename", _checked(source), 0)
        if source not in self._files:
            raise _missing(source)
        self._files[_checked(target)] = self._files.pop(source)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self.ask("unlink", _checked(path), 0)
        if self._files.pop(path, None) is None:
            raise _missing(path)

    def remove_dir(self, path: str) -> None:
        """Remove an empty folder."""
        self.ask("remove_dir", _checked(path), 0)
        if path not in self._folders:
            raise _missing(path)
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._folders.discard(path)

    def make_dir(self, path: str) -> None:
        """Make a folder and those above it."""
        parts = _checked(path).split("/") if path else []
        self._folders.update("/".join(parts[: count + 1]) for count in range(len(parts)))

    def sync_dir(self, path: str) -> None:
        """Nothing to wait for, unless a fault says otherwise."""
        self.ask("sync_dir", _checked(path), 0)

    def sync_tree(self, path: str) -> bool:
        """Each file is asked, so that faults can strike at each."""
        return False

    def modified_ms(self, path: str) -> int:
        """When the file was last changed, ms since 1970; 0 for a folder."""
        if path in self._folders:
            return 0
        node = self._files.get(_checked(path))
        if node is None:
            raise _missing(path)
        return node.modified

    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on a file, made when missing."""
        if path in self._locks:
            raise OSError(errno.EAGAIN, "locked by this process", path)
        if not self.exists(path):
            self.open(path, create=True).pwrite(b"lock", 0)
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def lock_folder(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on a folder."""
        if path in self._locks:
            raise OSError(errno.EAGAIN, "locked by this process", path)
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def usage(self, path: str = "") -> float:
        """What `used` says of the folder, or of the whole; memory alone is never called full."""
        return self.used.get(path, self.used.get("", 0.0))

    def space(self) -> tuple[int, int]:
        """There is no disk."""
        return 0, 0

    def describe(self, path: str) -> str:
        """The path within the memory."""
        return f"memory:/{path}"


def _checked(path: str) -> str:
    if path and any(part in ("", ".", "..") or "\0" in part for part in path.split("/")):
        raise PermissionError(errno.EPERM, "refusing a path that could leave the root", path)
    return path


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
