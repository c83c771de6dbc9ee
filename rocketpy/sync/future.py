"""The future of a `send_soon`: a `concurrent.futures.Future` whose callbacks run on a thread of their own.

Whoever completes it reads the answers of everybody else, and may not be held up by users' code. That thread is made
when the first callback is due, so only those who have callbacks pay for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.logs import get_logger
from rocketpy.results import SendResult

if TYPE_CHECKING:
    from rocketpy.sync.unseen import Failure, Failures

__all__ = ["Callbacks", "SendFuture"]

logger = get_logger(__name__)

_IDLE = 10.0
"""Seconds without a callback after which the thread ends."""


class Callbacks:
    """Runs the done-callbacks of one producer, one after the other, in a thread that is there while they come.

    Attributes:
        thread: the thread, 0 while there is none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._due: deque[Callable[[], object]] = deque()
        self._more = threading.Semaphore(0)
        self._running = False
        self._lock = threading.RLock()
        self._busy = False
        self.thread = 0

    def __len__(self) -> int:
        """How many are due or at work."""
        return len(self._due) + self._busy

    def submit(self, callback: Callable[[], object]) -> None:
        """Have one called soon. Never waits."""
        self._due.append(callback)
        with self._lock:
            start = not self._running
            self._running = True
        if start:
            threading.Thread(target=self._run, name=f"rocketpy-callbacks-{self._name}", daemon=True).start()
        self._more.release()

    def wait_idle(self, timeout: float) -> None:
        """Wait until none is due, at most so many seconds; not at all in the thread that runs them."""
        if not len(self) or self.thread == threading.get_ident():
            return
        done = threading.Event()
        self.submit(done.set)
        done.wait(timeout)

    def _run(self) -> None:
        self.thread = threading.get_ident()
        while self._more.acquire(timeout=_IDLE) or not self._may_end():
            if self._due:
                self._busy = True
                self._call(self._due.popleft())
                self._busy = False

    def _may_end(self) -> bool:
        with self._lock:
            if not self._due:
                self._running = False
                self.thread = 0
            return not self._running

    @staticmethod
    def _call(callback: Callable[[], object]) -> None:
        try:
            callback()
        except BaseException:  # SystemExit too: it would end this thread, and with it the callbacks of others
            logger.exception("a done-callback of a send failed")


class SendFuture(Future[SendResult]):
    """Holds what becomes of one message.

    Args:
        before_wait: called by a thread that is about to wait for it.
        callbacks: where done-callbacks run.
        failures: told of an error that nobody looks at.
    """

    def __init__(self, before_wait: Callable[[], object], callbacks: Callbacks, failures: Failures) -> None:
        super().__init__()
        self._before_wait: Callable[[], object] | None = before_wait
        self._callbacks = callbacks
        self._failures = failures
        self._failure: Failure | None = None
        self._looked_at = False
        self._completer = 0
        self.set_running_or_notify_cancel()  # a message on its way cannot be called back

    def complete(self, outcome: SendResult | BaseException) -> None:
        """What became of it. Not for users."""
        self._before_wait = None
        self._completer = threading.get_ident()
        if isinstance(outcome, BaseException):
            if not self._looked_at:
                self._failure = self._failures.note(outcome)
            self.set_exception(outcome)
        else:
            self.set_result(outcome)
        self._completer = 0

    def result(self, timeout: float | None = None) -> SendResult:
        """What the broker said; waits for it, at most `timeout` seconds.

        Raises:
            RocketMQError: the message was not acknowledged, as in `Producer.send`.
            TimeoutError: there is no answer yet. The message is still on its way.
        """
        self._look()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why it failed, None when it did not; waits as `result` does."""
        self._look()
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[SendResult]], object]) -> None:
        """Have a function called with this future when it is done, in a thread that does nothing but that.

        When it is done already the function is called at once, here.
        """
        self._look(waits=False)
        super().add_done_callback(partial(self._hand_over, fn))

    def _look(self, *, waits: bool = True) -> None:
        """Somebody will see what becomes of it."""
        self._looked_at = True
        if self._failure is not None:
            self._failure.seen = True
        before_wait = self._before_wait
        if waits and before_wait is not None:
            before_wait()

    def _hand_over(self, fn: Callable[[Future[SendResult]], object], future: Future[SendResult]) -> None:
        if self._completer == threading.get_ident():
            self._callbacks.submit(partial(fn, future))
        else:
            fn(future)
