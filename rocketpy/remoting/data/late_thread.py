"""LateThread: a thread that starts when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rocketpy.forked import mark_as_ours

__all__ = ["LateThread"]


class LateThread:
    """A thread that starts with the first call of `begin`, from any thread.

    A finalizer or a signal handler may interrupt a thread that is starting it, call `begin` too, and wait for the
    result of its work. The interrupted thread cannot continue until then, so such a caller starts a second thread.
    Therefore it must do no harm if the function runs in two threads at once.

    Args:
        function: runs in the thread.
        name: the name of the thread.

    Attributes:
        idents: the idents of the thread, and of any that such callers have started.
    """

    def __init__(self, function: Callable[[], object], name: str) -> None:
        self._function = function
        self._name = name
        self._beginning = threading.RLock()
        self._has_begun = False
        self.idents: set[int] = set()

    def begin(self) -> None:
        """Start it, unless it has started or another thread is starting it. Never waits for its work.

        Raises:
            RuntimeError: no thread could be started.
        """
        if self._has_begun:
            return
        made = threading.Thread(target=self._run, name=self._name, daemon=True)
        if not self._beginning.acquire(blocking=False):
            return
        try:
            if not self._has_begun:
                made.start()
                self._has_begun = True
        finally:
            self._beginning.release()

    def _run(self) -> None:
        mark_as_ours()
        self.idents.add(threading.get_ident())
        self._function()
