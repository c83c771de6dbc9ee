"""A data connection in an event loop: how it ends when its peer does not do its part."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rocketpy.aio.connection import LoopConnection
from rocketpy.errors import RequestTimeoutError
from rocketpy.remoting.limits import CLIENT_LIMITS
from rocketpy.wire.codes import SerializeType
from tests.remoting.socket_peer import PATIENCE, request_frame


async def connected(loop):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    made = LoopConnection(
        loop,
        "broker:10911",
        limits=CLIENT_LIMITS,
        serialize_type=SerializeType.JSON,
        hooks=(),
        clock=loop.time,
        on_requests=lambda requests: None,
    )
    await loop.create_connection(lambda: made, sock=ours)
    return made, ours, theirs


def start(connection, loop, seconds=PATIENCE, body=b"x"):
    opaque = connection.next_opaque()
    return opaque, connection.start_request(opaque, request_frame(opaque, body), loop.time() + seconds)


@pytest.mark.waits("a deadline in a loop of asyncio's, which has no virtual clock")
@pytest.mark.parametrize("way", ["runs out", "given up"])
def test_retired_it_closes_when_nobody_waits_any_more(way):
    async def body():
        loop = asyncio.get_running_loop()
        connection, _, theirs = await connected(loop)
        opaque, future = start(connection, loop, 0.05 if way == "runs out" else PATIENCE)
        connection.retire()
        await asyncio.sleep(0)
        assert connection.error is None
        if way == "runs out":
            assert isinstance(await future, RequestTimeoutError)
        else:
            connection.give_up(opaque)
        assert connection.error is not None
        async with asyncio.timeout(PATIENCE):
            while await loop.sock_recv(theirs, 1 << 16):
                pass
        theirs.close()

    asyncio.run(body())


def test_closing_does_not_wait_for_a_peer_that_does_not_read():
    async def body():
        loop = asyncio.get_running_loop()
        connection, ours, theirs = await connected(loop)
        opaque, _ = start(connection, loop, body=b"x" * (1 << 23))
        assert not connection.is_usable
        connection.give_up(opaque)
        connection.close()
        async with asyncio.timeout(PATIENCE):
            while ours.fileno() != -1:  # noqa: ASYNC110 - nobody else says when the socket is closed
                await asyncio.sleep(0)
        theirs.close()

    asyncio.run(body())
