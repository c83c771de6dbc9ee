"""Commands that fetch packages from PyPI, run again when they fail: no test is about a download that breaks off."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["fetching", "variables"]

TRIES = 3
_PATIENCE = {"PIP_RETRIES": "5", "PIP_DEFAULT_TIMEOUT": "30"}
"""Variables, since they reach the pip that `python -m build` runs too."""


def variables() -> dict[str, str]:
    """Those of this process, without what would lead to this tree."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}


def fetching(*command: str | Path, cwd: Path) -> None:
    """Run a command that fetches packages, up to three times.

    Raises:
        AssertionError: it failed each time; the message has what it printed the last time.
    """
    for _ in range(TRIES):
        ran = subprocess.run(command, cwd=cwd, env=variables() | _PATIENCE, capture_output=True, text=True)
        if ran.returncode == 0:
            return
    raise AssertionError(ran.stdout + ran.stderr)
