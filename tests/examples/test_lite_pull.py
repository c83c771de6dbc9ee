"""The example of polling in batches, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.waits("starts a Python, which serves itself")
def test_it_works_on_everything() -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.lite_pull"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "1000 messages done"
