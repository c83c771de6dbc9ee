"""The thread for done-callbacks is there before one is due: at its end a process may start none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from rocketpy.client.lifecycle import forks
from rocketpy.message import MessageQueue
from rocketpy.results import SendResult, SendStatus
from rocketpy.sync import future as future_module
from rocketpy.sync.future import Callbacks, SendFuture, Surroundings
from rocketpy.sync.unseen import Failures

RESULT = SendResult(SendStatus.SEND_OK, "id", "offset id", MessageQueue("T", "broker-a", 0), 0)


@pytest.fixture
def callbacks() -> Iterator[Callbacks]:
    made = Callbacks("tested")
    yield made
    made.close()


@pytest.fixture
def future(callbacks: Callbacks) -> SendFuture:
    return SendFuture(Surroundings(lambda _timeout: None, callbacks, Failures("tested"), forks()))


START = threading.Thread.start


def is_tested(thread: threading.Thread) -> bool:
    """Whether it is of these tests: clusters of others start threads too."""
    return thread.name == "rocketpy-callbacks-tested"


def no_more_threads(thread: threading.Thread) -> None:
    if is_tested(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")
    START(thread)


def test_a_callback_runs_though_no_thread_can_be_started_any_more(
    future: SendFuture, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = threading.Event()
    future.add_done_callback(lambda _future: called.set())
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    future.complete(RESULT)
    assert called.wait(10)


def test_the_thread_stays_while_one_may_become_due(future: SendFuture, callbacks: Callbacks) -> None:
    called = threading.Event()
    future.add_done_callback(lambda _future: called.set())
    assert not callbacks._may_end()
    future.complete(RESULT)
    assert called.wait(10)
    assert callbacks.wait_idle(10)
    assert callbacks._may_end()


def test_a_callback_can_be_added_where_no_thread_can_be_started(
    future: SendFuture, callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        future.add_done_callback(lambda _future: called.set())
    future.complete(RESULT)
    assert called.wait(10)


def test_one_that_is_called_at_once_is_waited_for_by_nobody(future: SendFuture, callbacks: Callbacks) -> None:
    future.complete(RESULT)
    future.add_done_callback(lambda _future: None)
    assert callbacks.thread == 0
    assert callbacks._may_end()


def test_a_thread_whose_start_was_interrupted_lets_the_next_one_run_when_it_ends(
    callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, started = threading.Event(), []
    monkeypatch.setattr(future_module, "_IDLE", 0.01)

    def struck(thread: threading.Thread) -> None:
        """Ctrl-C while the caller waits for the thread, which runs already."""
        START(thread)
        if not is_tested(thread):
            return
        while not callbacks.thread:
            time.sleep(0)
        started.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", struck)
        with pytest.raises(KeyboardInterrupt):
            callbacks.expect()
    started[0].join(10)
    assert not started[0].is_alive()
    callbacks.submit(ran.set)
    assert ran.wait(10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_child_of_a_callback_that_forks_ends_with_it_and_runs_none_of_its_parents(callbacks: Callbacks) -> None:
    readable, writable = os.pipe()
    parent, children = os.getpid(), []

    def fork() -> None:
        child = os.fork()
        if child:
            children.append(child)

    for _ in range(2):
        callbacks.expect()
    callbacks.submit(fork)  # one more is expected: the thread stays
    callbacks._put(lambda: os.write(writable, b"p" if os.getpid() == parent else b"c"))
    assert callbacks.wait_idle(10)
    os.close(writable)
    assert os.waitpid(children[0], 0)[1] == 0
    with open(readable, "rb") as written:
        assert written.read() == b"p"


@pytest.mark.waits("it is the length of a wait in a thread that is tested")
def test_a_future_is_waited_for_as_long_as_was_asked(future: SendFuture, monkeypatch: pytest.MonkeyPatch) -> None:
    """In short turns, in between which signals are noticed."""
    monkeypatch.setattr("rocketpy.sync.future.LOOK", 0.01)
    for wait in (future.result, future.exception):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            wait(0.055)
        assert time.monotonic() - began >= 0.05
    threading.Timer(0.05, future.complete, [RESULT]).start()
    assert future.exception() is None
    assert future.result(0) is RESULT


def test_callbacks_stay_one_after_the_other_though_ctrl_c_strikes_as_their_thread_starts(
    future: SendFuture, callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()

    def struck(thread: threading.Thread) -> None:
        START(thread)
        if is_tested(thread):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", struck)
        with pytest.raises(KeyboardInterrupt):
            future.add_done_callback(lambda _future: None)
    callbacks.submit(lambda: threads.add(threading.get_ident()))
    for _ in range(2):
        future.add_done_callback(lambda _future: threads.add(threading.get_ident()))
        assert callbacks.wait_idle(10)
    future.complete(RESULT)
    assert callbacks.wait_idle(10)
    callbacks.close()
    named = [each for each in threading.enumerate() if each.name == "rocketpy-callbacks-tested"]
    for each in named:
        each.join(10)
    assert len(threads) == 1
    assert not any(each.is_alive() for each in named)


def test_ctrl_c_as_a_callback_is_submitted_keeps_none_from_running(callbacks: Callbacks) -> None:
    class Struck:
        """A lock behind which a signal handler runs once, as CPython calls handlers when `with` has ended."""

        def __init__(self) -> None:
            self.lock = threading.RLock()
            self.left = 2

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_error: object) -> None:
            self.lock.release()
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    called = threading.Event()
    callbacks._lock = Struck()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        callbacks.submit(lambda: None)
    callbacks.submit(called.set)
    assert called.wait(10)
