"""The background trio thread of a process, and how other threads submit work to it.

Wake-ups are batched: however many threads submit, trio wakes once for all of their jobs. The thread starts on first use
and ends with the process. A forked child does not inherit it, and starts its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

import trio

from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.forked import mark_as_ours
from rocketpy.logs import get_logger
from rocketpy.portal.pending import Call, Pending
from rocketpy.portal.waiting import acquire
from rocketpy.services import is_telling_loop, only_cancelled, tell_loop

__all__ = ["Portal", "before_end", "portal"]

logger = get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_START_TIMEOUT = 10.0
_EXIT_TIMEOUT = 5.0
_BEFORE_QUEUES = 100
"""The priority of our exit handler in multiprocessing: before it closes its queues, which callbacks may use."""


class Portal:
    """A trio loop in its own thread. Call `portal` for the one of this process.

    Only clients whose loop runs users' code (hooks) make portals of their own.

    Args:
        name: the name of the thread.
    """

    def __init__(self, name: str = "rocketpy-portal") -> None:
        self._name = name
        self._pid = os.getpid()
        self._jobs: deque[Callable[[], object]] = deque()
        self._awake = False
        self._waking: set[object] = set()
        """One object for each call that is waking the loop."""
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread.

        Raises:
            ClientClosedError: it did not start within ten seconds.
        """
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._main, ready), name=self._name, daemon=True)
        self._thread.start()
        if not ready.wait(_START_TIMEOUT):
            raise ClientClosedError(
                f"the background thread of rocketpy did not start within {_START_TIMEOUT:.0f} s: uWSGI needs "
                "--enable-threads, and gevent must not patch threading"
            )

    async def _main(self, ready: threading.Event) -> None:
        mark_as_ours()
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            ready.set()
            await trio.sleep_forever()

    @property
    def is_usable(self) -> bool:
        """Whether its thread is running in this process."""
        return self._pid == os.getpid() and self._thread is not None and self._thread.is_alive()

    @property
    def is_here(self) -> bool:
        """Whether the caller is in its thread, and so must not wait for anything that it does."""
        return self._thread is not None and self._thread.ident == threading.get_ident()

    def check_not_here(self) -> None:
        """Refuse to wait in its thread.

        Raises:
            ConfigError: this is its thread.
        """
        if self.is_here:
            raise ConfigError(
                "a blocking call from the thread of rocketpy's own tasks would wait for itself for ever: make it from "
                "a thread of yours, for example by handing the work to a concurrent.futures executor"
            )

    def close(self) -> None:
        """Cancel what still runs, and wait up to five seconds for the thread to end."""
        self.end_soon()
        if self.is_usable and not self.is_here and self._thread is not None:
            self._thread.join(_EXIT_TIMEOUT)

    def end_soon(self) -> None:
        """Cancel what still runs; the thread ends by itself."""
        if self.is_usable and self._nursery is not None:
            self.post(self._nursery.cancel_scope.cancel)

    # --- work ------------------------------------------------------------------------------------------

    def post(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run a plain function in the trio thread soon, in the order of the calls. It must not raise.

        Raises:
            ClientClosedError: the thread has ended, or belongs to the parent of this process.
        """
        self._jobs.append(partial(function, *args, **kwargs) if args or kwargs else function)
        # A thread that is about to wake the loop may be waiting for a lock that this thread holds, if this is a
        # finalizer: those run anywhere. So rely only on a thread that has already woken the loop.
        if self._awake and not self._waking and self._pid == os.getpid():
            return
        if self._token is None or self._pid != os.getpid():
            raise ClientClosedError("the background thread of rocketpy does not cross a fork: make a new client here")
        me = object()
        try:
            self._waking.add(me)
            self._awake = True
            tell_loop(self._token, self._drain)
        except BaseException as exc:
            self._awake = False  # this may be Ctrl-C: the next post must wake the loop all the same
            if isinstance(exc, trio.RunFinishedError):
                raise ClientClosedError("the background thread of rocketpy has ended with the process") from exc
            tell_loop(self._token, self._drain)  # other threads may have relied on this one to wake the loop
            raise
        finally:
            self._waking.discard(me)

    @property
    def is_waking(self) -> bool:
        """Whether the caller is a finalizer or a signal handler that interrupted this thread while it woke a loop.

        Such a caller cannot wait for the end of other threads, for instance of listeners.
        """
        return is_telling_loop()

    def check_not_waking(self) -> None:
        """Refuse to wait for other threads of the loop if `is_waking`.

        Raises:
            ConfigError: the caller is such a finalizer or signal handler.
        """
        if self.is_waking:
            raise ConfigError(
                "this finalizer or signal handler has interrupted its thread while that was waking rocketpy's "
                "background thread, and would wait for functions in threads, which cannot report back until it "
                "returns: hand this call to another thread"
            )

    def nudge(self) -> None:
        """Wake the loop if the caller is a signal handler or finalizer that interrupted this thread before it did."""
        if self.is_waking:
            self.post(_nothing)

    def _drain(self) -> None:
        # Cleared first, so that jobs added from here on cause another wake-up.
        self._awake = False
        jobs = self._jobs
        for _ in range(len(jobs)):
            try:
                jobs.popleft()()
            except BaseException:
                # A bug, or an exception of a user's finalizer that ran here. All other work goes on.
                logger.exception("a job in the background failed")

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function in the trio thread and wait for it.

        An exception in the waiting thread, such as Ctrl-C, cancels the function and waits until it has ended.

        Raises:
            ClientClosedError: the portal ended before the function did.
        """
        return self.wait(Call(lambda: function(*args, **kwargs)))

    def wait(self, pending: Pending[T]) -> T:
        """Start work in the trio thread and wait until it has ended. `call` is built on this.

        Raises:
            ClientClosedError: the portal ended before the work did.
        """
        self.check_not_here()
        done = threading.Lock()
        done.acquire()
        try:
            self.post(pending.start, self.start_soon, done.release)
            acquire(done)
        except ClientClosedError:
            raise
        except BaseException:
            # This may have interrupted the post; in any case no work is left behind when this returns.
            self.post(_abandon, pending, done)
            acquire(done)
            raise
        return pending.result()

    # --- in the trio thread -----------------------------------------------------------------------------

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run an async function in a task of the portal. An exception is logged, and other tasks go on.

        Raises:
            ClientClosedError: the portal is ending, and starts nothing more.
        """
        self._open_nursery().start_soon(_guarded, function)

    async def hold(self, function: Callable[[trio.TaskStatus[None]], Awaitable[object]]) -> None:
        """Run an async function in a task of the portal, and return when it says that it has started."""
        await self._open_nursery().start(_Started(function))

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None or self._nursery.cancel_scope.cancel_called:
            raise ClientClosedError("rocketpy is closing with the process")
        return self._nursery


def _nothing() -> None:
    """Do nothing: a job that only wakes the loop."""


def _abandon(pending: Pending[Any], done: threading.Lock) -> None:
    """In the trio thread: end work that nobody wants any more, and release the lock when it has ended."""
    if not pending.ended:
        pending.abandon(done.release)
    elif done.locked():  # the interrupted wait has taken the lock already
        done.release()


async def _guarded(function: Callable[[], Awaitable[object]]) -> None:
    """Run a task so that an exception in it does not end other tasks of the portal."""
    try:
        await function()
    except BaseException as exc:
        if only_cancelled(exc):
            raise
        logger.exception("a task in the background failed")


class _Started:
    """Gives a function the signature that `Nursery.start` requires."""

    def __init__(self, function: Callable[[trio.TaskStatus[None]], Awaitable[object]]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", "opened")

    def __call__(self, *, task_status: trio.TaskStatus[None]) -> Awaitable[object]:
        return self._function(task_status)


# --- the one of this process ---------------------------------------------------------------------------

_current: Portal | None = None
_lock = threading.RLock()  # a signal handler may interrupt its holder, and start something too
_before_end: list[Callable[[], object]] = []
_ending = False


def before_end(function: Callable[[], object]) -> None:
    """Register a function to be called when the interpreter ends, while the portal still works."""
    _before_end.append(function)


def portal() -> Portal:
    """Return the portal of this process, after starting it if necessary."""
    global _current
    with _lock:
        if _current is None or not _current.is_usable:
            made = Portal()
            made.start()
            _close_with_multiprocessing()
            _current = made
        return _current


def _close_with_multiprocessing() -> None:
    """Register with multiprocessing in its children: they end with `os._exit`, which skips `atexit` handlers."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _close_at_exit, exitpriority=_BEFORE_QUEUES)


def _forget_after_fork() -> None:
    global _current, _lock, _ending
    _current = None
    _ending = False
    _lock = threading.RLock()


def _close_at_exit() -> None:
    global _ending
    if _ending:
        return
    _ending = True
    try:
        for function in _before_end:
            function()
    finally:
        if _current is not None:
            _current.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_close_at_exit)
