"""The one error of the harness, and a readable end of a log.

It is an AssertionError, so that a server that does not start or a driver that hangs shows up as a
failed test with the log in its message, not as an error in the machinery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class InteropError(AssertionError):
    """Something on Apache's side did not do what the test needs."""


def tail(path: Path, lines: int = 40) -> str:
    """The last lines of a text file, or a word on why there are none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        return f"({path.name}: {exc.strerror})"
    kept = text.splitlines()[-lines:]
    return "\n".join(kept) if kept else f"({path.name} is empty)"


def section(title: str, text: str) -> str:
    """A titled block of a failure message."""
    return f"--- {title} ---\n{text}\n"
