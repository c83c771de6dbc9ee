"""A data connection that threads share, over a real socket: who writes, who reads, and how everything ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest

from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError
from rocketpy.remoting.data.thread import ThreadConnection
from rocketpy.remoting.limits import CLIENT_LIMITS
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame
from rocketpy.wire.serialize import encode_command
from tests.remoting.socket_peer import PATIENCE, Clock, Peer, request_frame

pytestmark = pytest.mark.waits("real threads on a real socket")


class Held:
    """A slot that keeps what completes it."""

    def __init__(self, deadline):
        self.deadline = deadline
        self.done = threading.Event()
        self.results = []
        self.thread = None

    def complete(self, result):
        self.results.append(result)
        self.thread = threading.current_thread().name
        self.done.set()


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def peer():
    made = Peer()
    yield made
    made.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked():
    return []


@pytest.fixture
def connection(peer, clock, asked):
    made = ThreadConnection(
        peer.ours,
        "broker:10911",
        limits=CLIENT_LIMITS,
        serialize_type=SerializeType.JSON,
        hooks=(),
        clock=clock,
        on_requests=asked.extend,
    )
    yield made
    made.close()
    eventually(lambda: peer.ours.fileno() == -1)


def exchange(connection, clock, body=b"x", seconds=PATIENCE):
    opaque = connection.next_opaque()
    return connection.exchange(opaque, request_frame(opaque, body), clock() + seconds)


def start(connection, clock, seconds=PATIENCE, body=b"x"):
    opaque, slot = connection.next_opaque(), Held(clock() + seconds)
    connection.start_request(opaque, request_frame(opaque, body), slot)
    return slot


def greeted(connection, clock, peer):
    """The peer has answered something."""
    slot = start(connection, clock)
    peer.answer(*peer.read())
    assert slot.done.wait(PATIENCE)


def in_thread(function, *args):
    outcome = []

    def run():
        try:
            outcome.append(function(*args))
        except BaseException as exc:  # noqa: BLE001 - handed to the test
            outcome.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.outcome = outcome
    return thread


def ended(thread):
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return thread.outcome[0]


@pytest.fixture
def started(connection, monkeypatch):
    """The threads that the thread of the test starts; clusters of other tests start theirs in other ones."""
    start, found, own = threading.Thread.start, [], threading.current_thread()

    def note(thread):
        if threading.current_thread() is own:
            found.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", note)
    return found


def test_a_caller_that_is_alone_reads_for_itself(connection, clock, peer, started):
    peer.answer_all()
    started.clear()  # the peer's own
    for number in range(100):
        assert exchange(connection, clock, b"%d" % number).body == b"%d" % number
    assert started == []
    assert len(connection) == 0


def begin(connection, clock, *bodies):
    opaques = [connection.next_opaque() for _ in bodies]
    frames = [(opaque, request_frame(opaque, body)) for opaque, body in zip(opaques, bodies, strict=True)]
    return list(zip(opaques, connection.begin(frames, clock() + PATIENCE), strict=True))


def test_a_caller_that_has_begun_several_reads_all_for_itself(connection, clock, peer, started):
    bodies = [b"%d" % number for number in range(8)]
    for _ in range(10):
        calls = begin(connection, clock, *bodies)
        peer.answer(*reversed(peer.read(8)))
        assert [connection.end(*call).body for call in calls] == bodies
    assert started == []
    assert len(connection) == 0


def test_what_was_begun_is_no_hindrance_to_others(connection, clock, peer):
    first, second, third = begin(connection, clock, b"1", b"2", b"3")
    requests = peer.read(3)
    other = in_thread(exchange, connection, clock, b"other")
    peer.answer(*peer.read())
    assert ended(other).body == b"other"
    assert connection.give_up(second[0])
    peer.answer(*requests)
    assert (connection.end(*third).body, connection.end(*first).body) == (b"3", b"1")
    assert len(connection) == 0


def test_what_was_begun_fails_with_the_connection(connection, clock, peer):
    calls = begin(connection, clock, b"1", b"2")
    peer.answer(peer.read(2)[0])
    peer.close()
    assert connection.end(*calls[0]).body == b"1"
    with pytest.raises(ConnectionLostError):
        connection.end(*calls[1])
    with pytest.raises(ConnectionLostError, match="nothing was sent"):
        begin(connection, clock, b"3")


def test_a_connection_that_is_retired_while_several_are_sent_is_closed(connection, clock, monkeypatch):
    append = connection._output.append

    def retired_meanwhile(frame):
        append(frame)
        connection.retire()  # as the loop of the client does with one that seems unused

    monkeypatch.setattr(connection._output, "append", retired_meanwhile)
    with pytest.raises(ConnectionLostError, match="nothing was sent"):
        begin(connection, clock, b"1", b"2")
    assert len(connection) == 0, "nobody waits for the first one either"
    assert connection.error is not None


def test_a_late_caller_gets_what_has_come_in_time(connection, clock, peer):
    (came, late) = begin(connection, clock, b"1", b"2")
    peer.answer(peer.read(2)[0])
    clock.ahead = 2 * PATIENCE
    assert connection.end(*came).body == b"1"
    with pytest.raises(RequestTimeoutError):
        connection.end(*late)


def test_many_threads_share_it_and_each_gets_its_own_answer(connection, clock, peer):
    peer.answer_all()

    def many(name):
        return [exchange(connection, clock, b"%d-%d" % (name, n)).body for n in range(200)]

    threads = [in_thread(many, name) for name in range(16)]
    for name, thread in enumerate(threads):
        assert ended(thread) == [b"%d-%d" % (name, n) for n in range(200)]


def test_answers_may_come_in_any_order(connection, clock, peer):
    slots = [start(connection, clock, body=b"%d" % number) for number in range(40)]
    connection.flush()
    peer.answer(*reversed(peer.read(40)))
    for number, slot in enumerate(slots):
        assert slot.done.wait(PATIENCE)
        assert [each.body for each in slot.results] == [b"%d" % number]


def test_frames_of_one_thread_leave_in_the_order_of_the_calls(connection, clock, peer):
    slots = [start(connection, clock, body=b"%d" % number) for number in range(300)]
    requests = peer.read(300)
    assert [each.body for each in requests] == [b"%d" % number for number in range(300)]
    peer.answer(*requests)
    assert all(slot.done.wait(PATIENCE) for slot in slots)


def test_a_single_frame_that_nobody_waits_for_leaves_soon(connection, clock, peer):
    slot = start(connection, clock)
    peer.answer(*peer.read())
    assert slot.done.wait(PATIENCE)
    assert slot.thread == "rocketpy-reader"


def test_a_large_frame_that_the_peer_reads_late_arrives_whole(connection, clock, peer):
    slot = start(connection, clock, body=b"y" * 8_000_000)
    time.sleep(0.05)
    [request] = peer.read()
    assert request.body == b"y" * 8_000_000
    peer.answer(request)
    assert slot.done.wait(PATIENCE)


def test_while_much_waits_to_be_written_it_is_not_usable(connection, clock, peer):
    assert connection.is_usable
    slot = start(connection, clock, body=b"y" * 8_000_000)
    assert not connection.is_usable
    peer.answer(*peer.read())
    assert slot.done.wait(PATIENCE)
    assert connection.is_usable


def test_a_caller_whose_answer_does_not_come_gets_a_timeout_that_says_what_is_unknown(connection, clock, peer):
    greeted(connection, clock, peer)
    began = time.monotonic()
    with pytest.raises(RequestTimeoutError, match=r"broker:10911.*may or may not"):
        exchange(connection, clock, seconds=0.2)
    assert 0.2 <= time.monotonic() - began < 5
    [late] = peer.read()
    assert len(connection) == 0
    peer.answer_all()
    peer.answer(late)  # of which nobody knows any more
    assert exchange(connection, clock, b"next").body == b"next"


def test_a_future_whose_answer_does_not_come_fails_at_its_deadline(connection, clock):
    slot = start(connection, clock, seconds=0.2)
    assert slot.done.wait(PATIENCE)
    assert isinstance(slot.results[0], RequestTimeoutError)


@pytest.mark.parametrize("waits", [True, False], ids=["caller", "future"])
def test_an_answer_that_has_arrived_counts_however_late_it_is_read(connection, clock, peer, waits):
    if waits:
        # The answer lies in the socket before the caller looks, and by then its deadline is over.
        opaque = connection.next_opaque()
        request = RemotingCommand(310, {}, b"x", opaque)
        request.serialize_type = SerializeType.JSON
        peer.socket.sendall(encode_command(request.answer(0, None, {}, b"x")))
        assert connection.exchange(opaque, request_frame(opaque), clock() - 1).body == b"x"
    else:
        slot = start(connection, clock, seconds=3)
        connection.flush()
        request = peer.read()
        clock.ahead = 100.0
        peer.answer(*request)
        assert slot.done.wait(PATIENCE)
        assert isinstance(slot.results[0], Frame | RequestTimeoutError)


def test_a_peer_that_has_never_answered_is_given_up_at_once(connection, clock):
    with pytest.raises(RequestTimeoutError):
        exchange(connection, clock, seconds=0.01)
    assert "has never sent anything" in str(connection.error)


def test_a_peer_that_stays_silent_is_given_up(connection, clock, peer):
    greeted(connection, clock, peer)
    with pytest.raises(RequestTimeoutError):
        exchange(connection, clock, seconds=0.01)
    clock.ahead = CLIENT_LIMITS.silence_timeout + 1
    with pytest.raises(RequestTimeoutError):
        exchange(connection, clock, seconds=0.01)
    assert "has sent nothing for 10 s" in str(connection.error)


def test_when_the_peer_closes_everybody_hears_that_the_outcome_is_unknown(connection, clock, peer):
    slot, caller = start(connection, clock), in_thread(exchange, connection, clock)
    peer.read(2)
    peer.close()
    assert slot.done.wait(PATIENCE)
    for error in (slot.results[0], ended(caller)):
        assert isinstance(error, ConnectionLostError)
        assert "may or may not" in str(error)
    with pytest.raises(ConnectionLostError, match="nothing was sent") as caught:
        exchange(connection, clock)
    assert caught.value.nothing_sent


def test_a_peer_that_closed_while_it_was_quiet_is_noticed_before_anything_is_sent(connection, clock, peer):
    peer.answer_all()
    exchange(connection, clock)
    clock.ahead = 30.0
    assert connection.is_usable
    peer.socket.shutdown(socket.SHUT_RDWR)
    clock.ahead = 60.0
    assert not connection.is_usable


def test_where_writing_finds_it_broken_its_socket_is_closed(connection, clock, peer):
    peer.close()
    opaque, slot = connection.next_opaque(), Held(clock() + PATIENCE)
    connection._send(opaque, request_frame(opaque), slot)
    connection.flush()
    assert isinstance(slot.results[0], ConnectionLostError)
    assert peer.ours.fileno() == -1


def test_a_caller_that_finds_it_broken_hears_of_it(connection, clock, peer):
    peer.close()
    with pytest.raises(ConnectionLostError):
        exchange(connection, clock)
    assert peer.ours.fileno() == -1


def test_bytes_that_are_no_frame_end_it(connection, clock, peer):
    slot = start(connection, clock)
    peer.read()
    peer.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n")
    assert slot.done.wait(PATIENCE)
    assert isinstance(connection.error, RemoteProtocolError)


def test_requests_of_the_peer_are_handed_over(connection, clock, peer, asked):
    slot = start(connection, clock)
    [request] = peer.read()
    peer.socket.sendall(request_frame(7, b"hello", code=40))
    peer.answer(request)
    assert slot.done.wait(PATIENCE)
    assert [(each.code, each.body) for each in asked] == [(40, b"hello")]


def test_retired_it_closes_when_the_last_answer_has_come(connection, clock, peer):
    slot = start(connection, clock)
    request = peer.read()
    connection.retire()
    assert connection.error is None
    with pytest.raises(ConnectionLostError, match="nothing was sent"):
        exchange(connection, clock)
    peer.answer(*request)
    assert slot.done.wait(PATIENCE)
    assert isinstance(slot.results[0], Frame)
    assert peer.socket.recv(1) == b""


def test_every_slot_is_completed_once_when_threads_close_it_under_load(connection, clock, peer):
    peer.answer_all()
    callers = [in_thread(lambda: [exchange(connection, clock) for _ in range(100_000)]) for _ in range(8)]
    slots = []
    while len(slots) < 500:
        slots.append(start(connection, clock))
    for closer in [in_thread(connection.close) for _ in range(4)]:
        ended(closer)
    for caller in callers:
        assert isinstance(ended(caller), ConnectionLostError)
    assert all(slot.done.wait(PATIENCE) for slot in slots)
    assert {len(slot.results) for slot in slots} == {1}


def test_a_signal_handler_may_send_while_the_caller_that_it_interrupts_reads(connection, clock, peer):
    answered = []

    def handler(number, frame):
        answered.append(exchange(connection, clock, b"inner").body)
        slot = start(connection, clock, body=b"soon")
        assert slot.done.wait(PATIENCE)

    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def serve():
            [outer] = peer.read()
            time.sleep(0.05)  # until it has nothing to do but to wait
            os.kill(os.getpid(), signal.SIGUSR1)
            peer.answer(*peer.read())
            peer.answer(*peer.read())
            peer.answer(outer)

        server = in_thread(serve)
        assert exchange(connection, clock, b"outer").body == b"outer"
        ended(server)
        assert answered == [b"inner"]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_within_the_lines_that_read_it_is_mine_and_not_somebody_elses(connection, clock, peer):
    seen = {}

    class Looks(Held):
        def complete(self, result):
            seen["reader"] = connection.is_mine
            in_thread(lambda: seen.setdefault("other", connection.is_mine)).join()
            super().complete(result)

    opaque, slot = connection.next_opaque(), Looks(clock() + PATIENCE)
    connection.start_request(opaque, request_frame(opaque), slot)
    peer.answer(*peer.read())
    assert slot.done.wait(PATIENCE)
    assert seen == {"reader": True, "other": False}
    assert not connection.is_mine


def test_an_exception_of_a_signal_handler_leaves_nothing_behind(connection, clock, peer):
    class Alarm(BaseException):
        pass

    def handler(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def serve():
            peer.read()
            os.kill(os.getpid(), signal.SIGUSR1)

        server = in_thread(serve)
        with pytest.raises(Alarm):
            exchange(connection, clock)
        ended(server)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(connection) == 0
    if connection.error is None:  # it struck while waiting, not within the lines that read
        peer.answer_all()
        assert exchange(connection, clock, b"next").body == b"next"


def test_the_thread_leaves_reading_to_a_caller_that_is_alone_again(connection, clock, peer):
    peer.answer_all()
    assert start(connection, clock).done.wait(PATIENCE)
    reading = connection._reading
    assert reading.active
    for _ in range(200):
        exchange(connection, clock)
    eventually(lambda: exchange(connection, clock) and not reading.active)
