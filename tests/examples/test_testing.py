"""Runs examples/testing, the tests that the documentation shows, as their user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "examples" / "testing"


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(FOLDER.glob("test_*.py")), ids=lambda file: file.name)
def test_examples(file: Path, tmp_path: Path) -> None:
    plugin = ("-p", "rocketpy_broker_sim.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:randomly")
    command = [sys.executable, "-m", "pytest", *plugin, "-q", file]
    ran = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "passed" in ran.stdout
    assert "skipped" not in ran.stdout
