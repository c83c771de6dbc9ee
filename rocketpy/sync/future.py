"""The future of a `send_soon` or a `request_soon`: a `concurrent.futures.Future` whose callbacks have their own thread.

The thread that completes it reads the answers of everybody else, and users' code must not hold it up. The thread for
callbacks is made when the first one is added, so only those who have callbacks pay for it. When the first one is due
it may be too late: the first releases of Python 3.12 start no thread any more once the process has begun to end.
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
from rocketpy.errors import ClientClosedError
from rocketpy.logs import get_logger
from rocketpy.portal.waiting import LOOK, wait

if TYPE_CHECKING:
    from rocketpy.sync.unseen import Failure, Failures

__all__ = ["Callbacks", "SendFuture", "Surroundings", "complete_all"]

logger = get_logger(__name__)

T = TypeVar("T")

_IDLE = 10.0
"""Seconds after which the thread ends when no callback is due and none can become due."""


class Callbacks:
    """Runs the done-callbacks of one producer, one after the other, in a thread that is there while they come.

    Attributes:
        thread: the thread, 0 while there is none.
        submitted: how many there have been; one that somebody waits by counts as well.
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
        """How many are due or at work."""
        return len(self._due) + self._busy

    def expect(self) -> None:
        """One will be due, or is given up by `expect_no_more`: have a thread for it, if there can be one."""
        with suppress(RuntimeError):  # no more threads can be had: tried again when it is due
            self._start(expected=1)

    def expect_no_more(self) -> None:
        """One that was expected runs elsewhere."""
        with self._lock:
            self._expected -= 1

    def submit(self, callback: Callable[[], object]) -> None:
        """Have one called soon that was expected. Never waits."""
        self._put(callback, expected=1)

    def _put(self, callback: Callable[[], object], *, expected: int = 0) -> None:
        with self._lock:
            self.submitted += 1
            self._due.append(callback)
        self._more.release()
        self._start(expected=-expected)

    def _start(self, *, expected: int) -> None:
        """Note how many more are expected, and have a thread."""
        with self._lock:
            self._expected += expected
            start = not self._running
            self._running = True
        if start:
            try:
                threading.Thread(target=self._run, name=f"rocketpy-callbacks-{self._name}", daemon=True).start()
            except BaseException:
                # No more threads can be had just now, or Ctrl-C struck: the next one that is due tries again.
                self._running = False
                raise

    def wait_idle(self, timeout: float) -> bool:
        """Wait for those that are due, at most so many seconds; not at all in the thread that runs them.

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
        """Let the thread end when those that are due have run."""
        self._closed = True
        self._more.release()

    def _run(self) -> None:
        with self._lock:
            if self.thread:
                return  # the start of that one was interrupted, and it runs all the same
            self.thread = threading.get_ident()
            self._running = True
        before = forks()
        while (not self._closed and self._more.acquire(timeout=_IDLE)) or not self._may_end():
            if self._due:
                self._busy = True
                self._call(self._due.popleft())
                self._busy = False
                if forks() != before:
                    return  # a child, which a callback has made: what is due belongs to its parent

    def _may_end(self) -> bool:
        with self._lock:
            if not self._due and (self._closed or self._expected <= 0):
                self._running = False
                self.thread = 0
            return not self._running

    @staticmethod
    def _call(callback: Callable[[], object]) -> None:
        try:
            callback()
        except BaseException:  # SystemExit too: it would end this thread, and with it the callbacks of others
            logger.exception("a done-callback of a send failed")


class Surroundings(NamedTuple):
    """What the futures of one producer have in common."""

    before_wait: Callable[[], object]
    """Called by a thread that is about to wait for one."""
    callbacks: Callbacks
    """Where done-callbacks run."""
    failures: Failures
    """Told of an error that nobody looks at."""
    forks: int
    """Before which they were made."""


class _Adding:
    """A callback that is being added.

    Attributes:
        thread: which adds it; 0 when it is added.
        is_expected: whether the thread for callbacks has been told of it.
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
"""Attributes that a Future of the standard library makes at once, and that cost more than the rest of a send. Here they
are made when a thread waits for the future."""


class SendFuture(Future[T]):
    """Holds the outcome of one message: the SendResult, or the reply to a request.

    Most futures are not asked before they are done, and those have neither a lock nor lists.

    Args:
        surroundings: of its producer.
    """

    # Class attributes as defaults: there may be very many futures, and few need their own values.
    _failure: Failure | None = None
    _looked_at = False
    _is_wanted = False
    _state = _PENDING
    _result: T | None = None
    _exception: BaseException | None = None

    def __init__(self, surroundings: Surroundings) -> None:
        # Future's own __init__ is not called: it makes what `_WHEN_WANTED` has.
        self._surroundings = surroundings

    def __getattr__(self, name: str) -> Any:
        """Make a missing attribute; threads that ask for it at the same time get the same object."""
        make = _WHEN_WANTED.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._is_wanted = True  # first: a completion from here on wakes the threads that wait
        return self.__dict__.setdefault(name, make())

    def complete(self, outcome: T | BaseException) -> None:
        """Complete the future. Not for users."""
        error = outcome if isinstance(outcome, BaseException) else None
        if error is not None and self._failure is None and not self._looked_at:
            self._failure = self._surroundings.failures.note(error)
        if self._is_wanted:
            with suppress(InvalidStateError):  # it is done: a call of this was interrupted, or a user has set it
                self.set_result(cast("T", outcome)) if error is None else self.set_exception(error)
        elif self._state is _PENDING:
            if error is None:
                self._result = cast("T", outcome)
            else:
                self._exception = error
            self._state = _FINISHED  # last: a thread that waits from here on finds it done
            self._tell_late()

    def _tell_late(self) -> None:
        """Wake threads that began to wait just before the future was done, without having seen that."""
        if not self._is_wanted:
            return
        with self._condition:
            for waiter in self._waiters:
                waiter.add_result(self) if self._exception is None else waiter.add_exception(self)
            self._condition.notify_all()
        self._invoke_callbacks()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._state is _FINISHED or self._state == _FINISHED

    def cancel(self) -> bool:
        """False: a message on its way cannot be called back."""
        return False

    def running(self) -> bool:
        """Whether the message is on its way."""
        return not self.done()

    def result(self, timeout: float | None = None) -> T:
        """What the broker said, or the reply; waits for it, at most `timeout` seconds.

        Raises:
            RocketMQError: the message was not acknowledged, as in `Producer.send`, or not replied to.
            TimeoutError: there is no answer yet. The message is still on its way.
        """
        if self._state is _FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]  # without the lock, which costs as much as the rest
        self._check_process()
        self._look()
        try:
            return super().result(self._wait(timeout))
        finally:
            del self  # the traceback of an error refers to this frame: no cycle may stay behind

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why it failed, None when it did not; waits as `result` does."""
        self._check_process()
        self._look()
        return super().exception(self._wait(timeout))

    def _wait(self, timeout: float | None) -> float | None:
        """Wait in short turns, in which a signal is noticed; how much of the timeout is left for the last one."""
        end = None if timeout is None else monotonic() + timeout
        while not self.done() and (end is None or end - monotonic() > LOOK):
            with suppress(TimeoutError):
                super().exception(LOOK)
        return None if end is None else end - monotonic()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have a function called with this future when it is done, in a thread of the producer's own.

        When it is done already, the function is called at once, in this thread.
        """
        self._look(waits=False)
        self._add(fn)

    def when_known(self, fn: Callable[[T | None, BaseException | None], object]) -> None:
        """Call a function with the outcome, which does not count as a look at the outcome. Not for users."""
        self._add(lambda future: fn(future._result, future._exception))

    def _add(self, fn: Callable[[Future[T]], object]) -> None:
        adding = _Adding(is_expected=not self.done())
        if adding.is_expected:
            self._surroundings.callbacks.expect()
        super().add_done_callback(partial(self._hand_over, fn, adding))
        adding.thread = 0

    def _check_process(self) -> None:
        """A child that was forked meanwhile would wait for what only its parent hears.

        Raises:
            ClientClosedError: this is such a child.
        """
        if not self.done() and self._surroundings.forks != forks():  # without its lock: a thread may have had it
            raise ClientClosedError(
                "this message was sent before a fork, and only the parent process hears what becomes of it: ask its "
                "future there"
            )

    def _look(self, *, waits: bool = True) -> None:
        """Somebody will see what becomes of it."""
        self._looked_at = True
        if self._failure is not None:
            self._failure.seen = True
        if waits and not self.done():
            self._surroundings.before_wait()

    def _hand_over(self, fn: Callable[[Future[T]], object], adding: _Adding, future: Future[T]) -> None:
        """Called by the thread that completes the future, or at once by the one that adds the callback."""
        if adding.thread == threading.get_ident():
            if adding.is_expected:
                self._surroundings.callbacks.expect_no_more()
            fn(future)
        else:
            self._surroundings.callbacks.submit(partial(fn, future))


def complete_all(futures: Iterable[SendFuture[T]], outcomes: Iterable[T]) -> None:
    """Complete many futures, none of them with an error, as `complete` does, at less cost. Not for users."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future._is_wanted or future._state is not _PENDING:
            future.complete(outcome)
        else:
            future._result = outcome
            future._state = _FINISHED  # last: a thread that waits from here on finds it done
            future._tell_late()
