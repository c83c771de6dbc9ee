"""A real broker outlives a machine that is out of descriptors or of room, and serves again without a restart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.small_disk import ROOT, run_on_small_disk

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's prlimit"),
    pytest.mark.slow,
]
MODES = pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])


def program(name: str, folder: Path, mode: str) -> str:
    return f"from tests.hostile.machine import {name}; {name}({str(folder)!r}, {mode!r})"


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("name", ["descriptors", "file_size"])
def test_a_broker_outlives_a_limit_that_is_met_for_some_seconds(tmp_path: Path, name: str, mode: str) -> None:
    """Rights are not needed: peers take all descriptors, or the system lets no file be written."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [sys.executable, "-c", program(name, folder, mode)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@MODES
@pytest.mark.small_disk
def test_a_broker_outlives_a_disk_that_is_full_for_some_seconds(tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    run_on_small_disk(folder, 32, program("full_disk", folder, mode), timeout=120)
