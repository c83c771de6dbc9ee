"""The thread for done-callbacks is there before one is due: at its end a process may start none."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rocketpy.client.lifecycle import forks
from rocketpy.message import MessageQueue
from rocketpy.results import SendResult, SendStatus
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
    return SendFuture(Surroundings(lambda: None, callbacks, Failures("tested"), forks()))


def no_more_threads(_thread: threading.Thread) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


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
