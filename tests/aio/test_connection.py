"""A data connection in an event loop, over a real socket: who is answered, when frames leave, how everything ends."""

from __future__ import annotations

import asyncio

import pytest

from rocketpy.aio.connection import LoopConnection
from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError
from rocketpy.remoting.limits import CLIENT_LIMITS
from rocketpy.remoting.rounds import SLICE_SECONDS, Slice, Steadily
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.frame import Frame
from tests.aio.running import in_asyncio
from tests.remoting.socket_peer import PATIENCE, Clock, Peer, request_frame


class Scene:
    """A connection and its peer."""

    def __init__(self):
        self.peer, self.clock, self.asked = Peer(), Clock(), []
        self.loop = asyncio.get_running_loop()
        self.connection = LoopConnection(
            self.loop,
            "broker:10911",
            limits=CLIENT_LIMITS,
            serialize_type=SerializeType.JSON,
            hooks=(),
            clock=self.clock,
            on_requests=self.asked.extend,
        )

    def start(self, body=b"x", seconds=PATIENCE):
        opaque = self.connection.next_opaque()
        return self.connection.start_request(opaque, request_frame(opaque, body), self.clock() + seconds)

    async def greet(self):
        """The peer has answered something."""
        future = self.start()
        self.peer.answer(*await self.read())
        await future

    async def read(self, count=1):
        return await self.loop.run_in_executor(None, self.peer.read, count)


def with_scene(test):
    @in_asyncio  # without functools.wraps, by which pytest would see the parameter of the test
    async def run():
        scene = Scene()
        await scene.loop.create_connection(lambda: scene.connection, sock=scene.peer.ours)
        try:
            await test(scene)
        finally:
            scene.connection.close()
            scene.peer.close()
            await asyncio.sleep(0)

    return run


@with_scene
async def test_answers_in_any_order_reach_those_who_asked(scene):
    futures = [scene.start(b"%d" % number) for number in range(50)]
    scene.peer.answer(*reversed(await scene.read(50)))
    assert [(await future).body for future in futures] == [b"%d" % number for number in range(50)]
    assert len(scene.connection) == 0


@with_scene
async def test_frames_leave_in_the_order_of_the_calls(scene):
    futures = [scene.start(b"%d" % number) for number in range(300)]
    requests = await scene.read(300)
    assert [each.body for each in requests] == [b"%d" % number for number in range(300)]
    scene.peer.answer(*requests)
    await asyncio.gather(*futures)


@pytest.mark.waits("a deadline in a loop of asyncio's, which has no virtual clock")
@with_scene
async def test_what_is_not_answered_in_time_says_that_the_outcome_is_unknown(scene):
    await scene.greet()
    result = await scene.start(seconds=0.05)
    assert isinstance(result, RequestTimeoutError)
    assert "may or may not" in str(result)
    late, answered = await scene.read(), scene.start(b"next")
    scene.peer.answer(*late, *await scene.read())
    assert (await answered).body == b"next"


@pytest.mark.waits("a deadline in a loop of asyncio's, which has no virtual clock")
@with_scene
async def test_a_later_request_with_an_earlier_deadline_ends_first(scene):
    await scene.greet()
    slow, quick = scene.start(seconds=PATIENCE), scene.start(seconds=0.05)
    assert isinstance(await quick, RequestTimeoutError)
    assert not slow.done()


@with_scene
async def test_an_answer_that_has_arrived_counts_when_the_loop_was_busy(scene):
    future = scene.start(seconds=0.2)
    request = await scene.read()
    scene.peer.answer(*request)
    scene.clock.ahead = 5.0  # other work took the loop for so long
    assert isinstance(await future, Frame)


@pytest.mark.waits("a deadline in a loop of asyncio's, which has no virtual clock")
@with_scene
async def test_a_peer_that_has_never_answered_is_given_up_at_once(scene):
    assert isinstance(await scene.start(seconds=0.01), RequestTimeoutError)
    assert "has never sent anything" in str(scene.connection.error)


@with_scene
async def test_a_peer_that_stays_silent_is_given_up(scene):
    await scene.greet()
    assert isinstance(await scene.start(seconds=0.01), RequestTimeoutError)
    scene.clock.ahead = CLIENT_LIMITS.silence_timeout + 1
    assert isinstance(await scene.start(seconds=0.01), RequestTimeoutError)
    assert "has sent nothing for 10 s" in str(scene.connection.error)


@with_scene
async def test_given_up_it_leaves_nothing_behind(scene):
    opaque = scene.connection.next_opaque()
    scene.connection.start_request(opaque, request_frame(opaque), scene.clock() + PATIENCE)
    assert scene.connection.give_up(opaque)
    assert not scene.connection.give_up(opaque)
    assert len(scene.connection) == 0


@with_scene
async def test_when_the_peer_closes_everybody_hears_that_the_outcome_is_unknown(scene):
    futures = [scene.start() for _ in range(3)]
    await scene.read(3)
    scene.peer.close()
    for future in futures:
        error = await future
        assert isinstance(error, ConnectionLostError)
        assert "may or may not" in str(error)
    with pytest.raises(ConnectionLostError, match="nothing was sent") as caught:
        scene.start()
    assert caught.value.nothing_sent
    assert not scene.connection.is_usable


@with_scene
async def test_bytes_that_are_no_frame_end_it(scene):
    future = scene.start()
    await scene.read()
    scene.peer.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n")
    assert isinstance(await future, ConnectionLostError)
    assert isinstance(scene.connection.error, RemoteProtocolError)


@with_scene
async def test_requests_of_the_peer_are_handed_over(scene):
    future = scene.start()
    [request] = await scene.read()
    scene.peer.socket.sendall(request_frame(7, b"hello", code=40))
    scene.peer.answer(request)
    await future
    assert [(each.code, each.body) for each in scene.asked] == [(40, b"hello")]


@with_scene
async def test_retired_it_closes_when_the_last_answer_has_come(scene):
    future = scene.start()
    request = await scene.read()
    scene.connection.retire()
    assert not scene.connection.is_usable
    with pytest.raises(ConnectionLostError, match="nothing was sent"):
        scene.start()
    await asyncio.sleep(0)
    assert scene.connection.error is None
    scene.peer.answer(*request)
    assert isinstance(await future, Frame)
    await asyncio.sleep(0)
    assert scene.connection.error is not None


@with_scene
async def test_while_the_peer_does_not_read_it_is_not_usable(scene):
    future = scene.start(b"y" * 8_000_000)
    assert not scene.connection.is_usable
    [request] = await scene.read()
    request.body = b"small"
    scene.peer.answer(request)
    assert (await future).body == b"small"
    assert scene.connection.is_usable


@with_scene
async def test_a_peer_that_sends_many_requests_is_read_on_in_later_turns_of_the_loop(scene):
    scene.connection._time_slice = Slice(Steadily(SLICE_SECONDS))  # a turn has time for two pieces
    frames = [request_frame(number, b"x" * 1000) for number in range(400)]
    data = b"".join(frames)
    per_piece = -(-32 * 1024 // len(frames[0]))
    answer = scene.start()
    scene.connection.data_received(data)
    counts = [len(scene.asked)]
    assert not scene.connection._transport.is_reading()
    while counts[-1] < len(frames):
        await asyncio.sleep(0)
        counts.append(len(scene.asked))
        assert counts[-1] - counts[-2] <= 2 * per_piece + 2
    assert counts[0] <= 2 * per_piece + 2
    assert [each.opaque for each in scene.asked] == list(range(400))
    assert scene.connection._transport.is_reading()
    scene.peer.answer(*await scene.read())
    assert (await answer).body == b"x"


@with_scene
async def test_one_that_is_closed_meanwhile_is_read_no_more(scene):
    scene.connection._time_slice = Slice(Steadily(SLICE_SECONDS))
    scene.connection.data_received(b"".join(request_frame(number, b"x" * 1000) for number in range(400)))
    taken = len(scene.asked)
    scene.connection.close()
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)
    assert len(scene.asked) == taken


@with_scene
async def test_bytes_that_are_no_frame_end_it_also_in_a_later_turn(scene):
    scene.connection._time_slice = Slice(Steadily(SLICE_SECONDS))
    frames = [request_frame(number, b"x" * 1000) for number in range(200)]
    scene.connection.data_received(b"".join(frames) + b"GET / HTTP/1.1")
    assert scene.connection.error is None
    for _ in range(20):
        await asyncio.sleep(0)
    assert isinstance(scene.connection.error, RemoteProtocolError)
