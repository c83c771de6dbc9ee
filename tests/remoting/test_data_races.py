"""Moments at which a data connection of threads could lose something, each brought about on purpose."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from rocketpy.errors import ConnectionLostError, RequestTimeoutError
from rocketpy.remoting.data.call import Call
from rocketpy.remoting.data.waiting import WaitingRequests
from rocketpy.sync.direct import DirectSends
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.serialize import encode_command
from tests.remoting.test_thread_connection import (  # noqa: F401 - fixtures
    PATIENCE,
    asked,
    clock,
    connection,
    ended,
    eventually,
    exchange,
    in_thread,
    peer,
    start,
)


class AtRelease:
    """A lock that calls a function before it is released the first time."""

    def __init__(self, lock, function):
        self._lock, self._function = lock, function

    def acquire(self, *args):
        return self._lock.acquire(*args)

    def release(self):
        function, self._function = self._function, lambda: None
        function()
        self._lock.release()

    def locked(self):
        return self._lock.locked()


def test_a_frame_that_comes_while_the_flusher_ends_its_turn_is_written(connection, clock, peer):  # noqa: F811
    output, came = connection._output, []

    def comes():
        came.append(in_thread(exchange, connection, clock, b"second"))
        eventually(lambda: len(connection) == 2)
        eventually(lambda: connection._reading.active)

    output._role = AtRelease(output._role, comes)
    start(connection, clock, body=b"first")  # the flusher writes it
    assert [each.body for each in peer.read(2)] == [b"first", b"second"]


def waits_for_all(connection, clock, slots):  # noqa: F811
    """A finalizer that waits for a request of its own, and for those of the code that it has interrupted."""
    slots.append(start(connection, clock, body=b"of the finalizer"))
    connection.flush()
    assert slots[-1].done.wait(PATIENCE)
    assert exchange(connection, clock, b"another one").body == b"another one"
    assert all(slot.done.wait(PATIENCE) for slot in slots)


def test_a_finalizer_that_strikes_before_the_reader_is_called_gets_answers(connection, clock, peer, monkeypatch):  # noqa: F811
    peer.answer_all()
    flush_later = connection._output.flush_later

    def struck():
        (slot,) = connection._slots.values()
        flush_later()
        connection.flush()
        assert slot.done.wait(PATIENCE)

    monkeypatch.setattr(connection._output, "flush_later", struck)
    start(connection, clock)


@pytest.mark.parametrize("name", ["rocketpy-reader", "rocketpy-writer"])
@pytest.mark.parametrize("moment", ["__init__", "start"])
def test_a_finalizer_that_strikes_while_a_thread_begins_gets_answers(
    name,
    moment,
    connection,  # noqa: F811
    clock,  # noqa: F811
    peer,  # noqa: F811
    monkeypatch,
):
    peer.answer_all()
    slots, strikes = [], [lambda: waits_for_all(connection, clock, slots)]

    class Thread(threading.Thread):
        def __init__(self, *args, **keywords):
            self.strikes(keywords["name"], "__init__")
            super().__init__(*args, **keywords)

        def start(self):
            self.strikes(self.name, "start")
            super().start()

        def strikes(self, *where):
            if where == (name, moment) and strikes:
                strikes.pop()()

    monkeypatch.setattr("rocketpy.remoting.data.late_thread.threading.Thread", Thread)
    slots.append(start(connection, clock))
    assert not strikes
    assert all(slot.done.wait(PATIENCE) for slot in slots)
    monkeypatch.undo()
    connection.close()
    eventually(lambda: not {each.name for each in threading.enumerate()} & {"rocketpy-reader", "rocketpy-writer"})


def test_a_call_whose_connection_goes_before_it_waits_ends_as_any_other(connection, clock, peer, monkeypatch):  # noqa: F811
    flush = connection._output.flush

    def flush_and_go():
        flush()
        connection.close()

    monkeypatch.setattr(connection._output, "flush", flush_and_go)
    with pytest.raises(ConnectionLostError, match="may or may not"):
        exchange(connection, clock)


def test_what_is_written_before_the_connection_goes_is_not_called_unsent(connection, clock, peer, monkeypatch):  # noqa: F811
    output, closing, goes_on = connection._output, [], threading.Event()
    append, close = output.append, output.close

    def written_and_gone(frame):
        append(frame)
        output.flush()  # by another thread, which then begins to close
        closing.append(in_thread(connection.close))
        eventually(lambda: connection.error is not None)

    def close_later():
        assert goes_on.wait(PATIENCE)
        close()

    monkeypatch.setattr(output, "append", written_and_gone)
    monkeypatch.setattr(output, "close", close_later)
    try:
        slot = start(connection, clock, body=b"written")
    finally:
        goes_on.set()
        ended(closing[0])
    assert peer.read()[0].body == b"written"
    assert not slot.results[0].nothing_sent


def test_a_connection_that_goes_while_a_request_begins_sends_nothing(connection, clock, peer, monkeypatch):  # noqa: F811
    class Going(dict):
        def __setitem__(self, opaque, slot):
            connection._slots = before
            connection.close()  # by another thread, which does not see the slot any more
            before[opaque] = slot

    before = connection._slots
    monkeypatch.setattr(connection, "_slots", Going())
    with pytest.raises(ConnectionLostError, match="nothing was sent") as caught:
        start(connection, clock)
    assert caught.value.nothing_sent
    assert not connection._output._frames
    assert len(connection) == 0


def test_the_socket_of_a_broken_connection_is_closed_by_who_writes(connection, clock, peer):  # noqa: F811
    exchange_ended = in_thread(exchange, connection, clock)
    peer.answer(*peer.read())
    ended(exchange_ended)
    peer.close()
    with pytest.raises(ConnectionLostError):
        exchange(connection, clock)
    eventually(lambda: peer.ours.fileno() == -1)


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "soon"])
def test_retired_it_closes_when_the_last_request_has_run_out_of_time(connection, clock, peer, waits):  # noqa: F811
    if waits:
        caller = in_thread(exchange, connection, clock, b"x", 0.2)
        peer.read()
        connection.retire()
        assert isinstance(ended(caller), RequestTimeoutError)
    else:
        slot = start(connection, clock, seconds=0.2)
        peer.read()
        connection.retire()
        assert slot.done.wait(PATIENCE)
    eventually(lambda: connection.error is not None)
    assert peer.socket.recv(1) == b""


def test_what_strikes_while_it_is_looked_at_stays_out_of_it(connection, clock, peer, monkeypatch):  # noqa: F811
    seen = []

    def cut():
        # As a signal handler does that sends: it asks whether the connection may be used, then whose it is.
        seen.append((connection.is_usable, connection.is_mine, connection.is_mine))
        connection._reading._cutting.release()
        return False

    clock.ahead = 30.0
    monkeypatch.setattr(connection._reading, "_cut", cut)
    assert connection.is_usable
    assert seen == [(True, True, True)]
    assert not connection.is_mine


@pytest.mark.parametrize("name", ["rocketpy-reader", "rocketpy-writer"])
def test_where_no_thread_can_be_had_nobody_waits_for_it(connection, clock, peer, monkeypatch, name):  # noqa: F811
    real = threading.Thread.start

    def refuse(thread):
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    slot = start(connection, clock)
    assert slot.done.wait(PATIENCE)
    assert isinstance(slot.results[0], ConnectionLostError)
    assert "can't start new thread" in str(connection.error)


def test_a_reader_that_fails_ends_its_connection_and_says_so(connection, clock, peer, caplog, monkeypatch):  # noqa: F811
    slot = start(connection, clock)
    [request] = peer.read()

    def broken(data):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(connection._waiting, "take", broken)
    peer.answer(request)
    assert slot.done.wait(PATIENCE)
    assert isinstance(slot.results[0], ConnectionLostError)
    eventually(lambda: "the thread that reads from broker:10911 failed" in caplog.text)


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_an_answer_that_ctrl_c_strikes_is_given_to_its_caller(first):
    class Struck(dict):
        def pop(self, *args):
            super().pop(*args)
            raise KeyboardInterrupt  # as a signal handler does that runs as soon as this has returned

    waiting, call = WaitingRequests(WireLimits()), Call(0.0)
    waiting.slots = Struck({5: call})
    if not first:
        waiting.slots = {5: call}
        whole = call.complete

        class Late:
            deadline, strikes = 0.0, [True]

            def complete(self, result):
                whole(result)
                if self.strikes:
                    self.strikes.pop()
                    raise KeyboardInterrupt

        waiting.slots[5] = Late()
    request = RemotingCommand(10, {}, b"", 5)
    request.serialize_type = SerializeType.JSON
    with pytest.raises(KeyboardInterrupt):
        waiting.take(encode_command(request.answer(1, "no", {}, b"body")))
    assert call.result is not None
    assert call.lock.acquire(False)


def test_two_that_wait_for_the_sends_of_others_both_hear_of_their_end():
    direct = DirectSends.__new__(DirectSends)
    direct.core = SimpleNamespace(clock=time.monotonic)
    direct._closing, direct._calls = [], {1: 0}
    waiters = [in_thread(direct.wait_calls, PATIENCE * 2) for _ in range(2)]
    eventually(lambda: len(direct._closing) == 2)
    direct._calls.clear()
    for each in direct._closing:
        each.set()
    assert [ended(waiter) for waiter in waiters] == [0, 0]
    assert direct._closing == []
