"""A peer that says GO_AWAY (1500): the call moves to a fresh connection once, the old one ends when it has served."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress

import pytest
import trio

from rocketpy.client.call import call
from rocketpy.errors import BrokerError, ConnectionLostError, RequestTimeoutError, SendError
from rocketpy.message import Message, MessageQueue
from rocketpy.producer import Producer
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.results import SendStatus
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeServer
from tests.producer.brokers import SendBroker, World

ASK, HOLD = 7001, 7002
GO_AWAY = ResponseCode.GO_AWAY


class Leaving(FakeServer):
    """Sends the first `goodbyes` connections away once they are told to leave; holds HOLD requests until released."""

    def __init__(self, goodbyes=1):
        super().__init__({ASK: self.ask, HOLD: self.hold})
        self.goodbyes = goodbyes
        self.leaving = True
        self.held = []
        self.seen = []

    def ask(self, connection, request):
        if connection not in self.seen:
            self.seen.append(connection)
        if self.leaving and self.seen.index(connection) < self.goodbyes:
            return request.answer(GO_AWAY, "please go away")
        return request.answer(body=b"%d" % self.seen.index(connection))

    def hold(self, connection, request):
        self.held.append((connection, request))

    def release(self):
        for connection, request in self.held:
            connection.send_answer(request, request.answer(0, "late"))


@asynccontextmanager
async def world(goodbyes=1):
    network, server = MemoryNetwork(), Leaving(goodbyes)
    async with server.open(network), ConnectionPool(network).open() as pool:
        yield server, pool


async def test_R7_a_call_moves_to_a_fresh_connection_once(autojump_clock):
    async with world() as (server, pool):
        server.leaving = False
        assert (await call(pool, server.address, RemotingCommand(ASK), timeout=3)).body == b"0"
        server.leaving = True
        assert (await call(pool, server.address, RemotingCommand(ASK), timeout=3)).body == b"1"
        assert pool.statistics().dials == 2
        await trio.sleep(0.1)
        assert len(server.server.connections) == 1
        assert (await call(pool, server.address, RemotingCommand(ASK), timeout=3)).body == b"1"
        assert pool.statistics().dials == 2


async def test_R7_a_second_goodbye_ends_the_call_and_the_next_dial_waits(autojump_clock):
    async with world(goodbyes=9) as (server, pool):
        with pytest.raises(ConnectionLostError, match="answered GO_AWAY twice"):
            await call(pool, server.address, RemotingCommand(ASK), timeout=3)
        assert len(server.seen) == 2
        assert pool.statistics().addresses_failing == 1
        await trio.sleep(0.1)
        assert not server.server.connections


async def test_R7_the_old_connection_lets_the_others_end_and_takes_no_more(autojump_clock):
    async with world() as (server, pool):
        old = await pool.get(server.address, timeout=3)
        answers = []

        async def wait():
            answers.append(await old.request(RemotingCommand(HOLD), timeout=60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert (await call(pool, server.address, RemotingCommand(ASK), timeout=3)).body == b"1"
            assert old.is_open
            with pytest.raises(ConnectionLostError, match="nothing was sent"):
                await old.request(RemotingCommand(ASK), timeout=3)
            with pytest.raises(ConnectionLostError, match="nothing was sent"):
                old.send_oneway(RemotingCommand(ASK))
            await trio.sleep(5)
            assert old.is_open
            server.release()
        assert [answer.remark for answer in answers] == ["late"]
        await trio.sleep(0.1)
        assert not old.is_open


@pytest.mark.parametrize("how", ["times out", "is cancelled", "is cut"])
async def test_R7_the_old_connection_closes_however_the_last_request_ends(autojump_clock, how):
    async with world() as (server, pool):
        old = await pool.get(server.address, timeout=3)
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def wait():
                with scope, suppress(RequestTimeoutError, ConnectionLostError):
                    await old.request(RemotingCommand(HOLD), timeout=10)

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await call(pool, server.address, RemotingCommand(ASK), timeout=3)
            assert old.is_open
            if how == "is cancelled":
                scope.cancel()
            elif how == "is cut":
                server.seen[0].close()
        await trio.sleep(11)
        assert not old.is_open
        assert pool.nowait(server.address) is not None


async def test_R7_many_calls_share_the_fresh_connection(autojump_clock):
    async with world() as (server, pool):
        bodies = []

        async def ask():
            bodies.append((await call(pool, server.address, RemotingCommand(ASK), timeout=3)).body)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(ask)
        assert bodies == [b"1"] * 50
        assert pool.statistics().dials == 2


# --- sends ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def producing(script, **settings):
    made, broker = World(), SendBroker(script=script)
    async with made.name_server.open(made.network, 9876), broker.open(made.network):
        made.route("T", broker)
        async with Producer("pg", network=made.network, namesrv="ns:9876", **settings) as producer:
            yield producer, broker


async def test_R7_a_send_moves_to_a_fresh_connection_and_counts_as_one_try(autojump_clock):
    async with producing([0, GO_AWAY], retry_times_when_send_failed=0) as (producer, broker):
        await producer.send(Message("T", b"1"))
        dials = producer.client.pool.statistics().dials
        result = await producer.send(Message("T", b"2"), queue=MessageQueue("T", "broker-a", 3))
        assert result.status is SendStatus.SEND_OK
        assert producer.client.pool.statistics().dials == dials + 1
        assert [taken.header.queue_id for taken in broker.taken[1:]] == [3, 3]
        assert len({taken.properties["UNIQ_KEY"] for taken in broker.taken[1:]}) == 1


async def test_R7_the_first_send_of_all_moves_too(autojump_clock):
    async with producing([GO_AWAY], retry_times_when_send_failed=0) as (producer, broker):
        assert (await producer.send(Message("T", b"1"))).status is SendStatus.SEND_OK
        assert len(broker.taken) == 2


async def test_R7_a_send_that_is_sent_away_twice_has_failed(autojump_clock):
    async with producing([0, GO_AWAY, GO_AWAY], retry_times_when_send_failed=0) as (producer, broker):
        await producer.send(Message("T", b"1"))
        with pytest.raises(BrokerError) as caught:
            await producer.send(Message("T", b"2"))
        assert caught.value.code == GO_AWAY
        assert len(broker.taken) == 3
    async with producing([GO_AWAY] * 99, retry_times_when_send_failed=1) as (producer, _):
        with pytest.raises(SendError) as failed:
            await producer.send(Message("T", b"2"))
        assert len(failed.value.attempts) == 2


async def test_R7_a_send_that_is_called_back_moves_too(autojump_clock):
    outcomes = []
    async with producing([0, GO_AWAY], retry_times_when_send_async_failed=0) as (producer, broker):
        await producer.send(Message("T", b"1"))
        producer.outside.start_send(producer.outside.prepare(Message("T", b"2")), outcomes.append)
        await trio.sleep(1)
        assert [outcome.status for outcome in outcomes] == [SendStatus.SEND_OK]
        assert len(broker.taken) == 3
