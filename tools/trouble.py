"""What is said to the one who types `./dev`: one line at once, or what has to be mended."""

from __future__ import annotations


class Trouble(Exception):
    """Something the user has to mend; the text says what was tried and what to do next."""


def say(text: str = "") -> None:
    """Print one line at once, so that it stands before the output of a child process."""
    print(text, flush=True)
