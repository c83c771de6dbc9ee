"""What is made once in a run of the tests, however many workers share it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

WORKER = "PYTEST_XDIST_WORKER"
"""Set in a process that is one of several: its temporary folder lies in that of the whole run."""


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker to ask fills by `make`; the others wait until it is done.

    Where `make` raises, the next worker that asks tries again in an empty folder.
    """
    own = factory.getbasetemp()
    run = own.parent if WORKER in os.environ else own
    target = run / name
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            draft = factory.mktemp(name)
            make(draft)
            draft.rename(target)
    return target
