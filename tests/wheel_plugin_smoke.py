"""Tests of a user, run by tests/test_wheel.py in an environment that holds the wheel and pytest with its plugins.

Not a test module of this tree. Which tests there are depends on the plugins that are installed, as with a user.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio.testing

import rocketpy
import rocketpy.sync
import rocketpy_broker_sim
from rocketpy import Message


def test_it_is_the_wheel() -> None:
    assert "site-packages" in Path(rocketpy_broker_sim.__file__ or "").parts


@pytest.mark.rocketmq(topics=["Smoke"])
def test_blocking(rocketmq: rocketpy_broker_sim.BlockingLocalCluster) -> None:
    with rocketpy.sync.Producer("smoke", namesrv=rocketmq.name_server_addresses) as producer:
        producer.send(Message("Smoke", b"one"))
    assert [message.body for message in rocketmq.messages("Smoke")] == [b"one"]


def test_plain_asyncio(rocketmq_asyncio: rocketpy_broker_sim.AsyncioLocalCluster) -> None:
    asyncio.run(use(rocketmq_asyncio))


async def use(cluster: rocketpy_broker_sim.AsyncioLocalCluster) -> None:
    await cluster.send(Message("Smoke", b"one"))
    assert [message.body for message in await cluster.wait_messages("Smoke")] == [b"one"]


if find_spec("pytest_asyncio"):

    @pytest.mark.asyncio
    async def test_pytest_asyncio(rocketmq_asyncio: rocketpy_broker_sim.AsyncioLocalCluster) -> None:
        await use(rocketmq_asyncio)


if find_spec("anyio") and find_spec("pytest_asyncio"):

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_anyio(rocketmq_asyncio: rocketpy_broker_sim.AsyncioLocalCluster, anyio_backend: str) -> None:
        await use(rocketmq_asyncio)

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["trio"])
    async def test_anyio_on_trio(rocketmq_trio: rocketpy_broker_sim.LocalCluster, anyio_backend: str) -> None:
        await rocketmq_trio.send(Message("Smoke", b"one"))
        assert len(await rocketmq_trio.wait_messages("Smoke")) == 1

    IN_VIRTUAL_TIME = ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", [IN_VIRTUAL_TIME])
    async def test_anyio_in_virtual_time(
        rocketmq_trio: rocketpy_broker_sim.LocalCluster, anyio_backend: object
    ) -> None:
        await rocketmq_trio.send(Message("Smoke", b"later", delay_level=14))
        assert len(await rocketmq_trio.wait_messages("Smoke", timeout=700)) == 1


if find_spec("pytest_trio"):

    @pytest.mark.trio
    async def test_pytest_trio(rocketmq_trio: rocketpy_broker_sim.LocalCluster) -> None:
        await rocketmq_trio.send(Message("Smoke", b"later", delay_level=14))
        assert len(await rocketmq_trio.wait_messages("Smoke", timeout=700)) == 1
