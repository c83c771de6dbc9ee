"""Topics whose files the disk did not let be deleted: what goes there is refused or waits, and the broker serves on."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.timer import delivery
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, send_fields
from tests.broker_sim.broker.test_plain_runs import KEY, decode_answer, wire_to
from tests.broker_sim.broker.transacting import end_oneway, half_properties, send_half, stored
from tests.virtual_time import loop_time


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


@asynccontextmanager
async def half_deleted(
    waiting: str = "", network: MemoryNetwork | None = None
) -> AsyncIterator[tuple[MemoryStorage, Broker, Client]]:
    """A broker whose topic T was deleted but for the files of its queues, which the disk still does not give up.

    Args:
        waiting: properties of messages that were sent there before, and are not delivered yet.
        network: where the broker is.
    """
    storage = MemoryStorage()
    async with broker_and_client(network, storage) as (broker, client):
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


async def test_timed_messages_of_other_topics_do_not_wait(autojump_clock: MockClock) -> None:
    async with half_deleted("TIMER_DELAY_SEC\x012\x02") as (storage, broker, client):
        assert (await client.send("Other", b"later", "TIMER_DELAY_SEC\x018\x02")).code == 0
        await trio.sleep(10)
        assert [message.body for message in stored(broker, "Other")] == [b"before", b"after", b"later"]
        assert broker.timers.service.dequeue.delivered == 3
        assert broker.store.reads.max_offset("T", 1) == 0
        storage.fault = None
        await trio.sleep(15)
        assert [message.body for message in stored(broker, "T", 1)] == [b"waits"]
        assert (broker.timers.metrics.count("T"), broker.timers.metrics.count("Other")) == (0, 0)


async def test_more_queues_that_cannot_be_made_than_are_remembered_are_tried_sooner(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_MOST_CLOSED", 1)
    timed = "TIMER_DELAY_SEC\x012\x02"
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        for queue in (0, 1):
            assert (await client.send(body=b"old", queue_id=queue)).code == 0
            assert (await client.send(body=b"waits", properties=timed, queue_id=queue)).code == 0
        assert (await client.send("Other", b"goes on", timed)).code == 0
        with storage.failing("unlink", under="consumequeue/T"):
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            await trio.sleep(30)
            assert [message.body for message in stored(broker, "Other")] == [b"goes on"]
        await trio.sleep(15)
        for queue in (0, 1):
            assert [message.body for message in stored(broker, "T", queue)] == [b"waits"]


async def test_timed_messages_for_a_queue_that_cannot_be_made_stay_in_order(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        assert (await client.send(body=b"old")).code == 0
        for seconds in (7, 2, 3, 4, 2, 2, 2, 5, 6, 2):
            assert (await client.send(body=b"%d" % seconds, properties=f"TIMER_DELAY_SEC\x01{seconds}\x02")).code == 0
        await trio.sleep(1)
        with storage.failing("unlink", under="consumequeue/T"):
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            caplog.clear()
            await trio.sleep(20)
        assert len([record for record in caplog.records if "no message can be put into T" in record.message]) == 5
        await trio.sleep(15)
        assert [message.body for message in stored(broker, "T")] == [b"%d" % n for n in (2, 2, 2, 2, 2, 3, 4, 5, 6, 7)]


async def test_a_timed_message_that_was_put_off_is_delivered_once_after_a_restart(autojump_clock: MockClock) -> None:
    async with half_deleted("TIMER_DELAY_SEC\x012\x02") as (storage, broker, _):
        await trio.sleep(10)
        assert broker.timers.metrics.count("T") == 1
    storage.fault = None
    async with broker_and_client(storage=storage) as (broker, _):
        await trio.sleep(15)
        assert [message.body for message in stored(broker, "T", 1)][-1:] == [b"waits"]
        assert [message.body for message in stored(broker, "Other")] == [b"before", b"after"]
        assert broker.timers.metrics.count("T") == 0


@pytest.mark.parametrize("restarts", [1, 2])
async def test_what_was_delivered_while_an_older_timed_message_waits_is_not_delivered_again(
    autojump_clock: MockClock, restarts: int
) -> None:
    expected = [b"before", b"after", *(b"%d" % delay for delay in range(5, 9))]
    async with half_deleted("TIMER_DELAY_SEC\x012\x02") as (storage, broker, client):
        for delay in range(5, 9):
            assert (await client.send("Other", b"%d" % delay, f"TIMER_DELAY_SEC\x01{delay}\x02")).code == 0
        await trio.sleep(12)
        assert [message.body for message in stored(broker, "Other")] == expected
    for restart in range(1, restarts + 1):
        if restart == restarts:
            storage.fault = None
        async with broker_and_client(storage=storage) as (broker, _):
            await trio.sleep(15)
            assert [message.body for message in stored(broker, "Other")] == expected
    assert [message.body for message in stored(broker, "T", 1)][-1:] == [b"waits"]
    assert broker.timers.metrics.count("Other") == 0


async def test_a_timed_message_that_is_due_at_once_does_not_hold_up_others(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, timer_stop_enqueue=True) as (broker, client):
        assert (await client.send(body=b"old")).code == 0
        for topic, delay in (("T", 300), ("Other", 300), ("Other", 1500)):
            assert (await client.send(topic, b"%d" % delay, f"TIMER_DELAY_MS\x01{delay}\x02")).code == 0
        with storage.failing("unlink", under="consumequeue/T"):
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            broker.config.store.timer_stop_enqueue = False
            await trio.sleep(5)
            assert [message.body for message in stored(broker, "Other")] == [b"300", b"1500"]
            assert broker.timers.metrics.count("T") == 1
        await trio.sleep(15)
        assert [message.body for message in stored(broker, "T")] == [b"300"]
        assert broker.timers.metrics.count("T") == 0


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


@pytest.mark.parametrize("properties", [KEY, half_properties("U{}")])
async def test_sends_to_other_topics_in_one_read_are_answered_as_they_are_stored(
    autojump_clock: MockClock, properties: str
) -> None:
    network = MemoryNetwork()

    def sends(first: int) -> list[RemotingCommand]:
        return [
            RemotingCommand(
                RequestCode.SEND_MESSAGE_V2,
                send_fields(topic, properties.format(number), queue_id=1),
                b"%d" % number,
                number,
            )
            for number, topic in enumerate(("U", "T", "V"), first)
        ]

    async with half_deleted(network=network) as (_, broker, _):
        wire = await wire_to(network, broker)
        for send in sends(10):  # makes the topics and shows the layouts
            await wire.ask(send)
        answers = await wire.ask(*sends(20))
        assert [decode_answer(answers[number]).code for number in (20, 21, 22)] == [0, ResponseCode.SYSTEM_ERROR, 0]
        if properties is KEY:
            assert [message.body for message in stored(broker, "U", 1)] == [b"10", b"20"]
            assert [message.body for message in stored(broker, "V", 1)] == [b"12", b"22"]


async def test_commits_for_other_topics_in_one_read_are_carried_out(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        end_oneway(client, await send_half(client, "U0"))  # shows the layout, and makes the queue
        await wait_all_tasks_blocked()
        halves = [await send_half(client, topic, topic=topic) for topic in ("T", "U", "V")]
        with storage.failing("unlink", under="consumequeue/T"):
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            for half in halves:
                end_oneway(client, half)
            await wait_all_tasks_blocked()
            assert [len(stored(broker, topic)) for topic in ("T", "U", "V")] == [0, 1, 1]
            assert broker.transactions.ledger.commits == 3


async def test_a_send_that_the_disk_refuses_is_no_internal_error(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with half_deleted() as (_, _, client):
        caplog.clear()
        answer = await client.send(queue_id=1)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "the message was not stored" in (answer.remark or "")
        (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert record.exc_info is None
