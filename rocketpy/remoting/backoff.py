"""How long to wait before the next attempt: exponential, with full jitter, on our clock and from our source of chance.

Policies are tenacity's; its own clock, sleep and randomness are replaced, or virtual time would never end a retry.
A first attempt runs bare: only what follows a failure comes here, and only then is tenacity loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import RocketMQError
from rocketpy.seams import random_source

if TYPE_CHECKING:
    import tenacity

__all__ = ["FullJitter", "HalfJitter", "Wait", "at_once", "retrying"]

_MAX_DOUBLINGS = 62

Wait = Callable[["tenacity.RetryCallState"], float]
"""Seconds to wait after the attempt that has just failed."""


def at_once(_: tenacity.RetryCallState) -> float:
    """No wait at all."""
    return 0.0


class FullJitter:
    """Somewhere between nothing and a ceiling that doubles from `initial` to `maximum` with each failure.

    The jitter is what keeps a thousand clients of a broker that restarts from coming back in the same moment.
    """

    def __init__(self, initial: float = 0.1, maximum: float = 30.0) -> None:
        self.initial = initial
        self.maximum = maximum

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Seconds to wait after the attempt that has just failed."""
        return self.after(retry_state.attempt_number)

    def after(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        return random_source().random() * self.ceiling(failures)

    def ceiling(self, failures: int) -> float:
        """The longest wait after that many failures."""
        return min(self.maximum, self.initial * 2.0 ** min(max(failures - 1, 0), _MAX_DOUBLINGS))


class HalfJitter(FullJitter):
    """The same, but never less than half of the ceiling: for a peer that has asked for a moment."""

    def after(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        return (0.5 + random_source().random() / 2) * self.ceiling(failures)


def _is_retriable(exc: BaseException) -> bool:
    return isinstance(exc, RocketMQError) and exc.retriable


def retrying(
    *,
    attempts: int,
    wait: Wait | None = None,
    worth_it: Callable[[BaseException], bool] = _is_retriable,
) -> tenacity.AsyncRetrying:
    """A tenacity policy on trio's clock: up to `attempts` attempts, of what `worth_it` says can succeed another time.

    The last error comes out as it is. The deadline of the whole is the caller's own: cancellation ends the waits.
    """
    import tenacity  # brings asyncio along, and most programs never need it

    return tenacity.AsyncRetrying(
        sleep=trio.sleep,
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait or FullJitter(),
        retry=tenacity.retry_if_exception(worth_it),
        reraise=True,
    )
