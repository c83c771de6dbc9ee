"""Has an application with several queries die where they store the marker of a micro-batch: Python and JVM, by SIGKILL.

Each query comes to a place of its own there, and waits until the others have come to theirs. `once_job` installs this
in its own process, and `DyingSource` in the workers that commit.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark_rocketmq import DefaultSource
from rocketpy.client.sends import sending
from rocketpy.spark.delivery.marker_log import MarkerLog

HOME, PIDS = "ONCE_HOME", "pids"
"""The environment variable with a folder, and the file there with the ids of the application's processes."""
BEFORE, ANSWERED, AFTER = "before", "answered", "after"
"""The places: the marker is not sent; the marker is stored, and the sender has not looked at the answer yet; it has."""
PLACES: Final[Mapping[str, str]] = {
    "Before": BEFORE,
    "Answered": ANSWERED,
    "After": AFTER,
    "After-in-foreachBatch": AFTER,
}
"""Where the query dies that writes to a topic."""
PATIENCE = 120.0
_real = MarkerLog.commit


def die_with_others(name: str) -> None:
    """Wait until each query is at its place, and kill the application, this process too."""
    home = Path(os.environ[HOME])
    (home / name).touch()
    until = time.monotonic() + PATIENCE
    while not all((home / each).exists() for each in PLACES):
        if time.monotonic() > until:
            raise TimeoutError(name)
        time.sleep(0.02)
    for pid in (home / PIDS).read_text("utf-8").split():
        with suppress(ProcessLookupError):  # another query has come first
            os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def commit(*arguments: Any) -> None:
    """Store a marker as far as the query gets."""
    name = arguments[1].writer.topic
    if PLACES[name] == BEFORE:
        die_with_others(name)
    if PLACES[name] == ANSWERED:
        for each in ("send_result", "quick_result"):  # what looks at an answer
            assert callable(getattr(sending, each))
            setattr(sending, each, partial(_die_at_answer, name))
    _real(*arguments)
    assert PLACES[name] == AFTER, "the answer was not looked at where this waits for it"
    die_with_others(name)


def _die_at_answer(name: str, *_arguments: Any) -> None:
    die_with_others(name)


def install() -> None:
    """Have the next marker of a micro-batch be the last thing that a query does."""
    if HOME in os.environ:
        MarkerLog.commit = commit  # type: ignore[assignment,method-assign]


class DyingSource(DefaultSource or object):  # type: ignore[misc]  # PySpark 3.5 has no data sources
    """The format whose commits die."""

    @classmethod
    def name(cls) -> str:
        """How it is named."""
        return "dying"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The writer of a stream, asked for in each process that commits."""
        install()
        return super().streamWriter(schema, overwrite)
