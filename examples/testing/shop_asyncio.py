"""A service in asyncio code: greets everyone who signs up, and publishes that it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from rocketpy.aio import Message, MessageExt, Producer, PushConsumer


@asynccontextmanager
async def welcome(greet: Callable[[str], Awaitable[None]], **settings: Any) -> AsyncIterator[None]:
    """Greet, for the time of a block."""
    async with Producer("welcome", **settings) as producer, PushConsumer("welcome", **settings) as consumer:

        async def on_sign_up(message: MessageExt) -> None:
            name = message.body.decode()
            await greet(name)
            await producer.send(Message("Greeted", message.body, keys=[name]))

        consumer.subscribe("SignUps", on_sign_up)
        yield
