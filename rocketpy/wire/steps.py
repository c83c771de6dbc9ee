"""Steps: work that grows with what it is given, as a generator that yields often and returns what it was asked for.

A server takes the steps a few at a time, between other work; who has the time takes them all at once, with `run_steps`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

__all__ = ["run_steps"]

T = TypeVar("T")


def run_steps(steps: Generator[object, None, T]) -> T:
    """Take all steps at once, where there is nobody to wait; what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return cast("T", stop.value)
