"""What a broker asks over a data connection reaches the client, and its answer goes back the same way."""

from __future__ import annotations

import asyncio
import queue
import threading
from contextlib import suppress
from functools import partial

import attrs
import pytest

import rocketpy.aio
import rocketpy.sync
from rocketpy import Message
from rocketpy.wire.codes import ONEWAY_FLAG, RequestCode, ResponseCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from rocketpy_broker_sim import BlockingLocalCluster
from tests.aio.running import run
from tests.remoting.socket_peer import Peer

UNKNOWN = 9_999


@pytest.fixture(scope="module")
def namesrv():
    with BlockingLocalCluster() as running:
        yield running.name_server_addresses


def asking(code, opaque, flag=0):
    command = RemotingCommand(code, {}, b"", opaque, flag)
    command.serialize_type = SerializeType.JSON
    return encode_command(command)


def ask(peer):
    """Two requests that want an answer, and one that wants none in between."""
    peer.socket.sendall(asking(UNKNOWN, 7) + asking(UNKNOWN, 8, ONEWAY_FLAG) + asking(UNKNOWN, 9))
    return [(each.opaque, each.code) for each in peer.read(2)]


def link_of_threads(producer, peer):
    """The data connection that a blocking producer makes of a socket, in its portal."""
    made = queue.SimpleQueue()
    producer._direct.home.post(producer._direct.outside.client.data_links._make, peer.ours, "broker:10911", made.put)
    return made.get(timeout=30)


ANSWERS = [(7, ResponseCode.REQUEST_CODE_NOT_SUPPORTED), (9, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)]


def test_on_a_connection_of_threads(namesrv):
    peer = Peer()
    with rocketpy.sync.Producer("asked", namesrv=namesrv) as producer:
        made = link_of_threads(producer, peer)
        made._reading.call_thread()
        assert ask(peer) == ANSWERS
        made.close()
    peer.close()


def test_on_a_connection_of_an_event_loop(namesrv):
    async def main():
        peer, stands = Peer(), asyncio.Event()
        made = []

        def stood(connection):
            made.append(connection)
            stands.set()

        async with rocketpy.aio.Producer("asked", namesrv=namesrv) as producer:
            producer._bridge.portal.post(producer._direct._make, peer.ours, "broker:10911", stood)
            await stands.wait()
            assert await asyncio.get_running_loop().run_in_executor(None, ask, peer) == ANSWERS
            made[0].close()
            await asyncio.sleep(0)
        peer.close()

    run(main)


def test_what_comes_when_the_client_is_closed_hurts_nobody(namesrv):
    peer = Peer()
    with rocketpy.sync.Producer("asked", namesrv=namesrv) as producer:
        made = link_of_threads(producer, peer)
    made._reading.call_thread()
    peer.socket.sendall(asking(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 7))
    with rocketpy.sync.Producer("asked", namesrv=namesrv) as another:
        assert another.queues("TBW102")
    made.close()
    peer.close()


# --- a hostile broker --------------------------------------------------------------------------------------

FLOOD = 5_000
REFUSALS = {ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_BUSY}


def flood(peer):
    """Send thousands of requests while reading the answers. Returns their codes, and whether opaques were in order."""
    writer = threading.Thread(target=peer.socket.sendall, args=(b"".join(map(partial(asking, UNKNOWN), range(FLOOD))),))
    writer.start()
    answers = peer.read(FLOOD)
    writer.join()
    return {each.code for each in answers}, sorted(each.opaque for each in answers) == list(range(FLOOD))


@pytest.mark.slow
def test_a_flood_on_a_connection_of_threads_is_answered_or_refused(namesrv):
    peer = Peer()
    with rocketpy.sync.Producer("flooded", namesrv=namesrv) as producer:
        made = link_of_threads(producer, peer)
        made._reading.call_thread()
        codes, complete = flood(peer)
        assert complete
        assert codes <= REFUSALS
        assert ask(peer) == ANSWERS
        assert producer.send(Message("Flooded", b"x")).queue.topic == "Flooded"
        made.close()
    peer.close()


@pytest.mark.slow
def test_a_flood_on_a_connection_of_an_event_loop_is_answered_or_refused(namesrv):
    async def main():
        peer, stands, made = Peer(), asyncio.Event(), []

        def stood(connection):
            made.append(connection)
            stands.set()

        async with rocketpy.aio.Producer("flooded", namesrv=namesrv) as producer:
            producer._bridge.portal.post(producer._direct._make, peer.ours, "broker:10911", stood)
            await stands.wait()
            codes, complete = await asyncio.to_thread(flood, peer)
            assert complete
            assert codes <= REFUSALS
            assert await asyncio.to_thread(ask, peer) == ANSWERS
            assert (await producer.send(Message("Flooded", b"x"))).queue.topic == "Flooded"
            made[0].close()
            await asyncio.sleep(0)
        peer.close()

    run(main)


def unread(peer, closed):
    """Send requests without reading the answers, until the client disconnects."""
    frames = asking(UNKNOWN, 7) * 1000
    with suppress(OSError):
        while not closed():
            peer.socket.sendall(frames)


@pytest.mark.slow
def test_one_that_does_not_read_is_cut_off_by_threads(namesrv):
    peer = Peer()
    with rocketpy.sync.Producer("unread", namesrv=namesrv) as producer:
        client = producer._direct.outside.client
        client.pool._limits = attrs.evolve(client.pool.limits, max_pending_writes=1024 * 1024)
        made = link_of_threads(producer, peer)
        made._reading.call_thread()
        unread(peer, lambda: made.error)
        assert "sends requests and does not read the answers" in str(made.error)
    peer.close()


@pytest.mark.slow
def test_one_that_does_not_read_is_cut_off_by_an_event_loop(namesrv):
    async def main():
        peer, stands, made = Peer(), asyncio.Event(), []

        def stood(connection):
            made.append(connection)
            stands.set()

        async with rocketpy.aio.Producer("unread", namesrv=namesrv) as producer:
            client = producer._direct.outside.client
            client.pool._limits = attrs.evolve(client.pool.limits, max_pending_writes=1024 * 1024)
            producer._bridge.portal.post(producer._direct._make, peer.ours, "broker:10911", stood)
            await stands.wait()
            await asyncio.to_thread(unread, peer, lambda: made[0].error)
            assert "sends requests and does not read the answers" in str(made[0].error)
        peer.close()

    run(main)
