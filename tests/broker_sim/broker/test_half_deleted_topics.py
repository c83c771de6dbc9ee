"""Topics whose files the disk did not let be deleted: what goes there is refused or waits, and the broker serves on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, send_fields
from tests.broker_sim.broker.transacting import half_properties, stored
from tests.virtual_time import loop_time


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


@asynccontextmanager
async def half_deleted(waiting: str = "") -> AsyncIterator[tuple[MemoryStorage, Broker, Client]]:
    """A broker whose topic T was deleted but for the files of its queues, which the disk still does not give up.

    Args:
        waiting: properties of messages that were sent there before, and are not delivered yet.
    """
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        for queue in (0, 1):
            for number in range(4):
                assert (await client.send(body=b"old%d" % number, queue_id=queue)).code == 0
        if waiting:
            assert (await client.send("Other", b"before", waiting)).code == 0
            assert (await client.send(body=b"waits", properties=waiting, queue_id=1)).code == 0
            assert (await client.send("Other", b"after", waiting)).code == 0
        with storage.failing("unlink", under="consumequeue/T"):
            answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            yield storage, broker, client


@pytest.mark.parametrize("waiting", ["DELAY\x011\x02", "TIMER_DELAY_SEC\x012\x02"])
async def test_a_message_that_comes_due_waits_until_the_disk_gives_way(autojump_clock: MockClock, waiting: str) -> None:
    async with half_deleted(waiting) as (storage, broker, client):
        await trio.sleep(60)
        assert (await client.send("Third")).code == 0
        assert broker.store.reads.max_offset("T", 1) == 0
        storage.fault = None
        await trio.sleep(15)
        assert [message.body for message in stored(broker, "T", 1)] == [b"waits"]
        assert [message.body for message in stored(broker, "Other")] == [b"before", b"after"]


async def test_a_message_for_a_new_topic_of_that_name_begins_an_empty_queue(autojump_clock: MockClock) -> None:
    async with half_deleted() as (storage, broker, client):
        for _ in range(3):
            assert (await client.send(queue_id=1)).code == ResponseCode.SYSTEM_ERROR
        storage.fault = None
        assert (await client.send(body=b"new", queue_id=1)).code == 0
        left = storage.clone()
    async with broker_and_client(storage=left) as (broker, _):
        assert [message.body for message in stored(broker, "T", 1)] == [b"new"]


@pytest.mark.parametrize("properties", ["DELAY\x011\x02", "TIMER_DELAY_SEC\x012\x02", half_properties()])
async def test_a_message_that_would_wait_is_refused_alone(autojump_clock: MockClock, properties: str) -> None:
    async with half_deleted() as (_, _, client):
        answers: list[int] = []

        async def send(topic: str) -> None:
            answers.append((await client.send(topic, properties=properties, queue_id=1)).code)

        async with trio.open_nursery() as nursery:
            for topic in ("A", "T", "B"):
                nursery.start_soon(send, topic)
        assert sorted(answers) == [0, 0, ResponseCode.SYSTEM_ERROR]


async def test_a_run_of_half_messages_is_answered_and_the_broker_serves_on(autojump_clock: MockClock) -> None:
    async with half_deleted() as (_, _, client):
        codes: list[int] = []

        async def send(number: int) -> None:
            answer = await client.send(properties=half_properties(f"U{number}"), queue_id=1, born_timestamp=number)
            codes.append(answer.code)

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(send, number)
        assert codes == [ResponseCode.SYSTEM_ERROR] * 12
        fields = send_fields("T", half_properties("U9"))
        client.connection.send_oneway(RemotingCommand.oneway(RequestCode.SEND_MESSAGE_V2, fields, b"x"))
        await wait_all_tasks_blocked()
        assert (await client.send("Other")).code == 0
