"""A bug in a background task of a consumer: everybody who waits for the consumer hears of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rocketpy.consumer.rebalancing import rebalance
from rocketpy.errors import ClientClosedError, ServiceCrashedError
from tests.surfaces.surface import SURFACES, call

BOTH = pytest.mark.parametrize("surface", [SURFACES["blocking"], SURFACES["asyncio"]], ids=["blocking", "asyncio"])


@pytest.fixture
def bug(monkeypatch, caplog):
    """The second look at who consumes what meets a bug."""
    look = rebalance.Rebalance.look

    async def buggy(self):
        if self.rounds:
            raise ValueError("a bug of ours")
        await look(self)

    monkeypatch.setattr(rebalance.Rebalance, "look", buggy)
    monkeypatch.setattr(rebalance, "FIRST_RETRY", 0.01)
    with caplog.at_level(logging.CRITICAL):
        yield


def made(surface, namesrv, group):
    consumer = surface.module.PushConsumer(f"{group}-{surface.name}", namesrv=namesrv, request_timeout=1.0)
    consumer.subscribe("Nowhere", print)  # so that there is a second look at once
    return consumer


async def closed(consumer):
    if hasattr(consumer, "aclose"):
        await consumer.aclose()
    else:
        consumer.close()


@BOTH
def test_run_forever_fails(surface, namesrv, bug):
    consumer = made(surface, namesrv, "forever")
    with pytest.raises(ServiceCrashedError, match="a bug of ours"):
        surface.run(lambda: call_it(consumer.run_forever))
    assert consumer.status().state == "closed"


@BOTH
def test_wait_assigned_fails_and_so_does_closing(surface, namesrv, bug):
    consumer = made(surface, namesrv, "assigned")

    async def main():
        await call(consumer.start())
        for _ in range(2):
            with pytest.raises(ServiceCrashedError, match="a bug of ours"):
                await call(consumer.wait_assigned(20))
        with pytest.raises(ServiceCrashedError, match="a bug of ours"):
            await closed(consumer)
        await closed(consumer)

    surface.run(main)


def test_all_who_wait_hear_of_it(namesrv, bug):
    surface = SURFACES["asyncio"]

    async def main():
        async with made(surface, namesrv, "all") as consumer:
            outcomes = await asyncio.gather(
                consumer.run_forever(), consumer.run_forever(), consumer.wait_assigned(20), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [ServiceCrashedError] * 3

    with pytest.raises(ServiceCrashedError):
        surface.run(main)


def test_a_shared_client_that_was_closed_is_no_crash_to_wait_for(namesrv):
    surface = SURFACES["asyncio"]

    async def main():
        client = surface.module.MQClientInstance(namesrv=namesrv)
        await client.start()
        async with surface.module.PushConsumer("sharing-closed", client=client, await_termination=0.1) as consumer:
            await client.aclose()
            with pytest.raises(ClientClosedError):
                await consumer.wait_assigned(20)

    surface.run(main)


async def call_it(function):
    await call(function())
