"""A request whose caller waits for the answer in its own thread."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.errors import RocketMQError
    from rocketpy.remoting.data.waiting import Answer

__all__ = ["Call"]


class Call:
    """A request whose caller waits for it in its own thread.

    Args:
        deadline: on the clock of the client.
        owner: the thread that comes for the answer by itself, and reads it then; None for one that waits all the time.
    """

    __slots__ = ("deadline", "lock", "owner", "result")

    def __init__(self, deadline: float, owner: int | None = None) -> None:
        self.deadline = deadline
        self.owner = owner
        self.lock = threading.Lock()
        self.lock.acquire()
        self.result: Answer | RocketMQError | None = None

    def complete(self, result: Answer | RocketMQError) -> None:
        """Wake the caller."""
        if self.result is None:
            self.result = result
        with suppress(RuntimeError):  # released already, by a call that was interrupted
            self.lock.release()
