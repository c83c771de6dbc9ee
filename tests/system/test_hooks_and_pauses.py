"""What comes and goes is told; what is paused waits; how many listeners run may change."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def member(w: World, listener: Any, **settings: Any) -> PushConsumer:
    consumer = w.consumer(consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders", listener)
    return consumer


class Told:
    """Hooks that remember."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def assigned(self, queues: tuple[MessageQueue, ...]) -> None:
        self.told.append(("assigned", [queue.queue_id for queue in queues]))

    async def revoked(self, queues: tuple[MessageQueue, ...]) -> None:
        await trio.sleep(0.5)
        self.told.append(("revoked", [queue.queue_id for queue in queues]))


# --- hooks -------------------------------------------------------------------------------------------------


async def test_hooks_hear_of_every_queue(autojump_clock: MockClock) -> None:
    async with world() as w:
        one, two = Told(), Told()
        hooks = {"on_assigned": one.assigned, "on_revoked": one.revoked}
        async with member(w, Recorder(), **hooks):
            assert one.told == [("assigned", [0, 1, 2, 3])]
            async with member(w, Recorder(), on_assigned=two.assigned, on_revoked=two.revoked):
                await wait_until(lambda: len(two.told) == 1)
                mine = two.told[0][1]
                await wait_until(lambda: one.told[1:] == [("revoked", mine)])
            assert two.told == [("assigned", mine), ("revoked", mine)]
            await wait_until(lambda: one.told[2:] == [("assigned", mine)])
        assert one.told[3:] == [("revoked", [0, 1, 2, 3])]


async def test_nothing_is_pulled_before_on_assigned_returns(autojump_clock: MockClock) -> None:
    async with world() as w:
        sent = await w.send(8)
        got, returned = Recorder(), []

        async def assigned(queues: tuple[MessageQueue, ...]) -> None:
            await trio.sleep(2)
            assert got.messages == []
            returned.append(trio.current_time())

        async with member(w, got, on_assigned=assigned):
            await got.wait_count(8)
        assert got.bodies == dict.fromkeys(sent, 1)
        assert min(got.times) >= returned[0]


@pytest.mark.parametrize("trouble", ["raises", "hangs"])
async def test_hooks_in_trouble_are_told_of_and_change_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    async def hook(queues: tuple[MessageQueue, ...]) -> None:
        if trouble == "raises":
            raise KeyError("no such thing")
        await trio.sleep_forever()

    async with world() as w:
        got = Recorder()
        began = trio.current_time()
        async with member(w, got, on_assigned=hook, on_revoked=hook) as consumer:
            await w.send(8)
            await got.wait_count(8)
            assert len(consumer.assignment) == 4
        assert trio.current_time() - began < 10
    told = [record for record in caplog.records if "on_assigned" in record.message or "on_revoked" in record.message]
    assert len(told) >= (2 if trouble == "raises" else 1)
    assert all(record.levelname == "ERROR" for record in told)


async def test_hooks_are_never_called_side_by_side(autojump_clock: MockClock) -> None:
    inside = 0

    async def hook(queues: tuple[MessageQueue, ...]) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await trio.sleep(0.5)
        inside -= 1

    async with world(brokers=2, topics=("Orders", "Bills")) as w:
        consumer = w.consumer(consume_from_where=FIRST, on_assigned=hook, on_revoked=hook)
        for topic in ("Orders", "Bills"):
            consumer.subscribe(topic, Recorder())
        async with consumer:
            await wait_until(lambda: len(consumer.assignment) == 16)
            await trio.sleep(5)
    assert inside == 0


async def test_a_commit_has_an_end(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        consumer = member(w, got)
        with pytest.raises(ClientClosedError):
            await consumer.commit()
        async with consumer:
            await w.send(4)
            await got.wait_count(4)
            await consumer.commit()
            with pytest.raises(RequestTimeoutError, match="the offsets of 5 queues of billing are not committed"):
                await consumer.commit(0)
        with pytest.raises(ClientClosedError):
            await consumer.commit()


# --- pauses ------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_PC3_what_is_paused_is_postponed_and_not_lost(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        async with member(w, got) as consumer:
            await trio.sleep(1)
            consumer.pause()
            await trio.sleep(1)
            sent = await w.send(40)
            await trio.sleep(300)  # longer than the watchdog waits
            assert got.messages == []
            assert {each.paused for queue, each in consumer.status().queues.items() if queue.topic == "Orders"} == {
                "pause() was called"
            }
            consumer.resume()
            await got.wait_count(40)
            assert {each.paused for each in consumer.status().queues.values()} == {None}
        assert got.bodies == dict.fromkeys(sent, 1)


async def test_a_topic_or_queues_alone_are_paused(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        orders, bills = Recorder(), Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", orders)
        consumer.subscribe("Bills", bills)
        consumer.pause("Orders")  # before the start it holds as well
        async with consumer:
            await w.send(8)
            await w.send(8, topic="Bills")
            await bills.wait_count(8)
            await trio.sleep(5)
            assert orders.messages == []
            first = MessageQueue("Orders", "broker-a", 0)
            consumer.pause(first)
            consumer.pause([first])
            consumer.resume("Orders")
            await orders.wait_count(8)  # resuming a topic resumes its queues
            consumer.pause([first])
            await trio.sleep(1)
            await w.send(8, start=8)
            await orders.wait_count(14)
            await trio.sleep(5)
            assert len(orders.messages) == 14
            consumer.resume(first)
            await orders.wait_count(16)


async def test_what_comes_later_is_paused_too(autojump_clock: MockClock) -> None:
    async with world() as w:
        one, two = Recorder(), Recorder()
        async with member(w, one) as first:
            first.pause("Orders")
            await trio.sleep(1)
            async with member(w, two):
                await trio.sleep(2)
            await wait_until(lambda: len(first.assignment) == 4)
            await w.send(8)
            await trio.sleep(60)
            assert one.messages == []
            first.resume("Orders")
            await one.wait_count(8)


@pytest.mark.parametrize("what", ["Nothing", 7, [7], object(), [MessageQueue("Orders", "broker-a", 0), "Orders"]])
async def test_what_cannot_be_paused_is_refused(autojump_clock: MockClock, what: Any) -> None:
    async with world() as w:
        consumer = member(w, Recorder())
        for steer in (consumer.pause, consumer.resume):
            with pytest.raises(ConfigError):
                steer(what)


# --- how many ------------------------------------------------------------------------------------------------


async def test_PC6_the_bound_of_a_topic_is_shared_by_its_queues(autojump_clock: MockClock) -> None:
    async def hang(message: MessageExt) -> None:
        await trio.sleep_forever()

    async with world(queues=4) as w:
        settings = {"pull_threshold_for_topic": 40, "pull_batch_size": 1, "await_termination": 0}
        async with member(w, hang, **settings) as one:
            await w.send(200)
            await wait_until(lambda: all(each.held_messages >= 11 for each in orders(one)), within=10)
            assert {each.held_messages for each in orders(one)} == {11}
            async with member(w, hang, **settings) as two:
                await wait_until(lambda: len(two.assignment) == 2)
                await trio.sleep(2)
                assert {each.held_messages for each in orders(two)} == {21}


def orders(consumer: PushConsumer) -> list[Any]:
    return [each for queue, each in consumer.status().queues.items() if queue.topic == "Orders"]


@pytest.mark.slow
async def test_more_and_fewer_listeners_while_it_runs(autojump_clock: MockClock) -> None:
    running = most = 0

    async def slow(message: MessageExt) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    async with world(queues=1) as w:
        consumer = member(w, slow, consume_thread_max=4)
        with pytest.raises(ClientClosedError):
            consumer.set_consume_thread_max(2)
        async with consumer:
            await w.send(400)
            await wait_until(lambda: most == 4)
            for number in (8, 1, 3, 40):
                consumer.set_consume_thread_max(number)
                await trio.sleep(1.5)
                most = running
                await trio.sleep(3.6)
                assert most == number
            for wrong in (0, 1_001, -1, True, 2.0, "4"):
                with pytest.raises(ConfigError):
                    consumer.set_consume_thread_max(wrong)  # type: ignore[arg-type]
