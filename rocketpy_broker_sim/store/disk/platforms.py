"""What differs between Linux, macOS and Windows below the store: the one place that asks what the system offers.

Every function takes the best there is and names what stands in for it; nothing here fails when it is imported. The
broker serves on Linux and macOS. Elsewhere a store can be opened and read, and written for tests.
"""

from __future__ import annotations

import errno
import mmap
import os
import platform
import re
import shutil
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rocketpy_broker_sim.store.disk.failure import opening

__all__ = [
    "OPEN_FLAGS",
    "close",
    "data_extents",
    "disk_usage",
    "lock_file",
    "lock_folder",
    "lock_pages",
    "max_open_files",
    "memory_size",
    "pread",
    "pwrite",
    "raise_max_open_files",
    "sync_data",
    "sync_folder",
    "sync_tree",
]

_GIBIBYTE = 1024**3
_ASSUMED_MEMORY = 8 * _GIBIBYTE
_ASSUMED_OPEN_FILES = 512

OPEN_FLAGS: int = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""For opening a file to read and write its bytes as they are. Children do not inherit it: Python sees to that, too.
Links in the place of files are refused: folders may be links, but a broker shall not write where a file points."""


def _module(name: str) -> Any:
    """A module that only some systems have; None on the others."""
    with suppress(ImportError):
        return __import__(name)
    return None


_fcntl = _module("fcntl")
_msvcrt = _module("msvcrt")
_resource = _module("resource")


# --- bytes at a position -----------------------------------------------------------------------------------

_seeking = allocate_lock()


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    """Windows has no positional read: seek, with nobody seeking in between."""
    with _seeking:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def _seek_and_write(descriptor: int, data: Any, offset: int) -> int:
    """Nor a positional write."""
    with _seeking:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data)


pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
"""``pread(descriptor, size, offset)``."""
pwrite: Callable[[int, Any, int], int] = getattr(os, "pwrite", _seek_and_write)
"""``pwrite(descriptor, data, offset)``: how many bytes were written."""


def data_extents(descriptor: int, offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file of `size` bytes has data from `offset` on; all of it where the file system cannot tell."""
    while offset < size:
        try:
            begin = os.lseek(descriptor, offset, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except AttributeError:  # Windows
            begin, end = offset, size
        except OSError as exc:
            if exc.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            begin, end = offset, size
        yield begin, end
        offset = end


# --- reaching the disk -------------------------------------------------------------------------------------


def _full_sync(descriptor: int) -> None:
    """On macOS fsync leaves the data in the drive's cache; asking for all of it is refused by some file systems."""
    try:
        _fcntl.fcntl(descriptor, _fcntl.F_FULLFSYNC)
    except OSError:
        os.fsync(descriptor)


def _data_sync() -> Callable[[int], None]:
    """What this system has to bring the data of a file to the disk."""
    if hasattr(_fcntl, "F_FULLFSYNC"):
        return _full_sync
    return getattr(os, "fdatasync", os.fsync)


sync_data: Callable[[int], None] = _data_sync()
"""``sync_data(descriptor)`` returns when the data of a file has reached the disk."""


def close(descriptor: int) -> None:
    """Close a descriptor by which nothing was written that the disk was not asked for: what it says changes nothing."""
    with suppress(OSError):
        os.close(descriptor)


def sync_folder(path: str | Path) -> None:
    """Return when the entries of a folder have reached the disk; Windows cannot be asked for it and keeps a journal."""
    directory: int | None = getattr(os, "O_DIRECTORY", None)
    if directory is None:
        return
    with opening():
        descriptor = os.open(path, os.O_RDONLY | directory)
    try:
        os.fsync(descriptor)
    finally:
        close(descriptor)


def sync_tree(path: str | Path) -> bool:
    """Return when everything on the file system of a folder has reached the disk; False where nobody says so.

    Linux tells of pages that could not be written since version 5.8.
    """
    syncfs = getattr(_libc(), "syncfs", None)
    if syncfs is None or not _is_linux_since(5, 8):
        return False
    import ctypes

    with opening():
        descriptor = os.open(path, os.O_RDONLY)
    try:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        close(descriptor)
    return True


def _is_linux_since(major: int, minor: int) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return platform.system() == "Linux" and numbers is not None and tuple(map(int, numbers.groups())) >= (major, minor)


def _libc() -> Any:
    """The C library of the process; None where there is none."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None


# --- locks -------------------------------------------------------------------------------------------------


def lock_file(descriptor: int) -> None:
    """Lock the first byte of a file as Java does: a record lock, or on Windows a locked range.

    Raises:
        OSError: Another process holds it; without either kind of lock nobody can, so nothing is locked.
    """
    if _fcntl is not None:
        _fcntl.lockf(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    elif _msvcrt is not None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)


def lock_folder(path: str | Path) -> Callable[[], None]:
    """Lock a folder itself, which leaves nothing in it, where the system and the file system know such locks.

    Returns:
        The release.

    Raises:
        BlockingIOError: Somebody holds it, in this process or another.
        OSError: It cannot be opened.
    """
    directory: int | None = getattr(os, "O_DIRECTORY", None)
    if directory is None or _fcntl is None:
        return _nothing
    descriptor = os.open(path, os.O_RDONLY | directory)
    try:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError as exc:
        close(descriptor)
        if exc.errno in (errno.EAGAIN, errno.EACCES):
            raise BlockingIOError(errno.EAGAIN, "locked by another broker", str(path)) from exc
        return _nothing  # a file system over a network that locks files alone

    def release() -> None:
        with suppress(OSError):
            _fcntl.flock(descriptor, _fcntl.LOCK_UN)  # children of a fork hold the same lock
        close(descriptor)

    return release


def _nothing() -> None:
    return None


def lock_pages(mapping: mmap.mmap) -> None:
    """Keep the pages of a mapping in memory until it is closed, and have them brought there.

    Raises:
        OSError: The system has no such call (ENOSYS), or its limit on locked memory is too low (ENOMEM, EPERM).
    """
    import ctypes

    library = _libc()
    mlock = getattr(library, "mlock", None)
    if library is None or mlock is None:
        raise OSError(errno.ENOSYS, "this system has no mlock")
    address, size = ctypes.c_void_p(_address(mapping)), ctypes.c_size_t(len(mapping))
    if mlock(address, size) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    # Not by ``mapping.madvise``, which lets no other thread run meanwhile; a refused advice is none the worse.
    library.madvise(address, size, ctypes.c_int(mmap.MADV_WILLNEED))


def _address(mapping: mmap.mmap) -> int:
    """Where a mapping begins. ctypes itself gives only that of what may be written, so the buffer is asked."""
    import ctypes

    class Buffer(ctypes.Structure):
        """Py_buffer of the interpreter's stable interface."""

        _fields_ = (
            ("buf", ctypes.c_void_p),
            ("obj", ctypes.py_object),
            ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t),
            ("readonly", ctypes.c_int),
            ("ndim", ctypes.c_int),
            ("format", ctypes.c_char_p),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("suboffsets", ctypes.c_void_p),
            ("internal", ctypes.c_void_p),
        )

    view = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapping), ctypes.byref(view), 0)
    address = int(view.buf)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address


def fetch(descriptor: int, offset: int, size: int) -> None:
    """Let the system begin to read a part of a file, where it takes such advice; a refused advice is none the worse."""
    with suppress(AttributeError, OSError):
        os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_WILLNEED)


# --- the machine -------------------------------------------------------------------------------------------


def max_open_files() -> int:
    """How many files the process may have open; what the runtime of Windows begins with where nothing says it."""
    if _resource is None:
        return _ASSUMED_OPEN_FILES
    limit = int(_resource.getrlimit(_resource.RLIMIT_NOFILE)[0])
    return limit if limit >= 0 else 2**31 - 1


def raise_max_open_files() -> None:
    """Let the process have as many files open as it may ask for, as a JVM does; where that is refused all stays."""
    if _resource is not None:
        most = _resource.getrlimit(_resource.RLIMIT_NOFILE)[1]
        with suppress(OSError, ValueError):
            _resource.setrlimit(_resource.RLIMIT_NOFILE, (most, most))


def memory_size() -> int:
    """Bytes of memory of the machine; 8 GiB where it cannot be asked."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _ASSUMED_MEMORY


def disk_usage(path: Path) -> float:
    """Share in use of what this process may have of the disk of a path, 0.0 to 1.0; as ``df`` says it."""
    disk = shutil.disk_usage(path)
    return disk.used / (disk.used + disk.free) if disk.used + disk.free else 0.0
