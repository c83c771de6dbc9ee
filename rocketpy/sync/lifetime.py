"""Opening and closing, for every blocking class: `with`, or `start` and `close`.

No thread holds a lock while it waits here, so a signal handler, a finalizer or another thread can close an object that
is being started without a deadlock.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rocketpy.client.homes import home_of
from rocketpy.client.lifecycle import Lifecycle, forks
from rocketpy.client.reopening import Reopenable
from rocketpy.errors import ClientClosedError
from rocketpy.portal import Opened, Portal
from rocketpy.portal.waiting import wait
from rocketpy.portal.wrong_with import WrongWith

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.client.instance import MQClientInstance

__all__ = ["Lifetime"]

_REMEDY = "use it inside `with`, or call start() first"

T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class Lifetime(Reopenable, Generic[T]):
    """Holds one object of the trio surface open in the portal.

    Args:
        inner: the object, not entered yet.
        needs: an object to keep alive, such as a shared client, which would be closed if it were collected.
        client: the client of the inner object, or the inner object itself if it is one.
    """

    def __init__(self, inner: T, *, needs: object = None, client: MQClientInstance | None = None) -> None:
        self._inner = inner
        if isinstance(lifecycle := getattr(inner, "_lifecycle", None), Lifecycle):
            lifecycle.remedy = _REMEDY
        self._needs = needs
        self._client = client
        self._opened: Opened[Any] | None = None
        self._opening: tuple[Opened[Any], int] | None = None
        self._home: Portal | None = None
        self._forks = forks()

    def start(self) -> None:
        """Open it, as `with` does.

        Raises:
            ClientClosedError: it was started before, is closed, was made before a fork, or was closed while it started.
            ConfigError: the caller must not wait for the background here.
        """
        if not self._start():
            raise ClientClosedError(f"{self._inner!r} was closed while it started")

    def _start(self) -> bool:
        """Open it; False if it was closed while it started."""
        self._check_process()
        home = home_of(self._client)
        home.check_not_here()
        if self._uses_threads:
            home.check_not_waking()
        opened = Opened(home, self._inner, self._when_ended())
        mine = opened, threading.get_ident()
        if self._opening is None and self._opened is None:
            self._opening = mine
        try:
            opened.open()
            if self._opening is mine:
                self._opened, self._home = opened, home
        finally:
            taken = self._opening is not mine
            if not taken:
                self._opening = None
        if taken:
            opened.close()
        return not taken

    def reopen(self) -> Self:
        """Make this usable again in a forked child: ``producer.reopen().start()``. Reopen a shared client first.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        self._make_again(crossed_fork=self._crossed_fork)
        return self

    def close(self) -> None:
        """Close it. Does nothing if it is closed already, or was never started.

        If another thread, or code that a signal handler has interrupted, is starting it, that start is abandoned.
        """
        self._leave(None)

    def __enter__(self) -> Self:
        """Open it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; an exception from the block propagates unchanged."""
        self._leave(error)

    if not TYPE_CHECKING:  # type checkers say it by themselves, of classes without these methods
        __aenter__ = __aexit__ = WrongWith(
            "rocketpy.sync.{name} is entered with `with`; in async code, take rocketpy.aio.{name} or rocketpy.{name} "
            "(trio)"
        )

    def __del__(self) -> None:
        """Warn if it was not closed, and close it in the background."""
        opened: Opened[Any] | None = getattr(self, "_opened", None)
        if opened is None or self._home is None or opened.ended.is_set() or self._crossed_fork:
            return
        text = f"{self._inner!r} was not closed: use it inside `with`"
        warnings.warn(text, ResourceWarning, stacklevel=1, source=self)
        with suppress(ClientClosedError):  # the process is ending, and the portal with it
            self._home.post(opened.leave)

    def _when_ended(self) -> Callable[[], object] | None:
        """What the portal calls when it was left. It must not refer to this object, which would never be collected."""
        return None

    @property
    def _crossed_fork(self) -> bool:
        """Whether this is a copy in a forked child, without the threads (which may have held locks) of its parent."""
        return self._forks != forks()

    def _check_process(self) -> None:
        if self._crossed_fork:
            raise ClientClosedError(
                f"{self._inner!r} was made before a fork: sockets and background threads do not cross it; make a new "
                "one in the child from the same config, or reopen() this one there"
            )

    @property
    def _is_waited_for(self) -> bool:
        """Whether closing waits for the code that calls this."""
        return False

    @property
    def _uses_threads(self) -> bool:
        """Whether calls may wait for user functions that run in threads."""
        return False

    def _leave(self, error: BaseException | None) -> None:
        if self._crossed_fork:
            return
        home = self._home
        if self._is_waited_for or (home is not None and home.is_waking):
            self._leave_soon(error)
            return
        if self._opened is not None:
            self._opened.home.check_not_here()
        opening, self._opening = self._opening, None
        opened, self._opened = self._opened, None
        if opened is not None:
            self._close(opened, error)
        elif opening is not None:
            starting, thread = opening
            starting.give_up()
            if thread != threading.get_ident() and not starting.home.is_here:
                wait(starting.ended)

    def _leave_soon(self, error: BaseException | None) -> None:
        """Start to close it, without waiting, because closing waits for the caller."""
        opened = self._opened
        if opened is None and self._opening is not None:
            opened = self._opening[0]
        if opened is not None:
            opened.home.post(opened.leave, error)

    def _close(self, opened: Opened[Any], error: BaseException | None) -> None:
        """Close an object that was open."""
        opened.close(error)

    @property
    def _portal(self) -> Portal:
        """The portal in which it runs, for calls that wait.

        Raises:
            ClientClosedError: it was not started, or was made before a fork.
            ConfigError: the caller must not wait for the background here.
        """
        found = self._portal_to_tell
        if self._uses_threads:
            found.check_not_waking()
        return found

    @property
    def _portal_to_tell(self) -> Portal:
        """The portal in which it runs, for calls that do not wait.

        Raises:
            ClientClosedError: it was not started, or was made before a fork.
        """
        self._check_process()
        if self._home is None:
            if self._opening is not None and self._is_waited_for:
                return self._opening[0].home
            raise ClientClosedError(f"{self._inner!r}: {_REMEDY}")
        return self._home

    def __repr__(self) -> str:
        """The repr of the inner object."""
        return repr(self._inner)
