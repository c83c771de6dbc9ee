"""Current: the running part of a consumer, for the parts of the consumer that are there before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from rocketpy.client.lifecycle import State
from rocketpy.consumer.background import Background
from rocketpy.errors import ConfigError, ServiceCrashedError

if TYPE_CHECKING:
    from rocketpy.client.lifecycle import Lifecycle

__all__ = ["Current"]

R = TypeVar("R", bound=Background)


class Current(Generic[R]):
    """The running part of one consumer, if it runs, and why it does not.

    Args:
        lifecycle: the state of the consumer.

    Attributes:
        lifecycle: the same.
        running: the running part, also of a consumer that has closed; None before the start.
    """

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle
        self.running: R | None = None

    def started(self, running: R) -> None:
        """The consumer runs from here on."""
        self.running = running

    def failed(self) -> None:
        """The start has failed."""
        self.running = None

    @property
    def shown(self) -> R | None:
        """What `status` and `assignment` show: nothing in the child of a fork, whose copy stands still."""
        return None if self.lifecycle.crossed_fork else self.running

    @property
    def crash(self) -> ServiceCrashedError | None:
        """The bug in the background that ended the consumer, None if none did."""
        return None if self.running is None else self.running.crash

    @property
    def has_ended(self) -> bool:
        """Whether it was closed in good order, or is being closed."""
        return self.crash is None and self.lifecycle.state in (State.CLOSING, State.CLOSED)

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller is a listener or another function of the user's that closing waits for. Thread-safe."""
        return self.running is not None and self.running.calls.is_inside

    def check_crash(self) -> None:
        """Refuse use if a bug in the background ended the consumer. Thread-safe.

        Raises:
            ServiceCrashedError: it did. A new error for each caller, so that tracebacks do not pile up on one.
        """
        if self.crash is not None:
            raise ServiceCrashedError(f"{self.lifecycle.what} has crashed: {self.crash}") from self.crash

    def check_running(self) -> R:
        """The running part.

        Raises:
            ClientClosedError: the consumer was not started.
        """
        if self.running is None:
            self.lifecycle.check_open()
            raise AssertionError("an open consumer runs")
        return self.running

    def check_may_commit(self) -> None:
        """Refuse to commit if commits wait for the caller. Thread-safe.

        Raises:
            ConfigError: the caller is `write` of the consumer's `offset_store`.
        """
        if self.running is not None and self.running.calls.is_writing:
            raise ConfigError(
                f"commit() in `write` of the offset store of {self.lifecycle.what} would wait for that same write: "
                "remove the call, because changed offsets are written anyway, or call it outside of `write`"
            )
