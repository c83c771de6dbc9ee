"""What runs, said while it runs."""

from __future__ import annotations

import itertools
import sys


class Progress:
    """One line on a terminal that says what runs; a line a round elsewhere."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = itertools.count(1)
        self._terminal = sys.stderr.isatty()
        self._round = 0

    def step(self, number: int, rounds: int, what: str) -> None:
        """The next step begins."""
        done = next(self._done)
        when = f"round {number} of {rounds}" if number else "before the rounds"
        if self._terminal:
            print(
                f"\r\x1b[K[{done}/{self._steps}] {when}: {what}",
                end="",
                file=sys.stderr,
                flush=True,
            )
        elif number != self._round:
            print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        self._round = number

    def end(self) -> None:
        """Nothing more to say."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
