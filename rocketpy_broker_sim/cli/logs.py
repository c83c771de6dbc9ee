"""Logging of the server commands: warnings to standard error, or everything from INFO to a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger

__all__ = ["log", "logging_of"]

log = get_logger("rocketpy_broker_sim.cli", longest=4096)
"""For what concerns the start and the end of a command. It reaches standard error even beside a log file."""


class _Short(logging.Formatter):
    """``rocketpy-broker: warning: what happened``; a traceback only where somebody asked for it."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def format(self, record: logging.LogRecord) -> str:
        """One line, unless it is a bug."""
        text = f"{self._program}: {record.levelname.lower()}: {record.getMessage()}"
        return f"{text}\n{record.exc_text or self.formatException(record.exc_info)}" if record.exc_info else text


@contextmanager
def logging_of(program: str, file: str | None = None) -> Iterator[None]:
    """Log for the time of a block: warnings to standard error, or to a file everything from INFO.

    The block with the file stands within one without: what the commands themselves have to say goes to both.

    Raises:
        ConfigError: the file cannot be written.
    """
    root = logging.getLogger()
    moved = list(root.handlers) if file is not None else []
    handler = _screen(program) if file is None else _keeping(file, moved)
    level = root.level
    root.setLevel(logging.INFO if file is not None else logging.WARNING)
    log.setLevel(logging.INFO)
    for other in moved:
        root.removeHandler(other)
        log.addHandler(other)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for other in moved:
            log.removeHandler(other)
            root.addHandler(other)
        root.setLevel(level)
        handler.close()


def _screen(program: str) -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Short(program))
    return handler


def _keeping(file: str, screens: Sequence[logging.Handler]) -> logging.Handler:
    from rocketpy_broker_sim.cli.log_file import LogFile  # takes 2 ms, and most servers only use the screen

    if not file:
        raise ConfigError("--log needs the name of a file")
    try:
        handler = LogFile(file, screens, but=log.name)
    except OSError as exc:
        raise ConfigError(f"the log file {file} cannot be written: {exc.strerror}") from exc
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler
