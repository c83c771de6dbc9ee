"""Our broker with a watch over the garbage collector: ``python -m benchmarks.store.watched FILE ARGUMENTS``.

When the broker ends, the file says of every collection when it began, how long it took and of which generation it was.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rocketpy_broker_sim.cli import broker


class Pause(NamedTuple):
    """One collection: when on the monotonic clock, for how many seconds, of which generation."""

    began: float
    seconds: float
    generation: int


class Watch:
    """Notes every collection of this process."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """As `gc.callbacks` calls it."""
        now = time.perf_counter()
        if phase == "start":
            self._began = now
        else:
            self.pauses.append(Pause(self._began, now - self._began, info["generation"]))


def read_pauses(path: Path) -> list[Pause]:
    """What a broker has left."""
    return [Pause(*each) for each in json.loads(path.read_text("ascii"))]


def main() -> int:
    """Run the broker until it is told to stop."""
    path, *arguments = sys.argv[1:]
    watch = Watch()
    gc.callbacks.append(watch)
    try:
        return broker.main(arguments)
    finally:
        gc.callbacks.remove(watch)
        Path(path).write_text(json.dumps(watch.pauses), "ascii")


if __name__ == "__main__":
    sys.exit(main())
