"""Runnable: what the objects of the trio surface have in common that are opened with `async with`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import trio

from rocketpy.client.reopening import AsyncReopenable

__all__ = ["Runnable"]


class Runnable(AsyncReopenable):
    """Base class of producers, consumers and clients that a nursery can start."""

    if TYPE_CHECKING:

        async def __aenter__(self) -> Self:
            """Open it."""
            ...

        async def __aexit__(self, *_: Any) -> bool | None:
            """Close it."""
            ...

    async def run(self, *, task_status: trio.TaskStatus[Self] = trio.TASK_STATUS_IGNORED) -> None:
        """Open it, and keep it open until this is cancelled: ``producer = await nursery.start(producer.run)``.

        `nursery.start` returns the object when it is open. Cancelling the nursery closes it, as a cancellation closes
        the block of `async with`: sends that other tasks have under way are not waited for.

        Raises:
            RocketMQError: as entering with `async with` does; and ServiceCrashedError if a bug in the background
                stopped it.
        """
        async with self:
            task_status.started(self)
            await trio.sleep_forever()

    if not TYPE_CHECKING:  # type checkers say it by themselves

        def __getattr__(self, name: str) -> NoReturn:
            """Tell a caller of the methods of the other surfaces what to do on trio."""
            kind = type(self).__name__
            text = f"{kind!r} object has no attribute {name!r}"
            if name in _ELSEWHERE:
                text += (
                    f": on trio use `async with`, or `await nursery.start(it.run)`; {name}() is a method of "
                    + " and ".join(f"rocketpy.{surface}.{kind}" for surface in _ELSEWHERE[name])
                )
            raise AttributeError(text, name=name, obj=self)


_ELSEWHERE = {"start": ("aio", "sync"), "close": ("sync",), "aclose": ("aio",)}
