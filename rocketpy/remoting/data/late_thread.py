"""LateThread: a thread that begins when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["LateThread"]


class LateThread:
    """A thread that begins when it is first asked for, by any thread.

    A finalizer or a signal handler may strike while a thread begins it, ask for it too, and wait for what it does.
    The thread that was interrupted cannot go on until then, so such a caller begins another one. The function must
    therefore bear to run twice.

    Args:
        function: what it runs.
        name: of the thread.

    Attributes:
        idents: of the thread, and of the others that such callers have begun.
    """

    def __init__(self, function: Callable[[], object], name: str) -> None:
        self._function = function
        self._name = name
        self._beginning = threading.RLock()
        self._has_begun = False
        self.idents: set[int] = set()

    def begin(self) -> None:
        """Begin it, unless it has begun or another thread begins it. Never waits for what it does.

        Raises:
            RuntimeError: no more threads can be had.
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
        self.idents.add(threading.get_ident())
        self._function()
