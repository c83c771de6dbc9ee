"""The real disk behind the Storage seam: files of one directory tree, read and written by position.

Every path is taken apart and checked before it is used: whatever a name contains, nothing outside the root is ever
opened. Errors are the system's own (OSError); the store gives them their meaning.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rocketpy_broker_sim.store.disk import platforms

__all__ = ["RealFile", "RealStorage", "RealView"]

CLEAR_STEP = 1024 * 1024
_LEADS_OUT = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\0\\]")
"""An empty part of a path, one that is . or .., and what ends a part elsewhere."""

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""What is said of a path by which nothing can be reached."""

# POSIX record locks, which Apache's broker takes too, do not tell two holders within one process apart, and closing
# any descriptor of the file gives them up. So the files this process has locked are noted by device and inode.
_locked: set[tuple[int, int]] = set()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locked.clear)  # a child has none of the locks of its parent


class RealView:
    """A mapping of a file whose pages can be kept in memory; plays MappedView."""

    __slots__ = ("_map",)

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)

    def lock_in_memory(self) -> None:
        """Keep the mapped pages in memory until the mapping is closed."""
        platforms.lock_pages(self._map)

    def __len__(self) -> int:
        """Bytes mapped."""
        return len(self._map)

    def close(self) -> None:
        """Give the mapping up."""
        self._map.close()


class RealFile:
    """An open file; plays File."""

    __slots__ = ("_descriptor", "_is_changed")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_changed = False  # since the disk was last asked by this descriptor

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`."""
        written = platforms.pwrite(self._descriptor, data, offset)
        self._is_changed = True
        if written == len(data):
            return
        rest = memoryview(data)
        while written < len(rest):
            count = platforms.pwrite(self._descriptor, rest[written:], offset + written)
            if count == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            written += count

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`; short at the end of the file."""
        return platforms.pread(self._descriptor, size, offset)

    def map(self) -> RealView:
        """Map the file as long as it is now."""
        return RealView(self._descriptor)

    def truncate(self, size: int) -> None:
        """Cut or grow (with zeros) to `size` bytes; growing takes no space until something is written."""
        os.ftruncate(self._descriptor, size)
        self._is_changed = True

    def clear(self, offset: int) -> bool:
        """Make everything from `offset` on zero: overwrite what is not; holes are skipped without reading them."""
        found = False
        size = self.size()
        for begin, end in platforms.data_extents(self._descriptor, offset, size):
            for at in range(begin, end, CLEAR_STEP):
                chunk = self.pread(min(CLEAR_STEP, end - at), at)
                if chunk.count(0) != len(chunk):
                    self.pwrite(bytes(len(chunk)), at)
                    found = True
        return found

    def fdatasync(self) -> None:
        """Return when the data has reached the disk. Lets other threads run, which ``mmap.flush`` does not."""
        self._is_changed = False  # before: what is written meanwhile may not be among it
        try:
            platforms.sync_data(self._descriptor)
        except OSError:
            self._is_changed = True
            raise

    def fetch(self, offset: int, size: int) -> None:
        """Begin to bring a part into memory."""
        platforms.fetch(self._descriptor, offset, size)

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the file; its data may still be on its way to the disk.

        Raises:
            OSError: Something that was written since the last sync did not get there. The file is closed all the same.
        """
        try:
            os.close(self._descriptor)  # once, whatever it says: the number may be that of another file by now
        except InterruptedError:
            pass  # it says nothing of the data
        except OSError:
            if self._is_changed:
                raise


class RealStorage:
    """A directory tree on the disk; plays Storage.

    Attributes:
        root: The directory that holds everything.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, mounts: Mapping[str, str | os.PathLike[str]] | None = None
    ) -> None:
        """Touch nothing: what is missing is made when it is needed.

        Args:
            root: The directory.
            mounts: Folders directly under the root that live elsewhere, as storePathCommitLog does.
        """
        self.root = Path(root)
        self._root = str(self.root)
        self._mounts = {name: str(Path(target)) for name, target in (mounts or {}).items()}

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open for reading and writing; with `create` make the file (and its folders) when it is missing."""
        target = self._resolve(path)
        if not create:
            return RealFile(os.open(target, platforms.OPEN_FLAGS))
        try:
            return RealFile(os.open(target, platforms.OPEN_FLAGS | os.O_CREAT, 0o644))
        except FileNotFoundError:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        return RealFile(os.open(target, platforms.OPEN_FLAGS | os.O_CREAT, 0o644))

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there. An error of the disk is no answer: OSError."""
        return self._mode(path) is not None

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty when there is no such folder."""
        try:
            return sorted(os.listdir(self._resolve(path)))
        except FileNotFoundError:
            return []

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a folder."""
        return stat.S_ISDIR(self._mode(path) or 0)

    def _mode(self, path: str) -> int | None:
        """What is there; None when nothing is, or when nothing can be."""
        try:
            return os.stat(self._resolve(path)).st_mode
        except OSError as exc:
            if exc.errno in _NOT_THERE:
                return None
            raise

    def read_bytes(self, path: str) -> bytes:
        """A whole small file."""
        return Path(self._resolve(path)).read_bytes()

    def write_bytes_atomic(self, path: str, data: bytes | Sequence[bytes], *, backup: str = "") -> None:
        """Replace a whole small file: temporary file, fdatasync, old file to `backup`, rename, sync of the folder."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            place = 0
            for piece in [data] if isinstance(data, bytes) else data:
                file.pwrite(piece, place)
                place += len(piece)
            file.fdatasync()
        finally:
            file.close()
        if backup and self.exists(path):
            self.rename(path, backup)
        self.rename(temporary, path)
        self.sync_dir(path.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        """Move within the tree, replacing the target."""
        os.replace(self._resolve(source), self._resolve(target))

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self._resolve(path))

    def remove_dir(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._resolve(path))

    def make_dir(self, path: str) -> None:
        """Make a folder and those above it, and return when the folders that hold them have reached the disk."""
        _make_folder(Path(self._resolve(path)))

    def sync_dir(self, path: str) -> None:
        """Return when the folder's entries have reached the disk."""
        platforms.sync_folder(self._resolve(path))

    def sync_tree(self, path: str) -> bool:
        """Return when everything below a folder has reached the disk; False when that must be asked of each file."""
        return platforms.sync_tree(self._resolve(path))

    def modified_ms(self, path: str) -> int:
        """When the file was last changed, ms since 1970."""
        return os.stat(self._resolve(path)).st_mtime_ns // 1_000_000

    def lock(self, path: str) -> Callable[[], None]:
        """Take the lock that Apache's broker takes too: a record lock on the first byte of a file."""
        target = Path(self._resolve(path))
        _make_folder(target.parent)
        if target.exists() and _identity(os.stat(target)) in _locked:
            raise OSError(errno.EAGAIN, "locked by this process")
        descriptor = os.open(target, platforms.OPEN_FLAGS | os.O_CREAT, 0o644)
        try:
            platforms.lock_file(descriptor)
            platforms.pwrite(descriptor, b"lock", 0)
        except OSError as exc:
            platforms.close(descriptor)
            if exc.errno == errno.EACCES:  # some systems say so of a lock that another process holds
                raise BlockingIOError(errno.EAGAIN, "locked by another process") from exc
            raise
        identity = _identity(os.fstat(descriptor))
        _locked.add(identity)

        def release() -> None:
            if identity in _locked:
                _locked.discard(identity)
                platforms.close(descriptor)

        return release

    def lock_folder(self, path: str) -> Callable[[], None]:
        """Lock a folder itself: brokers with directories of their own may have been given one folder for both."""
        return platforms.lock_folder(self._resolve(path))

    def usage(self, path: str = "") -> float:
        """Share in use of the disk that a folder lies on, or will once it is made."""
        folder = Path(self._resolve(path))
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return platforms.disk_usage(folder)

    def space(self) -> tuple[int, int]:
        """Bytes of the disk that the root lies on: all of them, and those that are free."""
        total, _, free = shutil.disk_usage(self.root)
        return total, free

    def describe(self, path: str) -> str:
        """The path as an operator would look for it."""
        return self._resolve(path)

    def _resolve(self, path: str) -> str:
        """The real path, refused when a part of it would lead out of the root."""
        if not path:
            return self._root
        if _LEADS_OUT.search(path):
            raise PermissionError(errno.EPERM, f"refusing a path that could leave {self._root}", path)
        if self._mounts:
            first, _, rest = path.partition("/")
            mounted = self._mounts.get(first)
            if mounted is not None:
                return f"{mounted}/{rest}" if rest else mounted
        return f"{self._root}/{path}"


def _make_folder(folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        platforms.sync_folder(each.parent)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
