"""What the other surfaces need of a consumer besides what users call; their code runs outside of its loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeVar

import attrs

from rocketpy.consumer.background import Background
from rocketpy.consumer.current import Current
from rocketpy.consumer.user_calls import UserCalls

__all__ = ["PullOutside", "PushOutside"]

C = TypeVar("C")
R = TypeVar("R", bound=Background)


@attrs.frozen(eq=False)
class PushOutside(Generic[C, R]):
    """For those of `PushConsumer`."""

    current: Current[R]
    """Its running part."""
    adopt: Callable[[C], None]
    """Takes over the subscriptions and pauses of another consumer, which this one replaces."""
    commit: Callable[[float | timedelta | None, bool], Awaitable[None]]
    """Does what `commit` does: its timeout, and whether the caller, in its own context, is waited for."""

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller is a listener or another function of the user's, for which closing waits."""
        return self.current.is_waited_for


@attrs.frozen(eq=False)
class PullOutside:
    """For those of `PullConsumer`."""

    calls: UserCalls
    """Calls `on_statistics`."""

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller is `on_statistics`, for which closing waits."""
        return self.calls.is_inside
