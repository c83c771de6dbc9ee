"""The future of a `send_soon` or a `request_soon`: a `concurrent.futures.Future` whose callbacks have their own thread.

The thread that completes a future also reads the answers to all other sends, so users' code must not hold it up. The
thread for callbacks is started when the first one is added, so only those who have callbacks pay for it. It is not
started as late as when the first one is due, because the first releases of Python 3.12 start no threads once the
process has begun to end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from rocketpy.client.lifecycle import forks
from rocketpy.durations import duration_or_none
from rocketpy.errors import ClientClosedError
from rocketpy.logs import get_logger
from rocketpy.portal.waiting import LOOK, wait
from rocketpy.reprs import cut

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.sync.unseen import Failures, UnseenFailure

__all__ = ["Callbacks", "SendFuture", "Surroundings", "complete_all"]

logger = get_logger(__name__)

T = TypeVar("T")

_IDLE = 10.0
"""Seconds after which the thread ends if no callback is due or expected."""


class Callbacks:
    """Runs the done-callbacks of one producer, one after the other, in a thread that exists while there are any.

    Attributes:
        thread: the id of the thread, 0 while there is none.
        submitted: how many callbacks have been due so far, including those that `wait_idle` adds.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._due: deque[Callable[[], object]] = deque()
        self._more = threading.Semaphore(0)
        self._running = False
        self._lock = threading.RLock()
        self._busy = False
        self._closed = False
        self.thread = 0
        self.submitted = 0
        self._expected = 0

    def __len__(self) -> int:
        """How many are due or running."""
        return len(self._due) + self._busy

    def expect(self) -> None:
        """Start a thread, if possible, for a callback that will be submitted, or withdrawn by `expect_no_more`."""
        with suppress(RuntimeError):  # no thread can be started: tried again when it is due
            self._start(expected=1)

    def expect_no_more(self) -> None:
        """Withdraw an expected callback, which runs elsewhere."""
        with self._lock:
            self._expected -= 1

    def submit(self, callback: Callable[[], object]) -> None:
        """Call an expected callback soon. Never waits."""
        self._put(callback, expected=1)

    def _put(self, callback: Callable[[], object], *, expected: int = 0) -> None:
        with self._lock:
            self.submitted += 1
            self._due.append(callback)
        self._more.release()
        self._start(expected=-expected)

    def _start(self, *, expected: int) -> None:
        """Note how many more are expected, and start the thread if there is none."""
        start = False
        try:
            with self._lock:
                self._expected += expected
                start = not self._running
                self._running = True
            if start:
                threading.Thread(target=self._run, name=f"rocketpy-callbacks-{self._name}", daemon=True).start()
        except BaseException:
            # No thread can be started now, or this was Ctrl-C: the next callback tries again.
            if start:
                self._running = False
            raise

    def wait_idle(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the callbacks that are due; not at all in the thread that runs them.

        Returns:
            Whether they have run.
        """
        if not len(self):
            return True
        if self.thread == threading.get_ident():
            return False
        done = threading.Event()
        self._put(done.set)
        return wait(done, timeout)

    def close(self) -> None:
        """Let the thread end once the callbacks that are due have run."""
        self._closed = True
        self._more.release()

    def _run(self) -> None:
        with self._lock:
            if self.thread:
                return  # starting that thread was interrupted, and yet it runs
            self.thread = threading.get_ident()
            self._running = True
        before = forks()
        while (not self._closed and self._more.acquire(timeout=_IDLE)) or not self._may_end():
            if self._due:
                self._busy = True
                self._call(self._due.popleft())
                self._busy = False
                if forks() != before:
                    return  # a callback has forked, and this is the child: what is due belongs to the parent

    def _may_end(self) -> bool:
        with self._lock:
            if not self._due and (self._closed or self._expected <= 0):
                self._running = False
            if not self._running:  # or starting this thread was interrupted, and the next callback starts another one
                self.thread = 0
            return not self._running

    @staticmethod
    def _call(callback: Callable[[], object]) -> None:
        try:
            callback()
        except BaseException:  # SystemExit too, which would end this thread and so the other callbacks
            logger.exception("a done-callback of a send failed")


class Surroundings(NamedTuple):
    """What the futures of one producer have in common."""

    before_wait: Callable[[float | None], object]
    """Called by a thread that is about to wait for a future, with its timeout."""
    callbacks: Callbacks
    """Where done-callbacks run."""
    failures: Failures
    """Reports errors that nobody looks at."""
    forks: int
    """The number of forks before they were made."""


class _Adding:
    """A callback that is being added.

    Attributes:
        thread: the id of the thread that is adding it; 0 once it is added.
        is_expected: whether `Callbacks.expect` was called for it.
    """

    __slots__ = ("is_expected", "thread")

    def __init__(self, *, is_expected: bool) -> None:
        self.thread = threading.get_ident()
        self.is_expected = is_expected


_PENDING, _FINISHED = "PENDING", "FINISHED"
"""States of a Future, as the standard library spells them."""
_WHEN_WANTED: dict[str, Callable[[], object]] = {
    "_condition": threading.Condition,
    "_waiters": list,
    "_done_callbacks": list,
}
"""Attributes that a Future of the standard library has from the start, and that cost more than the rest of a send. Here
they are made on first use, when a thread waits for the future."""


class SendFuture(Future[T]):
    """Holds the outcome of one message: the SendResult, or the reply to a request.

    Most futures are not looked at before they are done; those have neither a lock nor lists.

    Args:
        surroundings: those of its producer.
        topic: the topic of the message, to be shown.
    """

    # Class attributes as defaults: there may be very many futures, and few need their own values.
    _failure: UnseenFailure | None = None
    _looked_at = False
    _is_wanted = False
    _state = _PENDING
    _result: T | None = None
    _exception: BaseException | None = None

    def __init__(self, surroundings: Surroundings, topic: str = "") -> None:
        # Future's own __init__ is not called, because it makes the attributes in `_WHEN_WANTED`.
        self._surroundings = surroundings
        self._topic = topic

    def __repr__(self) -> str:
        """The topic, and the outcome as far as it is known."""
        if not self.done():
            return f"<SendFuture to {self._topic}: under way>"
        error = self._exception
        outcome = repr(self._result) if error is None else f"{type(error).__name__}: {error}"
        return cut(f"<SendFuture to {self._topic}: {outcome}>")

    def __getattr__(self, name: str) -> Any:
        """Make a missing attribute; threads that ask for it at the same time get the same object."""
        make = _WHEN_WANTED.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._is_wanted = True  # first, so that a completion from here on wakes waiting threads
        return self.__dict__.setdefault(name, make())

    def complete(self, outcome: T | BaseException) -> None:
        """Complete the future. Not for users."""
        error = outcome if isinstance(outcome, BaseException) else None
        if error is not None and self._failure is None and not self._looked_at:
            self._failure = self._surroundings.failures.note(error)
        if self._is_wanted:
            with suppress(InvalidStateError):  # it is done: an earlier call was interrupted, or a user has set it
                self.set_result(cast("T", outcome)) if error is None else self.set_exception(error)
        elif self._state is _PENDING:
            if error is None:
                self._result = cast("T", outcome)
            else:
                self._exception = error
            self._state = _FINISHED  # last, so that a thread which waits from here on finds it done
            self._tell_late()

    def _tell_late(self) -> None:
        """Wake threads that began to wait just as the future was completed, and did not see it."""
        if not self._is_wanted:
            return
        with self._condition:
            for waiter in self._waiters:
                waiter.add_result(self) if self._exception is None else waiter.add_exception(self)
            self._condition.notify_all()
        self._invoke_callbacks()

    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self._state is _FINISHED or self._state == _FINISHED

    def cancel(self) -> bool:
        """Return False, because a message on its way cannot be recalled."""
        return False

    def running(self) -> bool:
        """Return whether the message is still on its way."""
        return not self.done()

    def result(self, timeout: float | timedelta | None = None) -> T:
        """Return the result of the send, or the reply, after waiting up to `timeout` seconds for it.

        Raises:
            RocketMQError: the message was not acknowledged, as in `Producer.send`, or not replied to.
            TimeoutError: there is no answer yet. The message is still on its way.
            ConfigError: this is a hook in a background thread of rocketpy, which takes the answer and so would wait for
                itself. The message is still on its way.
        """
        if self._state is _FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]  # no lock: it costs as much as the rest
        self._check_process()
        seconds = duration_or_none(timeout)
        self._before_wait(seconds)
        self._look()
        try:
            return super().result(self._wait(seconds))
        finally:
            del self  # the traceback of an error refers to this frame: leave no cycle

    def exception(self, timeout: float | timedelta | None = None) -> BaseException | None:
        """Return why it failed, or None if it did not. Waits as `result` does."""
        self._check_process()
        seconds = duration_or_none(timeout)
        self._before_wait(seconds)
        self._look()
        return super().exception(self._wait(seconds))

    def _wait(self, timeout: float | None) -> float | None:
        """Wait in short turns, so that signals are noticed. Returns what is left of the timeout for the last turn."""
        end = None if timeout is None else monotonic() + timeout
        while not self.done() and (end is None or end - monotonic() > LOOK):
            with suppress(TimeoutError):
                super().exception(LOOK)
        return None if end is None else end - monotonic()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call a function with this future when it is done, in a thread of the producer.

        If it is done already, the function is called at once, in the current thread.
        """
        self._look()
        self._add(fn)

    def when_known(self, fn: Callable[[T | None, BaseException | None], object]) -> None:
        """Call a function with the outcome; this does not count as looking at it. Not for users."""
        self._add(lambda future: fn(future._result, future._exception))

    def _add(self, fn: Callable[[Future[T]], object]) -> None:
        adding = _Adding(is_expected=not self.done())
        if adding.is_expected:
            self._surroundings.callbacks.expect()
        super().add_done_callback(partial(self._hand_over, fn, adding))
        adding.thread = 0

    def _check_process(self) -> None:
        """Refuse to wait in a forked child, because only its parent learns the outcome.

        Raises:
            ClientClosedError: the future is not done, and this process was forked after it was made.
        """
        # Does not take the lock, which another thread may have held during the fork.
        if not self.done() and self._surroundings.forks != forks():
            raise ClientClosedError(
                "this message was sent before a fork, and only the parent process learns its outcome: ask its future "
                "there"
            )

    def _before_wait(self, timeout: float | None) -> None:
        """Make sure that the message is being sent, and that this thread may wait for it."""
        if not self.done():
            self._surroundings.before_wait(timeout)

    def _look(self) -> None:
        """Note that the program has asked for the outcome."""
        self._looked_at = True
        if self._failure is not None:
            self._failure.seen = True

    def _hand_over(self, fn: Callable[[Future[T]], object], adding: _Adding, future: Future[T]) -> None:
        """Called by the thread that completes the future, or at once by the one that adds the callback."""
        if adding.thread == threading.get_ident():
            if adding.is_expected:
                self._surroundings.callbacks.expect_no_more()
            fn(future)
        else:
            self._surroundings.callbacks.submit(partial(fn, future))


def complete_all(futures: Iterable[SendFuture[T]], outcomes: Iterable[T]) -> None:
    """Complete many futures with results, not errors. Cheaper than `complete` for each. Not for users."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future._is_wanted or future._state is not _PENDING:
            future.complete(outcome)
        else:
            future._result = outcome
            future._state = _FINISHED  # last: a thread that waits from here on finds it done
            future._tell_late()
