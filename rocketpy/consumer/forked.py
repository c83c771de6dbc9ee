"""Forks inside a listener: the child finishes that one call, and makes none of the calls that wait in its parent.

The child has a copy of the thread that ran the listener, and so of the calls that wait behind it: it would consume
messages that its parent consumes too, and report to a loop that does not run in the child. So the child ends where the
listener returns: with status 0, with the status of a SystemExit, or with 1 and the traceback of another exception. A
listener that ends the child itself (`os._exit`, `os.execv`, `multiprocessing`) never gets here. An async listener must
not await anything in the child, whose loop is a copy too.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from rocketpy.consumer.crew import Finished
from rocketpy.consumer.inside import current_owner
from rocketpy.consumer.listeners import Raised

__all__ = ["end_child"]


def end_child(error: BaseException | None) -> NoReturn:
    """End this process as if its program had ended, without running exit handlers, which are the parent's.

    Args:
        error: what the listener raised, None if it returned.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        status = 1
        with suppress(Exception):
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)


class _End(list[Any]):
    """Replaces the lists of ended calls in the child, and ends the child when the listener's call has ended."""

    def append(self, ended: Any) -> NoReturn:
        """End the child: `ended` is a call that succeeded, or a pair of a call and its result."""
        outcome = ended[1] if len(ended) == 2 else None  # a call has three parts
        end_child(outcome.error if isinstance(outcome, Raised) else None)


def _note_child() -> None:
    owner = current_owner()
    if isinstance(owner, Finished):
        owner.succeeded = _End()
        owner.others = _End()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_child)
