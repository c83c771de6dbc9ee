"""The four doors to the outside world: clock, network, disk, randomness.

Everything else in both packages reaches time, files, sockets and chance through these, so that a whole cluster runs
in one loop over memory streams under a mock clock. This module holds the protocols, the injected wall clock and the
random source; it imports neither trio nor socket nor threading. The monotonic clock is trio's own.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "File",
    "MappedView",
    "Storage",
    "random_source",
    "set_random_seed",
    "wall_clock",
    "wall_ms",
]


# --- wall clock --------------------------------------------------------------------------------------


_walls: list[Callable[[], int]] = []
"""What was injected and not taken back; the last one counts."""
_wall: Callable[[], int] | None = None
"""That one; the system's clock when nothing was injected, which is asked for every message and so without a detour."""


def wall_ms() -> int:
    """Milliseconds since 1970 by the injected clock. For stamps only: never to measure how long something took."""
    return time.time_ns() // 1_000_000 if _wall is None else _wall()


@contextmanager
def wall_clock(clock: Callable[[], int]) -> Iterator[None]:
    """Inject `clock` for the time of a block. Blocks may end in any order."""
    global _wall
    _walls.append(clock)
    _wall = clock
    try:
        yield
    finally:
        _walls.remove(clock)
        _wall = _walls[-1] if _walls else None


# --- randomness --------------------------------------------------------------------------------------

_random = random.Random()
_is_repeatable = False


def random_source() -> random.Random:
    """The one source of chance: jitter, queue choice, ids. Not for secrets.

    The child of a fork has chances of its own, or all children of a server would do everything at the same moments.
    """
    return _random


def set_random_seed(seed: int | None) -> None:
    """Make the source repeatable, in children of forks too; None seeds it from the system again."""
    global _is_repeatable
    _is_repeatable = seed is not None
    _random.seed(seed)


def _seed_after_fork() -> None:
    if not _is_repeatable:
        _random.seed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_seed_after_fork)


# --- disk --------------------------------------------------------------------------------------------


class MappedView(Protocol):
    """A mapping of a whole file, by which its pages are kept in memory. Nothing is read through it.

    Touching a page that cannot be read (the disk is full or broken, or the file was cut) ends the process (SIGBUS).
    `File.pread` of the same page raises an error instead.
    """

    def lock_in_memory(self) -> None:
        """Keep the mapped pages in memory until the mapping is closed, and bring them there; OSError when refused."""
        ...

    def __len__(self) -> int:
        """Bytes mapped."""
        ...

    def close(self) -> None:
        """Give the mapping up."""
        ...


class File(Protocol):
    """An open file of the store. Reads and writes are positional; neither goes through a mapping."""

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`; OSError when not all could be written."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`; short at the end of the file."""
        ...

    def map(self) -> MappedView:
        """Map the file as long as it is now; OSError when there is no memory for it."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or grow (with zeros) to `size` bytes."""
        ...

    def clear(self, offset: int) -> bool:
        """Make everything from `offset` on zero, keeping the size. True when there was something else."""
        ...

    def fdatasync(self) -> None:
        """Return when the data has reached the disk. Blocks: services call it in a thread."""
        ...

    def fetch(self, offset: int, size: int) -> None:
        """Begin to bring a part into memory, without waiting for it; does nothing where the system knows no such."""
        ...

    def size(self) -> int:
        """Bytes in the file."""
        ...

    def close(self) -> None:
        """Close the file; its data may still be on its way to the disk. OSError when it is known not to get there."""
        ...


class Storage(Protocol):
    """A directory tree as the store sees it. Paths are "/"-joined and relative to the root. Raises OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; with `create` make the file (and its folders) when it is missing."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty when there is no such folder."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a folder."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """A whole small file."""
        ...

    def write_bytes_atomic(self, path: str, data: bytes | Sequence[bytes], *, backup: str = "") -> None:
        """Replace a whole small file: temporary file, fdatasync, rename, sync of the folder.

        Args:
            path: The file.
            data: What it holds from now on, or the pieces of that.
            backup: What the old file becomes, once the new one is whole on the disk; without it the old one goes.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Move within the tree, replacing the target."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a folder and those above it, and return when the folders that hold them have reached the disk."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return when the folder's entries have reached the disk."""
        ...

    def sync_tree(self, path: str) -> bool:
        """Return when all files and folders below a folder have reached the disk; False when each must be asked."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last changed, or a folder's entries were, ms since 1970; 0 where that is not known."""
        ...

    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on a file, made when missing. Returns the release; OSError when another holds it."""
        ...

    def lock_folder(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on a folder that is there, without leaving anything in it; otherwise as `lock`."""
        ...

    def usage(self, path: str = "") -> float:
        """Share of the disk in use that a folder lies on, or will once it is made: 0.0 to 1.0."""
        ...

    def space(self) -> tuple[int, int]:
        """Bytes of the disk that the root lies on: all of them, and those that are free. Zeros when there is none."""
        ...

    def describe(self, path: str) -> str:
        """The path as an operator would look for it, for error texts."""
        ...
