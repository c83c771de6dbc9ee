"""The log file of a server, which goes on when the file cannot be written."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import sys
from collections.abc import Sequence

__all__ = ["LogFile"]


class LogFile(logging.handlers.WatchedFileHandler):
    """A file that is opened again when it was moved away, as logrotate does.

    While it cannot be opened or written (its directory is gone, the disk is full), warnings go to the screen, after one
    line that says why. What the standard handler raises then would end the server.

    Args:
        file: its path.
        screens: handlers for the time when the file cannot be written.
        but: the name of a logger whose records reach these handlers anyway.
    """

    def __init__(self, file: str, screens: Sequence[logging.Handler] = (), *, but: str = "") -> None:
        super().__init__(file, encoding="utf-8")
        self._file = file
        self._screens = screens
        self._but = but
        self._has_failed = False  # in this call of `emit`
        self._is_known = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._has_failed = False
        try:
            super().emit(record)
        except OSError:  # it opens the file outside of what it guards
            self.handleError(record)
        self._is_known = self._has_failed

    def handleError(self, record: logging.LogRecord) -> None:
        """Show it on the screen instead. Called where the error is being handled."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)  # a faulty log call
            return
        self._has_failed = True
        if not self._is_known:
            self._is_known = True
            why = f"the log file {self._file} cannot be written: {error.strerror}: warnings go here until it can be"
            self._show(logging.LogRecord(__name__, logging.WARNING, __file__, 0, why, None, None))
        if record.name != self._but:
            self._show(record)

    def close(self) -> None:
        """Close the file; what could not be written is lost."""
        with contextlib.suppress(OSError):
            super().close()

    def _show(self, record: logging.LogRecord) -> None:
        for screen in self._screens:
            if record.levelno >= screen.level:
                screen.handle(record)
