"""The portal: calls, posts, context managers held open, cancellation, forks."""

from __future__ import annotations

import os
import signal
import threading
import traceback

import pytest
import trio
import trio.lowlevel

from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.portal import Opened, Portal, portal


@pytest.fixture
def home():
    made = Portal()
    made.start()
    yield made
    made.close()


def test_a_call_returns_what_the_function_returns(home):
    async def add(a, b):
        await trio.lowlevel.checkpoint()
        return a + b

    assert home.call(add, 1, b=2) == 3


def test_an_error_keeps_its_type_and_its_traceback(home):
    async def innermost():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone") as caught:
        home.call(innermost)
    assert "innermost" in "".join(traceback.format_tb(caught.tb))


def test_posts_run_in_order_and_wake_the_loop_once_for_all(home):
    seen, gathered = [], threading.Event()
    for number in range(1000):
        home.post(seen.append, number)
    home.post(gathered.set)
    assert gathered.wait(10)
    assert seen == list(range(1000))


def test_many_threads_call_at_once(home):
    results = []

    async def echo(number):
        await trio.lowlevel.checkpoint()
        return number

    threads = [threading.Thread(target=lambda n=n: results.append(home.call(echo, n))) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(results) == list(range(50))


def test_an_interrupt_in_the_waiting_thread_cancels_the_call_and_waits_for_its_end(home):
    ended = threading.Event()

    async def wait_for_ever():
        try:
            home_thread_runs.set()
            await trio.sleep_forever()
        finally:
            ended.set()

    home_thread_runs = threading.Event()
    main = threading.main_thread().ident

    def interrupt():
        home_thread_runs.wait(10)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        home.call(wait_for_ever)
    assert ended.is_set()


class Held:
    def __init__(self, *, enter_error=None, exit_error=None):
        self.enter_error, self.exit_error = enter_error, exit_error
        self.tasks, self.seen = [], []

    async def __aenter__(self):
        self.tasks.append(trio.lowlevel.current_task())
        if self.enter_error:
            raise self.enter_error
        return "value"

    async def __aexit__(self, kind, error, tb):
        self.tasks.append(trio.lowlevel.current_task())
        self.seen.append(error)
        if self.exit_error:
            raise self.exit_error


def test_a_manager_is_entered_and_left_by_one_task(home):
    held = Held()
    opened = Opened(home, held).open()
    assert opened.value == "value"
    opened.close()
    assert held.tasks[0] is held.tasks[1]
    assert held.seen == [None]


def test_a_manager_that_cannot_be_entered_says_so(home):
    with pytest.raises(OSError, match="no"):
        Opened(home, Held(enter_error=OSError("no"))).open()


@pytest.mark.parametrize(
    "error", [ValueError("body"), GeneratorExit(), SystemExit(3), BaseExceptionGroup("", [KeyboardInterrupt()])]
)
def test_a_manager_sees_that_the_body_failed_and_nothing_of_what_ended_it(home, error):
    held, other = Held(), Opened(home, Held()).open()
    Opened(home, held).open().close(error)
    [seen] = held.seen
    assert isinstance(seen, Exception)
    assert seen is not error
    assert home.is_usable
    other.close()


def test_a_manager_may_have_an_error_of_its_own(home):
    with pytest.raises(OSError, match="exit"):
        Opened(home, Held(exit_error=OSError("exit"))).open().close()


def test_a_service_that_crashes_is_reported_when_the_manager_is_left(home):
    class Crashing:
        async def __aenter__(self):
            self.nursery = trio.open_nursery()
            inner = await self.nursery.__aenter__()
            inner.start_soon(self.crash)

        async def crash(self):
            raise RuntimeError("bug")

        async def __aexit__(self, *error):
            return await self.nursery.__aexit__(*error)

    opened = Opened(home, Crashing()).open()
    with pytest.raises(ExceptionGroup):
        opened.close()


def test_closing_the_portal_ends_calls_with_an_error_not_with_nothing(home):
    started = threading.Event()
    outcome = []

    async def wait_for_ever():
        started.set()
        await trio.sleep_forever()

    def caller():
        try:
            outcome.append(home.call(wait_for_ever))
        except ClientClosedError as error:
            outcome.append(error)

    thread = threading.Thread(target=caller)
    thread.start()
    started.wait(10)
    home.close()
    thread.join(10)
    assert isinstance(outcome[0], ClientClosedError)
    with pytest.raises(ClientClosedError):
        home.call(wait_for_ever)


def test_a_blocking_call_from_the_portal_itself_is_refused(home):
    caught = []

    async def nothing():
        pass

    def inside():
        try:
            home.call(nothing)
        except ConfigError as error:
            caught.append(error)
        done.set()

    done = threading.Event()
    home.post(inside)
    assert done.wait(10)
    assert caught


def test_one_portal_for_a_process():
    assert portal() is portal()


def test_threat_L12_a_forked_child_has_a_portal_of_its_own():
    parents = portal()

    async def pid():
        return os.getpid()

    assert parents.call(pid) == os.getpid()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fresh = portal()
            good = fresh is not parents and fresh.call(pid) == os.getpid() and not parents.is_usable
            try:
                parents.post(lambda: None)
            except ClientClosedError:
                status = 0 if good else 2
        finally:
            os.write(write, bytes([status]))
            os._exit(status)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"\x00"
    os.close(read)
    os.close(write)
    assert parents.call(pid) == os.getpid()


def test_threat_L12_a_call_in_a_child_is_refused_also_when_the_fork_struck_before_a_wakeup():
    parents = Portal()
    parents.start()
    forked = threading.Event()
    parents.post(forked.wait)
    parents.post(lambda: None)  # from here on, a wake-up is under way: later posts rely on it
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        signal.alarm(10)
        try:
            parents.call(trio.lowlevel.checkpoint)
        except ClientClosedError:
            status = 0
        finally:
            os.write(write, bytes([status]))
            os._exit(status)
    forked.set()
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 1) == b"\x00"
    os.close(read)
    parents.close()


def test_an_interrupt_right_after_entering_leaves_the_manager_again(home, monkeypatch):
    left = threading.Event()

    class Manager:
        async def __aenter__(self):
            await trio.lowlevel.checkpoint()

        async def __aexit__(self, *error):
            left.set()

    def interrupted(function, *args):
        Portal.call(home, function, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(home, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Opened(home, Manager()).open()
    assert left.wait(5)


def test_an_interrupt_before_leaving_begins_leaves_the_manager_all_the_same(home, monkeypatch):
    left = threading.Event()

    class Manager:
        async def __aenter__(self):
            await trio.lowlevel.checkpoint()

        async def __aexit__(self, *error):
            left.set()

    def interrupted(function, *args):
        raise KeyboardInterrupt

    opened = Opened(home, Manager()).open()
    monkeypatch.setattr(home, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.close()
    assert left.wait(5)


def test_an_interrupt_of_a_wake_up_is_none_for_others_who_relied_on_it(home, monkeypatch):
    arrived = threading.Event()

    class Token:
        """Interrupts the first wake-up, when another thread has posted behind it."""

        def __init__(self, real):
            self.real = real

        def run_sync_soon(self, function, *, idempotent=False):
            monkeypatch.setattr(home, "_token", self.real)
            other = threading.Thread(target=home.post, args=(arrived.set,))
            other.start()
            other.join()
            raise KeyboardInterrupt

    monkeypatch.setattr(home, "_token", Token(home._token))
    with pytest.raises(KeyboardInterrupt):
        home.post(lambda: None)
    assert arrived.wait(5)


@pytest.mark.waits("looks until another thread has come to a place")
def test_a_finalizer_that_holds_up_who_wakes_the_loop_wakes_it_itself(home):
    """It has interrupted a thread that holds a lock of trio's. The thread that should wake the loop waits for it."""
    answers = []

    async def answer():
        await trio.lowlevel.checkpoint()
        return "answer"

    def struck():
        with home._token._reentry_queue.lock:
            waker = threading.Thread(target=home.post, args=[list], daemon=True)
            waker.start()
            while not home._awake:
                waker.join(0.001)
            answers.append(home.call(answer))
        waker.join(10)

    home.call(answer)  # so that it sleeps, and has to be woken
    thread = threading.Thread(target=struck, daemon=True)
    thread.start()
    thread.join(10)
    assert answers == ["answer"]
