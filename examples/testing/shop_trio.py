"""A service in trio code: reminds customers of what they have not paid."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from rocketpy import Message, MessageExt, Producer, PushConsumer

TEN_MINUTES = 14
"""A delay level of the broker."""


async def order(producer: Producer, number: int) -> None:
    """Take an order, and look after ten minutes whether it is paid."""
    await producer.send(Message("Reminders", str(number).encode(), delay_level=TEN_MINUTES))


@asynccontextmanager
async def reminders(remind: Callable[[int], Awaitable[None]], **settings: Any) -> AsyncIterator[PushConsumer]:
    """Remind of every order that is due, for the time of a block."""

    async def on_due(message: MessageExt) -> None:
        await remind(int(message.body))

    async with PushConsumer("reminders", **settings) as consumer:
        consumer.subscribe("Reminders", on_due)
        yield consumer
