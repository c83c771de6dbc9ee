"""What every error of rocketpy is, how it is copied and pickled, and the attempts of a send that it keeps."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

__all__ = ["RocketMQError", "SendAttempt", "unsent"]

ErrorType = TypeVar("ErrorType", bound="RocketMQError")


class RocketMQError(Exception):
    """Root of everything that rocketpy raises on purpose.

    Attributes:
        retriable: Whether the same call may succeed when it is made again, perhaps at another broker.
        nothing_sent: Whether it is certain that the request never left, so that it cannot have been carried out.
    """

    retriable: ClassVar[bool] = False
    nothing_sent: bool = False
    _tried: tuple[str, str | None, float, tuple[str, str, int]] | None = None
    """The attempt that it ended. Facts and not a `SendAttempt`, which would refer to the error and make a cycle."""

    @property
    def attempts(self) -> tuple[SendAttempt, ...]:
        """The attempts of the send that ended with this error, in order; empty where no broker was chosen."""
        if self._tried is None:
            return ()
        broker_name, address, elapsed, queue = self._tried
        return (SendAttempt(broker_name, address, self, elapsed, queue),)

    def note_attempt(
        self, broker_name: str, address: str | None, elapsed: float, queue: tuple[str, str, int]
    ) -> SendAttempt:
        """Keep which attempt of a send it ended; for rocketpy itself."""
        self._tried = broker_name, address, elapsed, queue
        return SendAttempt(broker_name, address, self, elapsed, queue)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle by what it is made of: the constructors ask for facts by their names."""
        return _restored, (type(self), self.args, self.__dict__)


class SendAttempt:
    """One attempt of a send: where it went, what came of it, how long it took.

    Attributes:
        broker_name: The broker that was chosen.
        address: Its address, or None when it had none.
        error: Why the attempt failed.
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
        """One line, with the beginning of the error."""
        where = self.broker_name if self.queue is None else f"queue {self.queue[2]} of {self.broker_name}"
        text = f"<SendAttempt at {where}, {self.address}, after {self.elapsed * 1000:.0f} ms: {self.error}"
        return f"{text}>" if len(text) < 110 else f"{text[:106]}...>"  # as all reprs, see `rocketpy.reprs`


def unsent(error: ErrorType) -> ErrorType:
    """Mark an error as one after which it is certain that nothing was sent."""
    error.nothing_sent = True
    return error


def rounded(seconds: float) -> str:
    """Seconds for the text of an error: what was left of a timeout, 2.99996, is 3."""
    return f"{seconds:.3g}" if seconds < 100 else f"{round(seconds, 0):g}"


def _restored(kind: type[RocketMQError], args: tuple[object, ...], facts: dict[str, Any]) -> RocketMQError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    if "__notes__" in facts:
        error.__notes__ = [*facts["__notes__"]]  # a copy gathers its own from here on
    return error
