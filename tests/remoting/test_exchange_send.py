"""Answers to sends: a plain success reaches the task that waits as fields, everything else as a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.errors import ConnectionLostError, RequestTimeoutError, RocketMQError
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame
from rocketpy.wire.serialize import decode_command, encode_command
from tests.remoting.helpers import ECHO, PARK, Peer, connection_pair

FIELDS = {"msgId": "7F0000010000A40D0000000000000000", "queueId": "3", "queueOffset": "12"}
SENT = (FIELDS["msgId"], 3, 12, None, None, None)


def request_of(connection: Connection, code: int, **fields: str) -> tuple[int, bytes, float]:
    opaque = connection.next_opaque()
    return opaque, encode_command(RemotingCommand(code, fields, opaque=opaque)), trio.current_time() + 5


async def test_a_plain_success_is_fields_for_a_send_and_a_frame_for_every_other_request(network: Network) -> None:
    async with connection_pair(network) as (ours, _):
        for _ in range(2):
            assert await ours.exchange_send(*request_of(ours, ECHO, **FIELDS)) == SENT
            frame = await ours.exchange(*request_of(ours, ECHO, **FIELDS))
            assert decode_command(frame).ext_fields == FIELDS
            answer = await ours.request(RemotingCommand(ECHO, dict(FIELDS)), timeout=5)
            assert answer.ext_fields == FIELDS
        found: list[Frame | RocketMQError] = []
        opaque, data, deadline = request_of(ours, ECHO, **FIELDS)
        ours.start_request(opaque, data, deadline, found.append)
        await ours.request(RemotingCommand(ECHO), timeout=5)
        assert isinstance(found[0], Frame)
        assert decode_command(found[0]).ext_fields == FIELDS
        assert (ours.statistics().received_answers, ours.statistics().unknown_answers) == (8, 0)


@pytest.mark.parametrize(
    "made",
    [
        lambda request: request.answer(ResponseCode.SYSTEM_BUSY, "later"),
        lambda request: request.answer(0, None, {**FIELDS, "queueId": "x"}),
        lambda request: request.answer(0, "flushed late", dict(FIELDS)),
    ],
)
async def test_any_other_answer_to_a_send_is_a_frame(
    network: Network, made: Callable[[RemotingCommand], RemotingCommand]
) -> None:
    peer = Peer({7009: lambda connection, request: made(request)})
    async with connection_pair(network, peer) as (ours, _):
        assert isinstance(await ours.exchange_send(*request_of(ours, 7009)), Frame)


async def test_a_send_without_an_answer_ends_in_time_and_its_late_answer_is_counted(autojump_clock: Any) -> None:
    peer = Peer()
    async with connection_pair(MemoryNetwork(), peer) as (ours, theirs):
        assert await ours.exchange_send(*request_of(ours, ECHO, **FIELDS)) == SENT
        with pytest.raises(RequestTimeoutError):
            await ours.exchange_send(*request_of(ours, PARK))
        for connection, request in peer.parked:
            connection.send_answer(request, request.answer(0, None, dict(FIELDS)))
        await ours.request(RemotingCommand(ECHO), timeout=5)
        assert ours.statistics().unknown_answers == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_is_lost, ours)
            await wait_all_tasks_blocked()
            theirs.close()


async def _is_lost(ours: Connection) -> None:
    with pytest.raises(ConnectionLostError):
        await ours.exchange_send(*request_of(ours, PARK))
