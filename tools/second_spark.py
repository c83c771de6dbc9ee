"""The older line of PySpark, installed beside the environment that holds the newest.

Both are called `pyspark`, so one environment holds one; a folder of its own that stands first in PYTHONPATH needs no
second copy of all the rest. Its dependencies are named, not resolved: py4j is the only one that sinks need.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

EXPECTED = "ROCKETPY_TEST_PYSPARK"
"""The variable that tells the tests which line they run on, so that they notice when it is another."""

_STAMP = "installed.txt"


def install(place: Path, requirements: Sequence[str], pip: Callable[..., None]) -> None:
    """Make `place` hold `requirements`; does nothing when it already does.

    Args:
        place: The folder; what is in it is replaced as a whole.
        requirements: What to install, without anything that they depend on.
        pip: Runs pip with arguments; raises when it fails.
    """
    wanted = "\n".join(requirements)
    stamp = place / _STAMP
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    print(f"[setup] installing {', '.join(requirements)} into {place} (this takes a minute or two, once)", flush=True)
    unfinished = place.with_name(f"{place.name}.unfinished")
    for leftover in (unfinished, place):
        shutil.rmtree(leftover, ignore_errors=True)
    pip("install", "--no-deps", "--target", str(unfinished), *requirements)
    (unfinished / _STAMP).write_text(wanted, "utf-8")
    unfinished.rename(place)
