"""No system call by which the store reaches its directory is left out of those that are made to fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy_broker_sim.store import disk
from tests.hostile.system_calls import AT_START, CALLS

MODULES = {"os", "fcntl", "_fcntl", "mmap", "shutil", "library", "_libc()"}
FOLDER = Path(disk.__file__).parent
OTHER_NAMES = {"fdatasync": "sync_data", "disk_usage": "statvfs"}
"""What they are called in the table of faults."""
NO_CALLS = {"name", "strerror", "sysconf", "register_at_fork", "PathLike", "stat_result"}
"""What the modules have that asks the disk nothing."""
NEVER_FAIL = {"madvise", "posix_fadvise"}
"""Advice: what the system says to it is not looked at."""
OTHER_SYSTEMS = {"fcntl", "read", "write"}
"""What stands for `fdatasync`, `pread` and `pwrite` where there is none."""


def called(source: str) -> Iterator[str]:
    """Functions of the modules that a source names, as attributes or as texts for `getattr`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in MODULES:
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            module, name, *_ = node.args
            if ast.unparse(module) in MODULES and isinstance(name, ast.Constant):
                yield name.value


def test_every_call_of_the_seam_is_made_to_fail() -> None:
    names = {name for file in FOLDER.glob("*.py") for name in called(file.read_text("utf-8"))}
    functions = {OTHER_NAMES.get(name, name) for name in names if not name.isupper()}
    left_out = functions - CALLS.keys() - AT_START.keys() - NO_CALLS - NEVER_FAIL - OTHER_SYSTEMS
    assert not left_out, f"give {sorted(left_out)} codes in tests/hostile/system_calls.py"


@pytest.mark.parametrize("text", ["import os\nos.link('a', 'b')", "getattr(os, 'link')('a', 'b')"])
def test_a_new_call_is_found(text: str) -> None:
    assert set(called(text)) == {"link"}


@pytest.mark.slow
def test_nothing_above_the_seam_reaches_the_disk_by_itself() -> None:
    """Beside folders of the commands, which are no part of the store."""
    for file in [*FOLDER.parent.rglob("*.py"), *(FOLDER.parent.parent / "broker").rglob("*.py")]:
        if file.parent != FOLDER and "repair" not in file.parts and "inspect" not in file.parts:
            names = set(called(file.read_text("utf-8"))) & (CALLS.keys() | {"open", "fdatasync", "rename"})
            assert names <= {"mmap"}, f"{file} calls {names}: let the storage do it"
