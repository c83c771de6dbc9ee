"""Which servers of this user run: a small locked file for each, so that `stop` finds them.

A server holds the lock of its file as long as it lives, however it ends; so a file whose lock is free is left over, and
a process id is never mistaken for that of another program. The files stand in XDG_RUNTIME_DIR, or in a directory of the
user's own among the temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rocketpy_broker_sim.cli.logs import log

__all__ = ["Running", "run_directory", "run_file", "running"]

_SUFFIX = ".run"


class Running(NamedTuple):
    """A server that runs."""

    pid: int
    """Id of its process."""
    name: str
    """What it calls itself, for messages."""
    address: str
    """Where it serves, as text."""
    path: Path
    """Its file, which it keeps locked while it runs."""

    def wait_ended(self) -> None:
        """Return when it has ended. Blocks."""
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)


def run_directory() -> Path:
    """Where the files stand."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "rocketpy" if runtime else Path(tempfile.gettempdir()) / f"rocketpy-{os.getuid()}"


@contextmanager
def run_file(role: str, name: str, address: str) -> Iterator[None]:
    """Be found as a server of a role for the time of a block.

    Where that is not possible the server runs all the same, and an operator is told.
    """
    path = None
    with contextlib.ExitStack() as stack:
        try:
            path = _write(role, {"pid": os.getpid(), "name": name, "address": address}, stack)
        except OSError as exc:
            # The directory is not asked for again: looking for one may be what failed.
            log.warning("`rocketpy-broker-sim stop` will not find this process: %s", exc)
        try:
            yield
        finally:
            if path is not None:
                path.unlink(missing_ok=True)


def _write(role: str, facts: dict[str, object], stack: contextlib.ExitStack) -> Path:
    directory = run_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_foreign(directory)
    path = directory / f"{role}-{os.getpid()}{_SUFFIX}"
    unfinished = path.with_suffix(".new")
    file = stack.enter_context(unfinished.open("w", encoding="utf-8"))
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    json.dump(facts, file)
    file.flush()
    # Named only now, so that all files in the directory are locked and complete.
    unfinished.rename(path)
    return path


def _refuse_foreign(directory: Path) -> None:
    """Refuse a directory that another user made, or may write to: its files would name our victims."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{directory} is not a directory that belongs to this user alone")


def running(role: str) -> list[Running]:
    """The servers of a role that run. Files that were left over are removed."""
    directory = run_directory()
    if not directory.is_dir():
        return []
    try:
        _refuse_foreign(directory)
    except PermissionError as exc:
        log.warning("running servers cannot be found: %s", exc)
        return []
    found = [_read(path) for path in sorted(directory.glob(f"{role}-*{_SUFFIX}"))]
    return [server for server in found if server is not None]


def _read(path: Path) -> Running | None:
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            facts = json.load(file)
            return Running(int(facts["pid"]), str(facts["name"]), str(facts["address"]), path)
        path.unlink(missing_ok=True)
    return None
