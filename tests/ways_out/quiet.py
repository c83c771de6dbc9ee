"""What no program may say on standard error, however it ends."""

from __future__ import annotations

from tests.ways_out.zygote import Ended

_SIGNS = (
    "Exception ignored",
    "Exception in thread",
    "never retrieved",
    "was destroyed",
    "never awaited",
    "Fatal Python error",
    "Internal error",
)


def check_quiet(ended: Ended) -> None:
    """A program ends without a word about how it is made. The log may show what a listener has raised, indented."""
    loud = [line for line in ended.err if line.startswith("Traceback") or any(sign in line for sign in _SIGNS)]
    assert not loud, str(ended)
