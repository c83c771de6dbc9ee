"""Tests of the asyncio service. They need no plugin; with pytest-asyncio or anyio the tests themselves are async."""

from __future__ import annotations

import asyncio

import pytest

from examples.testing.shop_asyncio import welcome
from rocketpy.aio import Message
from rocketpy_broker_sim import AsyncioLocalCluster


@pytest.mark.rocketmq(topics=["SignUps", "Greeted"])
def test_who_signs_up_is_greeted(rocketmq_asyncio: AsyncioLocalCluster) -> None:
    greeted: list[str] = []

    async def greet(name: str) -> None:
        greeted.append(name)

    async def main() -> None:
        async with welcome(greet, namesrv=rocketmq_asyncio.name_server_addresses):
            await rocketmq_asyncio.send(Message("SignUps", b"Ada"))
            [message] = await rocketmq_asyncio.wait_messages("Greeted")
            await rocketmq_asyncio.wait_consumed("welcome", "SignUps")
        assert message.keys == ("Ada",)

    asyncio.run(main())
    assert greeted == ["Ada"]
