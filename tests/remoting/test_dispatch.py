"""From code to processor, and from what goes wrong to an answer."""

from __future__ import annotations

import logging

import pytest

from rocketpy.errors import BrokerError, MessageDecodeError, SystemBusyError
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fields import HeaderFieldError
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import CRASH, ECHO, PARK, SINK, Peer, connection_pair, read_command, stream_pair


def raising(error: Exception) -> RequestDispatcher:
    def processor(_: Connection, request: RemotingCommand) -> RemotingCommand:
        raise error

    return RequestDispatcher({ECHO: processor, SINK: processor})


async def test_R5_a_processor_exception_is_a_system_error_and_the_connection_stays(network: Network) -> None:
    async with connection_pair(network) as (ours, theirs):
        answer = await ours.request(RemotingCommand(CRASH), timeout=5)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"
        assert theirs.is_open
        assert theirs.statistics().parked == 0


async def test_threat_A7_a_bug_tells_the_peer_a_number_and_the_log_the_rest(
    memory: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection_pair(memory) as (ours, _):
        remark = (await ours.request(RemotingCommand(CRASH), timeout=5)).remark or ""
    assert "secret" not in remark
    assert "/etc" not in remark
    assert "Traceback" not in remark
    assert len(remark) < 100
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    number = record.getMessage().split()[1].rstrip(":")
    assert number in remark
    assert record.exc_info is not None
    assert "secret path" in str(record.exc_info[1])


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (HeaderFieldError("X: the field topic is missing", field="topic"), 1, "X: the field topic is missing"),
        (MessageDecodeError("damaged"), 1, "damaged"),
        (SystemBusyError(2, "[OVERLOAD]later"), 2, "[OVERLOAD]later"),
        (BrokerError(205), 205, None),
    ],
)
async def test_expected_errors_speak_for_themselves(
    memory: MemoryNetwork, error: Exception, code: int, remark: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection_pair(memory, raising(error)) as (ours, _):
        answer = await ours.request(RemotingCommand(ECHO), timeout=5)
        assert (answer.code, answer.remark) == (code, remark)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_R6_threat_F14_an_unknown_code_is_answered_as_not_supported(network: Network) -> None:
    async with connection_pair(network) as (ours, _):
        for code in (7777, 0, -1, 2**31 - 1):
            answer = await ours.request(RemotingCommand(code), timeout=5)
            assert (answer.code, answer.remark) == (3, f" request type {code} not supported")
        assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"


async def test_a_default_processor_takes_every_other_code(memory: MemoryNetwork) -> None:
    def default(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.answer(42)

    async with connection_pair(memory, RequestDispatcher({}, default)) as (ours, _):
        assert (await ours.request(RemotingCommand(7777), timeout=5)).code == 42


async def test_threat_F18_a_oneway_request_is_carried_out_and_not_answered(memory: MemoryNetwork) -> None:
    """Whatever it asks for: an echo, an unknown code, a crash."""
    peer = Peer()
    async with stream_pair(memory) as (near, far), open_connection(far, peer) as theirs:
        for code in (ECHO, 7777, CRASH):
            await near.send_all(encode_command(RemotingCommand.oneway(code)))
        await near.send_all(encode_command(RemotingCommand(ECHO, opaque=9)))
        assert (await read_command(near)).opaque == 9
        assert [request.code for request in peer.seen] == [ECHO, 7777, CRASH, ECHO]
        assert theirs.statistics().parked == 0


async def test_threat_F16_an_opaque_used_twice_is_answered_twice(memory: MemoryNetwork) -> None:
    peer = Peer()
    async with stream_pair(memory) as (near, far), open_connection(far, peer) as theirs:
        for _ in range(2):
            await near.send_all(encode_command(RemotingCommand(PARK, opaque=5)))
        await near.send_all(encode_command(RemotingCommand(ECHO, opaque=5)))
        assert (await read_command(near)).remark is None
        peer.answer_parked()
        data = b""
        while data.count(b"late") < 2:
            data += await near.receive_some(1000)
        assert theirs.is_open
        assert theirs.statistics().parked == 0


async def test_threat_F19_a_body_nobody_expects_is_ignored(memory: MemoryNetwork) -> None:
    def no_body(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.answer(0)

    async with connection_pair(memory, RequestDispatcher({ECHO: no_body})) as (ours, _):
        assert (await ours.request(RemotingCommand(ECHO, body=b"x" * 1000), timeout=5)).code == 0
        assert (await ours.request(RemotingCommand(ECHO), timeout=5)).code == 0


async def test_an_answer_that_cannot_be_written_is_a_system_error(
    memory: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    def too_large(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.answer(0, body=bytes(17 * 1024 * 1024))

    async with connection_pair(memory, RequestDispatcher({ECHO: too_large})) as (ours, theirs):
        answer = await ours.request(RemotingCommand(ECHO), timeout=5)
        assert (answer.code, answer.remark) == (
            1,
            "the answer cannot be encoded: the log of the process that answers has the details",
        )
        assert theirs.is_open
    assert "over the limit" in caplog.text


async def test_a_handler_with_a_bug_of_its_own_leaves_the_connection_open(
    memory: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Peer):
        def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
            if requests[0].code == CRASH:
                raise KeyError("bug")
            return super().handle(connection, requests, arrived)

    async with connection_pair(memory, Broken()) as (ours, theirs):
        assert (await ours.request(RemotingCommand(CRASH), timeout=5)).remark == "internal error"
        assert theirs.statistics().parked == 0
        assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"
        assert theirs.is_open
    assert "the handler failed on 1 request of" in caplog.text


class Recorder:
    """A hook that signs, and keeps what it saw."""

    def __init__(self, refuse: int | None = None) -> None:
        self.refuse = refuse
        self.seen: list[tuple[str, int, int | None]] = []

    def before_request(self, address: str, command: RemotingCommand) -> None:
        if command.code == self.refuse:
            raise BrokerError(16, "signature missing")
        command.ext_fields["signed"] = "yes"
        self.seen.append(("before", command.code, None))

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        self.seen.append(("after", command.code, None if answer is None else answer.code))


async def test_hooks_run_around_typed_requests_on_both_sides(memory: MemoryNetwork) -> None:
    client, server = Recorder(), Recorder(refuse=CRASH)
    peer = Peer()
    peer.dispatcher.hooks = (server,)
    async with connection_pair(memory, peer, hooks=(client,)) as (ours, _):
        assert (await ours.request(RemotingCommand(ECHO), timeout=5)).ext_fields == {"signed": "yes"}
        ours.send_oneway(RemotingCommand(SINK))
        refused = await ours.request(RemotingCommand(CRASH), timeout=5)
        assert (refused.code, refused.remark) == (16, "signature missing")
    assert client.seen == [
        ("before", ECHO, None), ("after", ECHO, 0), ("before", SINK, None), ("after", SINK, None),
        ("before", CRASH, None), ("after", CRASH, 16),
    ]  # fmt: skip
    assert server.seen == [("before", ECHO, None), ("after", ECHO, 0), ("before", SINK, None), ("after", SINK, None)]


async def test_what_a_clients_hook_raises_reaches_the_caller_and_nothing_is_sent(memory: MemoryNetwork) -> None:
    peer = Peer()
    async with connection_pair(memory, peer, hooks=(Recorder(refuse=ECHO),)) as (ours, _):
        with pytest.raises(BrokerError, match="signature missing"):
            await ours.request(RemotingCommand(ECHO), timeout=5)
        assert ours.statistics().in_flight == 0
        await ours.request(RemotingCommand(7777), timeout=5)
        assert len(peer.seen) == 1


async def test_a_parked_request_may_be_forgotten(memory: MemoryNetwork) -> None:
    peer = Peer()
    async with stream_pair(memory) as (near, far), open_connection(far, peer) as theirs:
        await near.send_all(encode_command(RemotingCommand(PARK)) + encode_command(RemotingCommand(ECHO)))
        await read_command(near)
        assert theirs.statistics().parked == 1
        connection, request = peer.parked[0]
        connection.forget_request(request)
        assert theirs.statistics().parked == 0
