"""Asking other programs who they are, without trouble where they are not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE = 10.0
"""Seconds that an interpreter has to answer."""


def version_of(*command: str) -> str | None:
    """Return the first line that names a version when `command` runs, or None when it cannot."""
    if shutil.which(command[0]) is None:
        return None
    ran = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout + ran.stderr).splitlines() if line]
    return None if ran.returncode else next((line for line in lines if re.search(r"\d\.\d", line)), "?")


def json_of(python: Path | str, code: str, *, cwd: Path | None = None, options: Sequence[str] = ()) -> Any:
    """Return what `code`, run by another interpreter, prints as JSON; None where it cannot run, or does not answer."""
    command = [str(python), *options, "-c", code]
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, timeout=PATIENCE
        )
        return json.loads(ran.stdout) if ran.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
