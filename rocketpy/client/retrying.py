"""Retry policies on our own seams: trio's clock and sleep, the injected random source.

The first attempt of anything runs bare; a policy is built only when it failed. What is worth another attempt is asked
of the error itself (`retriable`). tenacity's own stop and wait read the real clock and the global random source, and
must not be used.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from rocketpy.errors import RocketMQError
from rocketpy.seams import random_source

__all__ = ["full_jitter", "is_retriable", "no_wait", "retrying"]

Wait = Callable[[RetryCallState], float]


def is_retriable(error: BaseException) -> bool:
    """Whether the same call may succeed when it is made again."""
    return isinstance(error, RocketMQError) and error.retriable


def no_wait(state: RetryCallState) -> float:
    """Go on at once: the next attempt goes elsewhere."""
    return 0.0


def full_jitter(initial: float, maximum: float) -> Wait:
    """Wait between nothing and a bound that doubles with every attempt, so that many clients do not march in step."""

    def wait(state: RetryCallState) -> float:
        bound = min(maximum, initial * 2.0 ** min(state.attempt_number - 1, 32))
        return random_source().uniform(0, bound)

    return wait


def retrying(
    *,
    attempts: int,
    deadline: float,
    wait: Wait = no_wait,
    retry: Callable[[BaseException], bool] = is_retriable,
) -> AsyncRetrying:
    """A policy for what follows a first failure. The last error comes out as it is.

    Args:
        attempts: how many more there may be, at least one.
        deadline: no attempt begins after this, on trio's clock; a wait that would pass it ends the attempts.
        wait: how long to wait after a failure.
        retry: which errors are worth another attempt.
    """

    def stop(state: RetryCallState) -> bool:
        return state.attempt_number >= attempts or trio.current_time() + state.upcoming_sleep >= deadline

    return AsyncRetrying(sleep=trio.sleep, stop=stop, wait=wait, retry=retry_if_exception(retry), reraise=True)
