"""Logging of the server commands: warnings to standard error, or everything from INFO to a file, or another level."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    import argparse

__all__ = ["add_log_options", "log", "logging_of"]

_LEVELS = ("debug", "info", "warning", "error")

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


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--log`` and ``--log-level``, which become the attributes `log` and `log_level`."""
    parser.add_argument("--log", metavar="FILE", help="log to a file; otherwise warnings go to standard error")
    parser.add_argument(
        "--log-level",
        choices=_LEVELS,
        metavar="LEVEL",
        help=f"the lowest level to log: {', '.join(_LEVELS)} (default info in a file, warning on standard error)",
    )


@contextmanager
def logging_of(program: str, file: str | None = None, level: str | None = None) -> Iterator[None]:
    """Log for the time of a block: to standard error, or to a file.

    The block with the file stands within one without: what the commands themselves have to say goes to both.

    Args:
        program: the name of the command.
        file: the file; None for standard error.
        level: the lowest level to log; None for INFO in a file, WARNING on standard error.

    Raises:
        ConfigError: the file cannot be written.
    """
    root = logging.getLogger()
    lowest = logging.getLevelName(level.upper()) if level else logging.WARNING if file is None else logging.INFO
    moved = list(root.handlers) if file is not None else []
    handler = _screen(program, lowest) if file is None else _keeping(file, moved)
    before = root.level
    root.setLevel(lowest)
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
        root.setLevel(before)
        handler.close()


def _screen(program: str, lowest: int) -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setLevel(lowest)
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
