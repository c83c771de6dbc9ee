"""How long to wait before the next try: exponential, with full jitter, on our clock and from our source of chance.

Policies are tenacity's; its own clock, sleep and randomness are replaced, or virtual time would never end a retry.
A first try runs bare: only what follows a failure comes here.
"""

from __future__ import annotations

from collections.abc import Callable

import tenacity
import trio

from rocketpy.errors import RocketMQError
from rocketpy.seams import random_source

__all__ = ["FullJitter", "retrying"]

_MAX_DOUBLINGS = 62


class FullJitter(tenacity.wait.wait_base):
    """Somewhere between nothing and a ceiling that doubles from `initial` to `maximum` with each failure.

    The jitter is what keeps a thousand clients of a broker that restarts from coming back in the same moment.
    """

    def __init__(self, initial: float = 0.1, maximum: float = 30.0) -> None:
        self.initial = initial
        self.maximum = maximum

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Seconds to wait after the try that has just failed."""
        return self.after(retry_state.attempt_number)

    def after(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        return random_source().random() * self.ceiling(failures)

    def ceiling(self, failures: int) -> float:
        """The longest wait after that many failures."""
        return min(self.maximum, self.initial * 2.0 ** min(max(failures - 1, 0), _MAX_DOUBLINGS))


def _is_retriable(exc: BaseException) -> bool:
    return isinstance(exc, RocketMQError) and exc.retriable


def retrying(
    *,
    attempts: int,
    wait: tenacity.wait.wait_base | None = None,
    worth_it: Callable[[BaseException], bool] = _is_retriable,
) -> tenacity.AsyncRetrying:
    """A tenacity policy on trio's clock: up to `attempts` tries, of what `worth_it` says can succeed another time.

    The last error comes out as it is. The deadline of the whole is the caller's own: cancellation ends the waits.
    """
    return tenacity.AsyncRetrying(
        sleep=trio.sleep,
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait or FullJitter(),
        retry=tenacity.retry_if_exception(worth_it),
        reraise=True,
    )
