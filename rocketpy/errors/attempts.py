"""One try of a send, as errors tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.errors.root import RocketMQError

__all__ = ["SendAttempt"]


class SendAttempt:
    """One try of a send: where it went, what came of it, how long it took.

    Attributes:
        broker_name: The broker that was chosen.
        address: Its address, or None when it had none.
        error: Why the try failed.
        elapsed: Seconds it took.
        queue: The MessageQueue that was chosen.
    """

    __slots__ = ("address", "broker_name", "elapsed", "error", "queue")

    def __init__(
        self,
        broker_name: str,
        address: str | None,
        error: RocketMQError,
        elapsed: float,
        queue: tuple[str, str, int] | None = None,
    ) -> None:
        self.broker_name = broker_name
        self.address = address
        self.error = error
        self.elapsed = elapsed
        self.queue = queue

    def __repr__(self) -> str:
        """One line for a log."""
        where = self.broker_name if self.queue is None else f"queue {self.queue[2]} of {self.broker_name}"
        return f"<{where} at {self.address} after {self.elapsed * 1000:.0f} ms: {self.error}>"
