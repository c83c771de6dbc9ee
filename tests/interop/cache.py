"""Where downloaded jars and compiled drivers stay between runs, and the lock around filling it.

`.cache/interop` in the tree unless ROCKETPY_INTEROP_CACHE names another directory. Two test runs may
share it: the one that fills a part holds that part's lock; the other one waits and then finds it filled.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVIRONMENT_KEY = "ROCKETPY_INTEROP_CACHE"


def cache_directory() -> Path:
    """The cache, created when it is not there yet."""
    chosen = os.environ.get(ENVIRONMENT_KEY)
    path = Path(chosen) if chosen else Path(__file__).resolve().parents[2] / ".cache" / "interop"
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of one part of the cache; the kernel drops it if we die."""
    with (cache_directory() / f"{name}.lock").open("a+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
