"""A file system that is really full: a tmpfs of a few megabytes, in a mount namespace of its own.

What is run there ends with its process, and so does the mount. Root needs nothing for it, and others a system that lets
them have user namespaces.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

__all__ = ["run_on_small_disk", "why_not"]

ROOT = Path(__file__).parents[2]


def run_on_small_disk(folder: Path, megabytes: int, program: str, timeout: float = 60) -> str:
    """Run `program` with a small disk on `folder`, and give what it printed; skip where no such disk can be had.

    It fails with what the program wrote to its standard error, or with the signal that ended it.
    """
    reason = why_not()
    if reason:
        pytest.skip(f"no tmpfs can be mounted here: {reason}")
    command = f'{_mount(folder, megabytes)} && exec "$@"'
    done = _run([*_alone(), "sh", "-c", command, "sh", sys.executable, "-c", program], timeout)
    assert done is not None
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr}"
    return done.stdout


@lru_cache(maxsize=1)
def why_not() -> str:
    """Why nobody can have such a disk on this machine; "" where it works."""
    with tempfile.TemporaryDirectory() as folder:
        tried = _run([*_alone(), "sh", "-c", _mount(Path(folder), 1)], 20)
    if tried is None:
        return "there is no unshare"
    return (tried.stderr.strip() or f"unshare ends with {tried.returncode}") if tried.returncode else ""


def _alone() -> list[str]:
    return ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


def _mount(folder: Path, megabytes: int) -> str:
    return f"mount -t tmpfs -o size={megabytes}m tmpfs '{folder}'"


def _run(command: list[str], timeout: float) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT)
    except FileNotFoundError:
        return None
