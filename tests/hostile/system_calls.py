"""System calls that fail: those by which the store reaches its directory, as the module `os` offers them.

A call fails once or for a while, with a code or half done, when it is for a path below one folder. Everything above the
call is the real code of the real storage.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import io
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy_broker_sim.store.disk import platforms

__all__ = ["AFTER_A_FAILED_WRITE", "AT_START", "CALLS", "SHORT", "SystemCalls"]

SHORT = 0
"""In the place of a code: half of what was to be written is."""
_PATHS = {"open": os, "replace": os, "unlink": os, "rmdir": os, "mkdir": os, "listdir": os, "stat": os, "statvfs": os}
_DESCRIPTORS = {
    "pread": platforms,
    "pwrite": platforms,
    "sync_data": platforms,
    "fsync": os,
    "ftruncate": os,
    "fstat": os,
    "lseek": os,
    "close": os,
    "lockf": fcntl,
    "flock": fcntl,
}
_LIBRARY = ("syncfs", "mlock")
"""Of the C library itself, which has no folder to look at: of these all calls of the process fail."""
CALLS = {
    "open": (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR),
    "pread": (errno.EIO, errno.EINTR, errno.ENOMEM),
    "pwrite": (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR, errno.ENOMEM, SHORT),
    "ftruncate": (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR),
    "sync_data": (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR),
    "fsync": (errno.EIO, errno.EINTR, errno.ENOMEM),
    "replace": (errno.ENOSPC, errno.EDQUOT, errno.EIO),
    "unlink": (errno.EIO, errno.ENOMEM),
    "mkdir": (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM),
    "listdir": (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM),
    "stat": (errno.EIO, errno.ENOMEM),
    "rmdir": (errno.EIO,),
    "mmap": (errno.ENOMEM,),
    "mlock": (errno.ENOMEM, errno.EPERM, errno.EAGAIN),
    "close": (errno.EIO, errno.EINTR, errno.ENOSPC, errno.EDQUOT),
    "syncfs": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "statvfs": (errno.EIO, errno.ENOMEM, errno.EINTR),
    "fstat": (errno.EIO, errno.ENOMEM),
    "lseek": (errno.EIO, errno.EINVAL),
}
"""The calls that a broker makes while it runs, and with what each of them can fail."""
AT_START = {
    "read": (errno.EIO, errno.ENOMEM),
    "lockf": (errno.EIO, errno.ENOLCK, errno.EINTR),
    "flock": (errno.EIO, errno.ENOLCK, errno.EINTR),
}
"""Those that it makes only when it starts."""
AFTER_A_FAILED_WRITE = ("fstat", "lseek")
"""Those that it makes only to take back what was written by halves."""


class SystemCalls:
    """The calls of this process on one folder.

    Attributes:
        struck: How many calls have failed.
        strike: Called with the name of each call that is about to be made, for paths below the folder only; gives the
            code with which it fails, or None.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.struck = 0
        self.strike: Callable[[str, str], int | None] = lambda name, path: None
        self._halves: list[int] = []
        self._halved = ""
        self._folder = str(folder)
        for name, module in _PATHS.items():
            patch.setattr(module, name, self._with_path(name, getattr(module, name)))
        for name, module in _DESCRIPTORS.items():
            patch.setattr(module, name, self._with_descriptor(name, getattr(module, name)))
        library = ctypes.CDLL(None, use_errno=True)
        for name in _LIBRARY:
            setattr(library, name, self._of_library(name, getattr(library, name)))
        patch.setattr(platforms, "_libc", lambda: library)
        patch.setattr(mmap, "mmap", self._with_descriptor("mmap", mmap.mmap))
        patch.setattr(io, "open", self._whole_file(io.open))

    def fail(self, call: str, code: int, *, times: int | None = None, under: str = "") -> None:
        """Let a call fail from now on.

        Args:
            call: Its name.
            code: With what; SHORT to do half of it.
            times: How often; None for always.
            under: A folder below ours that alone is struck.
        """
        begun = self.struck
        folder = f"{self._folder}/{under}" if under else self._folder

        def strike(name: str, path: str) -> int | None:
            left = times is None or self.struck - begun < times
            return code if name == call and left and path.startswith(folder) else None

        self.strike = strike

    def halve_a_write(self, code: int, *, under: str) -> None:
        """Do half of the next write below a folder, and refuse the rest: what is there must be taken back."""
        self._halves = [SHORT, code]
        self._halved = f"{self._folder}/{under}"

    def heal(self) -> None:
        """Let all calls work."""
        self.strike = lambda name, path: None

    def _code(self, name: str, path: str) -> int | None:
        if not path.startswith(self._folder):
            return None
        if self._halves and name == "pwrite" and path.startswith(self._halved):
            return self._halves.pop(0)
        code = self.strike(name, path)
        if code is not None:
            self.struck += 1
        return code

    def _with_path(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any = ".", *args: Any, **more: Any) -> Any:
            code = self._code(name, os.fspath(path)) if isinstance(path, (str, Path)) else None
            if code is not None:
                raise OSError(code, os.strerror(code), path)
            return call(path, *args, **more)

        return wrapped

    def _with_descriptor(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(descriptor: int, *args: Any, **more: Any) -> Any:
            path = self._folder if name == "mmap" and descriptor < 0 else _path_of(descriptor)
            code = self._code(name, path)
            if code == SHORT and name == "pwrite":
                data, offset = args
                return call(descriptor, memoryview(data)[: (len(data) + 1) // 2], offset)
            if code is not None:
                if name == "close":
                    call(descriptor)  # whatever it says, the number is free
                raise OSError(code, os.strerror(code), path)
            return call(descriptor, *args, **more)

        return wrapped

    def _whole_file(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Small files are read whole: the interpreter itself opens and reads them."""

        def wrapped(path: Any, *args: Any, **more: Any) -> Any:
            code = None
            if isinstance(path, (str, Path)):
                code = self._code("open", os.fspath(path)) or self._code("read", os.fspath(path))
            if code is not None:
                raise OSError(code, os.strerror(code), path)
            return call(path, *args, **more)

        return wrapped

    def _of_library(self, name: str, call: Callable[..., int]) -> Callable[..., int]:
        def wrapped(*args: Any) -> int:
            code = self._code(name, self._folder)
            if code is None:
                return call(*args)
            ctypes.set_errno(code)
            return -1

        return wrapped


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
