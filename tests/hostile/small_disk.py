"""A file system that is really full: a tmpfs of a few megabytes, in a mount namespace of its own.

What is run there ends with its process, and so does the mount. Root needs nothing for it, and others a system that lets
them have user namespaces.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["run_on_small_disk"]

ROOT = Path(__file__).parents[2]


def run_on_small_disk(folder: Path, megabytes: int, program: str, timeout: float = 60) -> str:
    """Run `program` with a small disk on `folder`, and give what it printed; skip where no such disk can be had.

    It fails with what the program wrote to its standard error, or with the signal that ended it.
    """
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size={megabytes}m tmpfs '{folder}'"
    tried = _run([*alone, "sh", "-c", mount], timeout)
    if tried is None or tried.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {'there is no unshare' if tried is None else tried.stderr.strip()}")
    done = _run([*alone, "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", program], timeout)
    assert done is not None
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr}"
    return done.stdout


def _run(command: list[str], timeout: float) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT)
    except FileNotFoundError:
        return None
