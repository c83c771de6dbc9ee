"""Waits for brokers that are away: what they have stored cannot be found, and would be stored twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from rocketpy.errors import RocketMQError

__all__ = ["wait_for_all"]

_BACK_WITHIN: Final = 30.0
"""Seconds that a broker may be away when messages have to be looked for; it may be starting again."""
_BACK_PAUSE: Final = 1.0
"""Seconds between two looks for it."""


def wait_for_all(topic: str, away: Callable[[], Collection[str]]) -> None:
    """Wait until all brokers are there that may have messages of an earlier attempt.

    Args:
        topic: where the messages are.
        away: tells at which of them the name servers know no queue of the topic now.

    Raises:
        RocketMQError: one of them has been away for half a minute.
    """
    until = time.monotonic() + _BACK_WITHIN
    while missing := sorted(away()):
        if time.monotonic() >= until:
            raise RocketMQError(
                f"the name servers know no queue of the topic {topic} at {', '.join(missing)} now, so messages that an "
                "earlier attempt has stored there cannot be found, and would be stored twice: start that broker again; "
                "if it is gone for good, or no longer has the topic, start the driver again"
            )
        threading.Event().wait(_BACK_PAUSE)
