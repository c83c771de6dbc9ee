"""What the other surfaces need of a lite pull consumer besides what users call; their code runs outside of its loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from rocketpy.consumer.current import Current
from rocketpy.consumer.lite.access import Access
from rocketpy.consumer.lite.commits import Commits
from rocketpy.consumer.lite.polling import Polling
from rocketpy.consumer.lite.running import RunningLitePull

__all__ = ["LiteOutside"]

C = TypeVar("C")


@attrs.frozen(eq=False)
class LiteOutside(Generic[C]):
    """For those of `LitePullConsumer`."""

    current: Current[RunningLitePull]
    """Its running part."""
    access: Access
    """Tells whether it may be used, and which queues it has."""
    polling: Polling
    """Lends messages, and takes them back."""
    commits: Commits
    """Decides what is committed."""
    adopt: Callable[[C], None]
    """Takes over the subscriptions and callbacks of another consumer, which this one replaces."""

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller is a function of the user's for which closing waits."""
        return self.current.is_waited_for
