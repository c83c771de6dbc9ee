"""One connection: requests, answers, time, cancellation, loss."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import (
    ConnectionLostError,
    LocalProtocolError,
    RequestTimeoutError,
    RocketMQError,
    TooManyRequestsError,
)
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.limits import ConnectionLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame
from rocketpy.wire.serialize import decode_command, encode_command
from tests.remoting.helpers import ECHO, PARK, SINK, Peer, connection_pair, stream_pair


async def test_R1_sync_async_and_oneway_calls(network: Network) -> None:
    peer = Peer()
    async with connection_pair(network, peer) as (ours, _):
        answer = await ours.request(RemotingCommand(ECHO, {"a": "1"}, b"body"), timeout=5)
        assert (answer.code, answer.ext_fields, answer.body, answer.is_response) == (0, {"a": "1"}, b"body", True)

        results: list[Frame | RocketMQError] = []
        done = trio.Event()

        def take(result: Frame | RocketMQError) -> None:
            results.append(result)
            done.set()

        opaque = ours.next_opaque()
        ours.start_request(
            opaque, encode_command(RemotingCommand(ECHO, body=b"async", opaque=opaque)), trio.current_time() + 5, take
        )
        await done.wait()
        assert isinstance(results[0], Frame)
        assert decode_command(results[0]).body == b"async"

        ours.send_oneway(RemotingCommand(SINK, body=b"away"))
        await ours.request(RemotingCommand(ECHO), timeout=5)
        assert [request.body for request in peer.seen if request.code == SINK] == [b"away"]
        assert len(results) == 1
        assert ours.statistics().unknown_answers == 0


async def test_many_in_flight_each_get_their_own_answer(network: Network) -> None:
    async with connection_pair(network) as (ours, _):

        async def call(number: int) -> None:
            answer = await ours.request(RemotingCommand(ECHO, {"n": str(number)}, b"x" * (number * 64)), timeout=10)
            assert answer.ext_fields == {"n": str(number)}
            assert len(answer.body) == number * 64

        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(call, number)
        assert ours.statistics().in_flight == 0
        assert ours.statistics().received_answers == 300


async def test_requests_go_both_ways(network: Network) -> None:
    async with connection_pair(network) as (ours, theirs):
        async with trio.open_nursery() as nursery:
            for side in (ours, theirs) * 20:
                nursery.start_soon(lambda side: side.request(RemotingCommand(ECHO), timeout=5), side)
        assert ours.statistics().received_requests == theirs.statistics().received_requests == 20


async def test_large_bodies_come_through_whole(network: Network) -> None:
    body = bytes(range(256)) * 16_000
    async with connection_pair(network) as (ours, _):
        async with trio.open_nursery() as nursery:
            for _ in range(3):

                async def call() -> None:
                    assert (await ours.request(RemotingCommand(ECHO, body=body), timeout=30)).body == body

                nursery.start_soon(call)


@pytest.mark.parametrize("kind", list(SerializeType))
async def test_P3_the_answer_has_the_encoding_of_the_request(network: Network, kind: SerializeType) -> None:
    async with connection_pair(network) as (ours, _):
        answer = await ours.request(RemotingCommand(ECHO, {"k": "v"}, serialize_type=kind), timeout=5)
        assert (answer.serialize_type, answer.ext_fields) == (kind, {"k": "v"})


async def test_R3_expired_requests_are_swept_and_late_answers_ignored(memory: MemoryNetwork, clock: MockClock) -> None:
    peer = Peer()
    async with connection_pair(memory, peer) as (ours, _):
        begun = trio.current_time()
        with pytest.raises(RequestTimeoutError, match="allowed 3 s") as caught:
            await ours.request(RemotingCommand(PARK), timeout=3)
        assert trio.current_time() - begun == pytest.approx(3)
        assert caught.value.timeout == 3
        assert caught.value.address == ours.address
        assert ours.statistics().in_flight == 0
        peer.answer_parked()
        await wait_all_tasks_blocked()
        assert ours.statistics().unknown_answers == 1
        assert (await ours.request(RemotingCommand(ECHO, body=b"good"), timeout=3)).body == b"good"


async def test_requests_run_out_in_the_order_of_their_deadlines(memory: MemoryNetwork, clock: MockClock) -> None:
    times: dict[float, float] = {}
    async with connection_pair(memory) as (ours, _):

        async def call(timeout: float) -> None:
            with pytest.raises(RequestTimeoutError):
                await ours.request(RemotingCommand(PARK), timeout=timeout)
            times[timeout] = trio.current_time()

        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for timeout in (5.0, 1.0, 3.0, 9.0):
                nursery.start_soon(call, timeout)
    assert {timeout: round(at - begun, 6) for timeout, at in times.items()} == {1: 1, 3: 3, 5: 5, 9: 9}


async def test_R2_timeout_and_loss_are_distinct(memory: MemoryNetwork, clock: MockClock) -> None:
    async with connection_pair(memory) as (ours, _):
        with pytest.raises(RequestTimeoutError):
            await ours.request(RemotingCommand(PARK), timeout=1)

        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(ConnectionLostError, match="may or may not have been carried out"):
                    await ours.request(RemotingCommand(PARK), timeout=30)

            nursery.start_soon(call)
            nursery.start_soon(call)
            await wait_all_tasks_blocked()
            memory.cut()
        with pytest.raises(ConnectionLostError, match="nothing was sent"):
            await ours.request(RemotingCommand(ECHO), timeout=1)
        with pytest.raises(ConnectionLostError, match="nothing was sent"):
            ours.send_oneway(RemotingCommand(SINK))


async def test_each_waiter_gets_an_error_of_its_own(memory: MemoryNetwork) -> None:
    errors: list[BaseException] = []
    async with connection_pair(memory) as (ours, _):

        async def call() -> None:
            try:
                await ours.request(RemotingCommand(PARK), timeout=30)
            except ConnectionLostError as exc:
                errors.append(exc)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(call)
            await wait_all_tasks_blocked()
            ours.close()
    assert len({id(error) for error in errors}) == 2
    assert all(error.__cause__ is ours.error for error in errors)


async def test_a_callback_is_called_once_with_the_loss(network: Network) -> None:
    results: list[Frame | RocketMQError] = []
    async with connection_pair(network) as (ours, _theirs):
        opaque = ours.next_opaque()
        frame = encode_command(RemotingCommand(PARK, opaque=opaque))
        ours.start_request(opaque, frame, trio.current_time() + 60, results.append)
        await trio.testing.wait_all_tasks_blocked(0.01)
        ours.close()
        ours.close()
        with pytest.raises(ConnectionLostError):
            ours.start_request(1, frame, trio.current_time() + 60, results.append)
    assert len(results) == 1
    assert isinstance(results[0], ConnectionLostError)


async def test_a_callback_with_a_bug_harms_nobody(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    async with connection_pair(network) as (ours, _):
        opaque = ours.next_opaque()
        frame = encode_command(RemotingCommand(ECHO, opaque=opaque))
        ours.start_request(opaque, frame, trio.current_time() + 60, lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
        assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"
        assert ours.is_open
    assert "the function that takes the answer" in caplog.text


@pytest.mark.parametrize("when", ["before", "parked"])
async def test_a_cancelled_caller_forgets_its_opaque(network: Network, when: str) -> None:
    peer = Peer()
    async with connection_pair(network, peer) as (ours, _):
        with trio.CancelScope() as scope:
            if when == "before":
                scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: ours.request(RemotingCommand(PARK), timeout=30))
                await wait_all_tasks_blocked(0.01)
                scope.cancel()
        assert scope.cancelled_caught
        assert ours.statistics().in_flight == 0
        assert len(peer.parked) == (0 if when == "before" else 1)
        peer.answer_parked()
        assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"
        assert ours.statistics().unknown_answers == (0 if when == "before" else 1)


async def test_cancelling_one_of_two_leaves_the_other_frame_whole(network: Network) -> None:
    """The frame of a cancelled caller goes out whole: the stream stays in step."""
    async with connection_pair(network) as (ours, _):

        async def doomed(scope: trio.CancelScope) -> None:
            with scope:
                await ours.request(RemotingCommand(PARK, body=b"y" * 300_000), timeout=5)

        for checkpoints in range(8):
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(doomed, scope)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
            assert (await ours.request(RemotingCommand(ECHO, body=b"x" * 10), timeout=5)).body == b"x" * 10
        assert ours.statistics().in_flight == 0


async def test_the_table_of_requests_is_bounded(memory: MemoryNetwork) -> None:
    async with connection_pair(memory, limits=ConnectionLimits(max_in_flight=2)) as (ours, _):
        for _ in range(2):
            opaque = ours.next_opaque()
            ours.start_request(
                opaque,
                encode_command(RemotingCommand(PARK, opaque=opaque)),
                trio.current_time() + 60,
                lambda _: None,
            )
        with pytest.raises(TooManyRequestsError, match="2 requests wait"):
            await ours.request(RemotingCommand(ECHO), timeout=1)
        assert ours.statistics().in_flight == 2


async def test_an_opaque_in_use_is_refused_and_never_given_out(memory: MemoryNetwork) -> None:
    async with connection_pair(memory) as (ours, _):
        frame = encode_command(RemotingCommand(PARK, opaque=0))
        ours.start_request(0, frame, trio.current_time() + 60, lambda _: None)
        with pytest.raises(LocalProtocolError, match="opaque 0 waits already"):
            ours.start_request(0, frame, trio.current_time() + 60, lambda _: None)
        assert ours.next_opaque() == 1


async def test_a_client_that_writes_faster_than_the_peer_reads_waits(memory: MemoryNetwork, clock: MockClock) -> None:
    limits = ConnectionLimits(pending_writes=1000, max_pending_writes=1_000_000)
    async with connection_pair(memory, limits=limits) as (ours, _):
        (link,) = memory.links()
        link.pause("server")
        await ours.wait_writable()
        for _ in range(5):
            ours.send_oneway(RemotingCommand(SINK, body=bytes(100_000)))
        with pytest.raises(RequestTimeoutError, match="does not read"):
            await ours.request(RemotingCommand(ECHO), timeout=2)
        with pytest.raises(TooManyRequestsError, match="send more slowly"):
            flood(ours)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.wait_writable)
            await wait_all_tasks_blocked()
            link.resume()
        assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=2)).body == b"1"


async def test_a_peer_that_reads_is_not_blamed_for_a_request_that_is_not_sent_in_time(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    limits = ConnectionLimits(pending_writes=1000, max_pending_writes=1_000_000)
    async with connection_pair(memory, limits=limits) as (ours, _), trio.open_nursery() as nursery:
        (link,) = memory.links()
        link.pause("server")
        ours.send_oneway(RemotingCommand(SINK, body=bytes(300_000)))

        def send_more() -> None:
            link.pause("server")
            ours._transport.tells_sent = False
            ours.send_oneway(RemotingCommand(SINK, body=bytes(400_000)))

        async def read_after_a_second() -> None:
            await trio.sleep(1)
            ours._transport.tells_sent, ours._transport._on_sent = True, send_more
            link.resume()

        nursery.start_soon(read_after_a_second)
        with pytest.raises(RequestTimeoutError, match=r"300... bytes were sent .* 400... still wait") as caught:
            await ours.request(RemotingCommand(ECHO), timeout=2)
        assert caught.value.nothing_sent
        link.resume()


def flood(connection: Connection) -> None:
    for _ in range(20):
        connection.send_oneway(RemotingCommand(SINK, body=bytes(100_000)))


async def test_close_callbacks_are_called_once_and_survive_each_other(
    memory: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[Connection] = []
    async with connection_pair(memory) as (ours, _):
        ours.add_close_callback(lambda _: 1 / 0)
        ours.add_close_callback(closed.append)
        ours.close()
        ours.close()
        assert closed == [ours]
        ours.add_close_callback(closed.append)
        assert closed == [ours, ours]
    assert "a close callback failed" in caplog.text


async def test_aclose_lets_what_is_buffered_leave(network: Network) -> None:
    peer = Peer()
    async with stream_pair(network) as (near, far):
        async with open_connection(far, peer) as theirs:
            async with open_connection(near, Peer()) as ours:
                for _ in range(50):
                    ours.send_oneway(RemotingCommand(SINK, body=bytes(10_000)))
            while theirs.is_open:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(peer.seen) == 50


async def test_repr_and_statistics_tell_the_state(memory: MemoryNetwork) -> None:
    async with connection_pair(memory) as (ours, theirs):
        await ours.request(RemotingCommand(ECHO), timeout=1)
        assert "open, 0 in flight" in repr(ours)
        assert ours.local_address == theirs.address
        assert theirs.local_address == ours.address
        assert theirs.statistics().received_requests == 1
        assert ours.statistics().sent_bytes == theirs.statistics().received_bytes
    assert "closed" in repr(ours)


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
