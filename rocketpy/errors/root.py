"""What every error of rocketpy is, and how it is copied and pickled."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

__all__ = ["RocketMQError", "unsent"]

ErrorType = TypeVar("ErrorType", bound="RocketMQError")


class RocketMQError(Exception):
    """Root of everything that rocketpy raises on purpose.

    Attributes:
        retriable: Whether the same call may succeed when it is made again, perhaps at another broker.
        nothing_sent: Whether it is certain that the request never left, so that it cannot have been carried out.
    """

    retriable: ClassVar[bool] = False
    nothing_sent: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle by what it is made of: the constructors ask for facts by their names."""
        return _restored, (type(self), self.args, self.__dict__)


def unsent(error: ErrorType) -> ErrorType:
    """Mark an error as one after which it is certain that nothing was sent."""
    error.nothing_sent = True
    return error


def _restored(kind: type[RocketMQError], args: tuple[object, ...], facts: dict[str, Any]) -> RocketMQError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    if "__notes__" in facts:
        error.__notes__ = [*facts["__notes__"]]  # a copy gathers its own from here on
    return error
