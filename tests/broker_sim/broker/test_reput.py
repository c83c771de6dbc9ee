"""Messages that could not be brought into their queues at once: tried every second until they are there."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.store import reput
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.running_flags import RunningFlag
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client


async def test_queues_that_refuse_for_a_while_are_tried_every_second(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send(body=b"first")
        with storage.failing("pwrite", under="consumequeue"):
            assert (await client.send(body=b"second")).code == 0
            await trio.sleep(10)
            assert (await client.send(body=b"third")).code == 0
            assert bodies(await client.pull()) == [b"first"]
            assert broker.store.dispatch_behind > 0
        answer = await client.pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND)
        assert bodies(answer) == [b"second", b"third"]
        assert (broker.store.dispatch_behind, broker.store.flags.bits) == (0, 0)


async def test_K2_after_thirty_tries_no_more_is_taken_until_there_is_room_again(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send(body=b"first")
        with storage.failing("pwrite", under="consumequeue"):
            await client.send(body=b"second")
            await trio.sleep(28.5)
            assert broker.store.flags.bits == 0
            await trio.sleep(1)
            assert broker.store.flags.has(RunningFlag.QUEUE_ERROR)
            assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
            await trio.sleep(100)
            assert bodies(await client.pull()) == [b"first"]
        await trio.sleep(1.1)
        assert broker.store.flags.bits == 0
        assert bodies(await client.pull()) == [b"first", b"second"]
        assert (await client.send(body=b"between")).code == 0
    async with broker_and_client(storage=storage) as (_, client):
        assert (await client.send(body=b"third")).code == 0
        assert bodies(await client.pull()) == [b"first", b"second", b"between", b"third"]


async def test_much_that_is_behind_is_caught_up_with_in_parts(autojump_clock: MockClock, monkeypatch) -> None:
    monkeypatch.setattr(reput, "MAX_WAITING", 3)
    monkeypatch.setattr(reput, "CHUNK", 5)
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        with storage.failing("pwrite", under="consumequeue"):
            for n in range(20):
                await client.send(body=b"%d" % n)
        await trio.sleep(1.5)
        assert bodies(await client.pull()) == [b"%d" % n for n in range(20)]
