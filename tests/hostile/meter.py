"""What a server says about its own loop: how long its longest turn was, in processor time, and whose turn it was.

A turn is one step of one task: from the moment trio lets it run to the moment it gives the loop back. Counted is the
processor time of the thread, so that what else the machine does is not held against the server.

Collections of young objects count as any other work of the turn. A full collection, over all that the server holds, is
noted beside it: whose turn it falls into is chance, and nothing can divide it.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import trio

from tests.hostile.board import Board

_OLDEST = 2
"""The generation that a full collection goes over, with all younger ones."""
WORDS = ("longest", "collecting", "steps", "total")
"""The longest turn without full collections of garbage, the most that went into those in a turn, how many turns, and
the sum of them; in ns."""
LONGEST, COLLECTING, STEPS, TOTAL = range(4)


class Meter(trio.abc.Instrument):
    """Notes turns on a board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._words = board.words
        self._began = 0
        self._collected = 0
        self._collection_began = 0
        gc.callbacks.append(self._note_collection)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._collected = 0
        self._began = time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        spent = time.thread_time_ns() - self._began
        words = self._words
        words[STEPS] += 1
        words[TOTAL] += spent
        if self._collected > words[COLLECTING]:
            words[COLLECTING] = self._collected
        own = spent - self._collected
        if own > words[LONGEST]:
            words[LONGEST] = own
            self._board.line = task.name

    def _note_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] < _OLDEST:
            return
        if phase == "start":
            self._collection_began = time.thread_time_ns()
        else:
            self._collected += time.thread_time_ns() - self._collection_began
