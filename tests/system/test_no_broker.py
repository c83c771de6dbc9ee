"""A new client after the only broker has gone: the error speaks of the broker, and not of the topic."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.errors import BrokerUnreachableError, RequestTimeoutError
from rocketpy.message import Message
from rocketpy.producer import Producer
from tests.system.consuming import World, wait_until, world

_SAID = r"no route to the topic Orders: no broker is registered with the name server \S+: the broker is down, has not"


def producer(w: World) -> Producer:
    return Producer("billing", namesrv=w.cluster.name_server_addresses, network=w.cluster.network)


async def test_a_producer_says_that_no_broker_is_registered(autojump_clock: MockClock) -> None:
    async with world() as w:
        await w.cluster.stop_broker(0)
        async with producer(w) as new:
            for call in (
                lambda: new.send(Message("Orders", b"x")),
                lambda: new.queues("Orders"),
            ):
                with pytest.raises(BrokerUnreachableError, match=_SAID):
                    await call()
            await w.cluster.start_broker(0)
            await new.send(Message("Orders", b"x"))


async def test_push_and_lite_consumers_have_it_in_their_status(autojump_clock: MockClock) -> None:
    async with world() as w:
        await w.cluster.stop_broker(0)
        push, lite = w.consumer(), w.lite("audit")
        push.subscribe("Orders", lambda message: None)
        lite.subscribe("Orders")
        async with push, lite:
            for consumer in (push, lite):
                await wait_until(lambda consumer=consumer: consumer.status().errors)
                (error,) = consumer.status().errors.values()
                assert isinstance(error, BrokerUnreachableError)
                assert "no broker is registered" in str(error)
            with pytest.raises(RequestTimeoutError, match=_SAID) as caught:
                await push.wait_assigned(5)
            assert "%RETRY%" not in str(caught.value)


async def test_a_pull_consumer_says_that_no_broker_is_registered(autojump_clock: MockClock) -> None:
    async with world() as w:
        await w.cluster.stop_broker(0)
        async with w.puller() as consumer:
            with pytest.raises(BrokerUnreachableError, match=_SAID):
                await consumer.fetch_message_queues("Orders")
