"""Locks that change while a queue is about to be taken, or is being given up: nothing hangs, nothing goes backwards."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import MockClock

from rocketpy.errors import ConnectionLostError
from rocketpy.message import MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer.brokers import PullBroker, queue, world
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
