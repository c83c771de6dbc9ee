"""Steps: reads of the store that grow with what is there, as generators that yield after far less than a millisecond.

A server takes the steps a few at a time, between other work; a tool takes them all at once, with `finish`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from rocketpy.wire.steps import run_steps as finish

__all__ = ["Steps", "finish"]

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Yields between two steps, and returns what was asked for."""
