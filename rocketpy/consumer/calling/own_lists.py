"""Lists of messages for the application: a function that takes them may change its list as it likes.

The list of a call says which messages are done or come again, so nobody else may have it. Java's listeners get a list
that cannot be changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketpy.consumer.listeners import is_async_listener

__all__ = ["with_own_list"]


def with_own_list(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same kind, plain or async, that passes a copy of its first argument, a list, to `function`."""
    if is_async_listener(function):

        async def waiting(messages: list[Any], *more: object) -> Any:
            return await function(messages[:], *more)

        return waiting

    def plain(messages: list[Any], *more: object) -> Any:
        return function(messages[:], *more)

    return plain
