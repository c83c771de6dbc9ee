"""Whether a run of pytest came to its end: a test that ends the process with status 0 would pass for a green run.

This is both halves. `dev` names a file to pytest, and loads this module there as a plugin, which touches that file at
the end. The variable with the name is taken out at once, so that no process that a test starts can answer for pytest.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.trouble import say

PLUGIN = ("-p", "tools.whole")
"""What pytest is given on its command line."""

VARIABLE = "ROCKETPY_TESTS_ENDED"
BROKEN_OFF = 1
"""The status of a run that ended too early, whatever it said itself."""

_file = os.environ.pop(VARIABLE, None)


def pytest_unconfigure() -> None:
    """Leave word that this is the end."""
    if _file is not None:
        Path(_file).touch()


def whole(run: Callable[[dict[str, str]], int]) -> int:
    """Return the status of pytest, which is never 0 where it did not come to its end.

    Args:
        run: Runs pytest with these variables on top of the others; returns its status.
    """
    with tempfile.TemporaryDirectory(prefix="rocketpy-") as folder:
        ended = Path(folder) / "ended"
        status = run({VARIABLE: str(ended)})
        if status or ended.exists():
            return status
    say("pytest did not come to its end: something ended its process with status 0, as os._exit(0) does.")
    say("The test that ran last did it, and no later one has run; `-v` names it.")
    return BROKEN_OFF
