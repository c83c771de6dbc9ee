"""Where `rocketpy` starts: Ctrl-C ends it without a traceback even while it is being loaded."""

from __future__ import annotations

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run `rocketpy`, and exit with its status."""
    try:
        from rocketpy.cli.main import main as run  # takes most of the time of a start
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()
