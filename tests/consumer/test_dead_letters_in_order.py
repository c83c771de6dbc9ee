"""What an orderly consumer sends to the dead-letter queue is not consumed by the next owner of its queue as well."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer.brokers import PullBroker, world
from tests.system.consuming import Recorder, wait_until
from tests.system.test_orderly_locks import Locks

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Parked:
    """Holds the messages that a broker gets until it is told to take them."""

    def __init__(self, broker: PullBroker) -> None:
        self._send = broker.send
        self.waiting: list[tuple[Connection, RemotingCommand]] = []
        broker.on(RequestCode.SEND_MESSAGE_V2, self.park)

    def park(self, connection: Connection, request: RemotingCommand) -> None:
        self.waiting.append((connection, request))

    def take(self) -> None:
        waiting, self.waiting = self.waiting, []
        for connection, request in waiting:
            connection.send_answer(request, self._send(connection, request))


def fails(message: MessageExt) -> None:
    raise ValueError(message.queue_offset)


async def test_a_listener_that_replaces_one_does_not_get_a_message_that_becomes_a_dead_letter(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        locks, parked = Locks(w.broker), Parked(w.broker)
        w.broker.store(3)
        consumer = w.consumer(orderly=True, consume_from_where=FIRST, max_reconsume_times=0)
        consumer.subscribe("Orders", fails)
        async with consumer:
            await wait_until(lambda: parked.waiting)
            got = Recorder()
            consumer.subscribe("Orders", got)
            await trio.sleep(2)
            assert locks.unlocked == []
            parked.take()
            await got.wait_count(2)
            await trio.sleep(10)
            assert [message.queue_offset for message in got.messages] == [1, 2]
            assert len(w.broker.sent) == 1
        assert w.broker.offsets["Orders", 0] == 3
