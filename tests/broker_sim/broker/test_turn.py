"""Answers leave after what they depend on is written, and not as success when it could not be."""

from __future__ import annotations

import errno

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client


def full(operation: str, path: str, size: int) -> None:
    if operation == "pwrite" and path.startswith("commitlog"):
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_refuses_sends_keeps_reads_and_comes_back(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        assert (await client.send(body=b"kept")).code == 0
        storage.fault = full
        codes: list[int] = []

        async def send() -> None:
            codes.append((await client.send(body=b"lost")).code)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(send)
        assert codes == [ResponseCode.SERVICE_NOT_AVAILABLE] * 10
        assert (await client.heartbeat("g", "T")).code == 0
        assert bodies(await client.pull()) == [b"kept"]
        storage.fault = None
        answer = await client.send(body=b"after")
        assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "1")
        assert bodies(await client.pull()) == [b"kept", b"after"]


async def test_a_full_disk_is_told_once_and_so_is_its_end(autojump_clock: MockClock, caplog) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        for _ in range(2):
            storage.fault = full
            for _ in range(5):
                await client.send(body=b"lost")
            storage.fault = None
            for _ in range(5):
                await client.send(body=b"kept")
    told = [record.levelname for record in caplog.records if record.name.endswith("broker.turn")]
    assert told == ["ERROR", "WARNING"] * 2


async def test_a_full_disk_touches_no_answer_that_put_nothing(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send(body=b"kept")
        storage.fault = full
        found: dict[str, int] = {}

        async def send() -> None:
            found["send"] = (await client.send()).code

        async def pull() -> None:
            found["pull"] = (await client.pull()).code

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(pull)
        assert found == {"send": ResponseCode.SERVICE_NOT_AVAILABLE, "pull": ResponseCode.SUCCESS}


async def test_a_held_pull_stays_held_while_nothing_is_stored(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send()
        answers = []

        async def pull() -> None:
            answers.append(await client.pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            storage.fault = full
            await client.send(body=b"lost")
            await wait_all_tasks_blocked()
            assert len(broker.pulls.waiters) == 1
            storage.fault = None
            await client.send(body=b"new")
        assert bodies(answers[0]) == [b"new"]


async def test_messages_that_could_not_be_dispatched_are_brought_in_later(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()

    def no_queue(operation: str, path: str, size: int) -> None:
        if operation == "pwrite" and path.startswith("consumequeue"):
            raise OSError(errno.ENOSPC, "No space left on device")

    async with broker_and_client(storage=storage) as (_, client):
        storage.fault = no_queue
        assert (await client.send(body=b"stored")).code == 0
        assert (await client.send(body=b"stored too")).code == 0
        assert bodies(await client.pull()) == []
        storage.fault = None
        await trio.sleep(3)
        assert bodies(await client.pull()) == [b"stored", b"stored too"]
        assert (await client.send()).code == 0
