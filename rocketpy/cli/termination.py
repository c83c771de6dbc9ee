"""SIGTERM ends a command as Ctrl-C does: what is stored is said, and the terminal is left as it was found."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["has_come", "watch"]

_came: list[int] = []


def has_come() -> bool:
    """Whether the end of this command was asked for by SIGTERM."""
    return bool(_came)


def watch() -> None:
    """From now on, have SIGTERM do what Ctrl-C does, unless somebody else has decided what it does."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # A script has started this in the background, where Ctrl-C shall not reach it. Trio can be interrupted safely
        # only if it finds Python's own handler. So that one is set, and the signal is blocked instead of ignored.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _handle)


def _handle(number: int, frame: FrameType | None) -> None:
    _came.append(number)
    handler = signal.getsignal(signal.SIGINT)  # Trio's, while it runs: it knows when an exception may be raised
    if callable(handler):
        handler(signal.SIGINT, frame)
        return
    raise KeyboardInterrupt
