"""What a producer says while it closes and messages are still under way, so that no wait is silent."""

from __future__ import annotations

from rocketpy.logs import counted, get_logger

__all__ = ["PATIENCE", "say_waiting"]

logger = get_logger(__name__)

PATIENCE = 1.0
"""Seconds of waiting after which a producer says what it waits for."""


def say_waiting(group: str, messages: int, seconds: float | None, *, callbacks: int = 0) -> None:
    """Log what a producer that closes waits for; nothing if it waits for nothing.

    Args:
        group: that of the producer.
        messages: how many are not acknowledged.
        seconds: the longest wait from now on; None if each message has its own timeout.
        callbacks: how many done-callbacks have not run.
    """
    due = []
    if messages:
        due.append(f"{counted(messages, 'message')} that {'is' if messages == 1 else 'are'} not acknowledged")
    if callbacks:
        due.append(counted(callbacks, "done-callback"))
    if due:
        limit = "" if seconds is None else f"up to {seconds:.0f} s "
        logger.warning("closing the producer of group %s: waiting %sfor %s", group, limit, " and ".join(due))
