"""`await nursery.start(thing.run)`: how a nursery starts the objects of the trio surface, and ends them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rocketpy
from rocketpy.errors import NameServerUnreachableError, ServiceCrashedError
from rocketpy.message import Message
from rocketpy.results import LocalTransactionState
from rocketpy_broker_sim import LocalCluster
from tests.system.consuming import Recorder, World, world

KINDS = ("Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer", "MQClientInstance")


def make(kind: str, w: World) -> Any:
    group = () if kind == "MQClientInstance" else ("billing",)
    where: dict[str, Any] = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
    if kind == "TransactionProducer":
        where["checker"] = lambda message: LocalTransactionState.COMMIT
    return getattr(rocketpy, kind)(*group, **where)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_nursery_starts_and_ends_it(autojump_clock: MockClock, kind: str) -> None:
    async with world() as w:
        thing = make(kind, w)
        async with trio.open_nursery() as nursery:
            assert await nursery.start(thing.run) is thing
            assert "open" in repr(thing)
            nursery.cancel_scope.cancel()
        assert "closed" in repr(thing)


async def test_what_a_nursery_has_started_works(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        recorder = Recorder()
        consumer = w.consumer()
        consumer.subscribe("Orders", recorder)
        await nursery.start(consumer.run)
        await consumer.wait_assigned(10)
        producer = await nursery.start(make("Producer", w).run)
        await producer.send(Message("Orders", b"x"))
        await recorder.wait_count(1)
        nursery.cancel_scope.cancel()


async def test_a_start_that_fails_is_the_error_of_the_nursery_start(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.cluster.network.refuse(w.cluster.name_server_addresses)
        consumer = w.consumer(start_timeout=1)
        consumer.subscribe("Orders", Recorder())
        async with trio.open_nursery() as nursery:
            with pytest.raises(NameServerUnreachableError):
                await nursery.start(consumer.run)


async def test_a_crash_comes_out_of_the_nursery(autojump_clock: MockClock) -> None:
    async def bug() -> None:
        raise ZeroDivisionError("a bug")

    async def crash(w: World) -> None:
        async with trio.open_nursery() as nursery:
            client = await nursery.start(make("MQClientInstance", w).run)
            client.services.start_soon(bug)
            await trio.sleep_forever()

    async with world() as w:
        with pytest.raises(ExceptionGroup) as caught:
            await crash(w)
        assert caught.group_contains(ServiceCrashedError, depth=1)


async def test_a_nursery_starts_a_cluster(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        cluster = await nursery.start(LocalCluster(network="memory").run)
        producer = await nursery.start(
            rocketpy.Producer("shop", namesrv=cluster.name_server_addresses, network=cluster.network).run
        )
        await producer.create_topic("Orders")
        await producer.send(Message("Orders", b"x"))
        nursery.cancel_scope.cancel()
    assert not producer.is_open
