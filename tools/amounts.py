"""Amounts on a command line: argparse refuses those with which there would be nothing to do."""

from __future__ import annotations

import argparse
import math


def whole_number(text: str) -> int:
    """Return a number from 1 on."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def seconds(text: str) -> float:
    """Return a time that passes, and ends."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number
