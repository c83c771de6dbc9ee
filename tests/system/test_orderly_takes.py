"""Locks that change while a queue is about to be taken, or is being given up: nothing hangs, nothing goes backwards."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import ConnectionLostError
from rocketpy.message import MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer.brokers import PullBroker, World, queue, world
from tests.consumer.helpers import role_of
from tests.system.consuming import Recorder, wait_until
from tests.system.test_orderly_locks import Locks, orderly


def cut(broker: PullBroker) -> None:
    """End the connections to a broker, from its side."""
    for connection in broker.clients:
        connection.abandon(ConnectionLostError("cut by the test", address=broker.address))


class Slow:
    """Answers the requests of one kind only when it is told to."""

    def __init__(self, broker: PullBroker, code: RequestCode, processor: Any, topic: str = "Orders") -> None:
        self.waiting: list[tuple[Connection, RemotingCommand]] = []
        self._processor = processor
        self._topic = topic
        self._open = False
        broker.on(code, self._process)

    def _process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if self._open or request.ext_fields["topic"] != self._topic:
            answer: RemotingCommand = self._processor(connection, request)
            return answer
        self.waiting.append((connection, request))
        return None

    def answer(self) -> None:
        """Answer what waits, and all that comes from now on at once."""
        self._open = True
        for connection, request in self.waiting:
            connection.send_answer(request, self._processor(connection, request))


async def test_OR2_a_lock_that_is_in_doubt_when_its_queue_should_be_taken_is_given_back(
    autojump_clock: MockClock,
) -> None:
    async with world("broker-a", "broker-b") as w:
        locks, hanging = map(Locks, w.brokers)
        async with w.consumer(orderly=True) as consumer:
            await trio.sleep(1)
            hanging.silent = True
            consumer.subscribe("Orders", Recorder())
            await wait_until(lambda: locks.times())
            await trio.sleep(0.5)
            locks.silent = True
            cut(w.broker)
            consumer.unsubscribe("Orders")
            await trio.sleep(10)
            locks.silent = hanging.silent = False
            await trio.sleep(10)
            known = len(locks.times())
            await trio.sleep(60)
            assert len(locks.times()) == known
            assert queue() in locks.unlocked
            assert queue() not in consumer.status().locks


async def test_OR2_a_queue_whose_lock_is_lost_while_its_offset_is_looked_up_is_taken_when_the_lock_is_free(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        locks, got = Locks(w.broker), Recorder()
        offsets = Slow(w.broker, RequestCode.QUERY_CONSUMER_OFFSET, w.broker.query_offset)
        w.broker.store(3)
        async with orderly(w, got, request_timeout=60.0) as consumer:
            await wait_until(lambda: offsets.waiting)
            locks.foreign = {queue()}
            await trio.sleep(25)
            assert len(locks.times()) == 2
            offsets.answer()
            await trio.sleep(5)
            assert consumer.assignment == ()
            locks.foreign = set()
            await trio.sleep(5)
            assert [message.queue_offset for message in got.messages] == [0, 1, 2]
            assert consumer.status().errors == {}


async def test_OR2_a_queue_that_is_given_up_is_not_committed_over_what_another_member_has_consumed(
    autojump_clock: MockClock,
) -> None:
    entered = trio.Event()

    async def listener(message: MessageExt) -> None:
        entered.set()
        await trio.sleep(80)

    async with world() as w:
        locks = Locks(w.broker)
        w.broker.store(8)
        async with orderly(w, listener) as consumer:
            await entered.wait()
            consumer.unsubscribe("Orders")
            await trio.sleep(5)
            locks.silent = True
            cut(w.broker)
            await trio.sleep(60)
            w.broker.offsets["Orders", 0] = 7  # another member had the queue meanwhile
            locks.silent = False
            commits = len(w.broker.commits)
            await trio.sleep(60)
            assert w.broker.offsets["Orders", 0] == 7
            assert [each for each in w.broker.commits[commits:] if each.topic == "Orders"] == []
            assert queue() not in consumer.status().locks


# --- resets of queues that are being given up ------------------------------------------------------------------


async def reset(w: World, consumer: PushConsumer, offset: int) -> None:
    """Have a broker ask for another offset."""
    assert consumer._running is not None
    await consumer._running.driven.note_reset("Orders", {queue(): offset}, sender=w.broker.address)
    await consumer._running.driven.carry_out_resets()


def give_up(w: World, consumer: PushConsumer) -> None:
    """Have the group's only queue of Orders go to another member."""
    w.broker.members = ["0", consumer.client.client_id]
    role_of(consumer).rebalance_now()


class Course:
    """What a broker was told of the queue, in order."""

    def __init__(self, w: World) -> None:
        self.told: list[object] = []
        self._locks = Locks(w.broker)
        self._broker = w.broker
        w.broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, self.commit)
        w.broker.on(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def commit(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        answer = self._broker.update_offset(connection, request)
        if self._broker.commits[-1].topic == "Orders":
            self.told.append(self._broker.commits[-1].commit_offset)
        return answer

    def unlock(self, connection: Connection, request: RemotingCommand) -> None:
        before = len(self._locks.unlocked)
        self._locks.unlock(connection, request)
        if queue() in self._locks.unlocked[before:]:
            self.told.append("unlock")


@pytest.mark.parametrize(("offset", "committed"), [(1, 1), (9, 4)], ids=["back", "beyond the end"])
async def test_OF4_a_reset_of_a_queue_that_waits_for_its_listener_to_be_given_up_is_committed(
    autojump_clock: MockClock, offset: int, committed: int
) -> None:
    entered, revoked = trio.Event(), []

    async def listener(message: MessageExt) -> None:
        if message.queue_offset == 3:
            entered.set()
            await trio.sleep(8)

    async with world() as w:
        course = Course(w)
        w.broker.store(4)
        kept: dict[str, Any] = {"on_revoked": revoked.append, "persist_consumer_offset_interval": 3600.0}
        async with orderly(w, listener, **kept) as consumer:
            await entered.wait()
            give_up(w, consumer)
            await trio.sleep(1)
            await reset(w, consumer, offset)
            await trio.sleep(20)
            assert [each for each in course.told if each != 3] == [committed, "unlock"]
            assert revoked == [(queue(),)]
            assert consumer.assignment == ()


async def test_OF4_a_reset_during_the_last_commit_of_a_queue_comes_after_it(autojump_clock: MockClock) -> None:
    async with world() as w:
        course = Course(w)
        slow = Slow(w.broker, RequestCode.UPDATE_CONSUMER_OFFSET, course.commit)
        w.broker.store(4)
        got = Recorder()
        async with orderly(w, got, persist_consumer_offset_interval=3600.0) as consumer:
            await got.wait_count(4)
            give_up(w, consumer)
            await wait_until(lambda: slow.waiting)
            await reset(w, consumer, 1)
            await trio.sleep(0.5)
            slow.answer()
            await trio.sleep(10)
            assert course.told == [4, 1, "unlock"]
