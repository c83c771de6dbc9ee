"""Forks inside a listener: the child finishes that one call, and makes none of the calls that wait in its parent.

The child has a copy of the thread that ran the listener, and so of the calls that wait behind it: it would consume
messages that its parent consumes too, and report to a loop that does not run in the child. So the child ends where the
listener returns, as `rocketpy.forked` says. An async listener must not await anything in the child, whose loop is a
copy too. To import this module is enough.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from rocketpy.consumer.calls import Finished
from rocketpy.consumer.inside import current_owner
from rocketpy.consumer.listeners import Raised
from rocketpy.forked import end_child

__all__: list[str] = []


class _End(list[Any]):
    """Replaces the lists of ended calls in the child, and ends the child when the listener's call has ended."""

    def append(self, ended: Any) -> NoReturn:
        """End the child: `ended` is a call that succeeded, or a pair of a call and its result."""
        outcome = ended[1] if len(ended) == 2 else None  # a call has three parts
        end_child(outcome.error if isinstance(outcome, Raised) else None)


def _note_child() -> None:
    owner = current_owner()
    if isinstance(owner, Finished):
        owner.divert(_End())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_child)
