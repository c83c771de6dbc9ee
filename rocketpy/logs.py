"""Loggers that cannot be made to lie: whatever stands in an argument, a record is one line, and a short one.

Topics, groups, client ids and remarks come from elsewhere and may hold line ends and escape codes, with which a peer
could write log lines of its own or repaint a terminal. So every logger of these packages comes from here, and escapes
and cuts what is put into its texts. Not here: how often something is said, and where it goes.
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

__all__ = ["MAX_TEXT", "get_logger", "printable", "quote"]

MAX_TEXT = 256
"""Characters of foreign text that a log line may hold."""
_MAX_ERROR = 1024  # our own words around foreign text, which the error has cut
_MAX_TRACEBACK_LINES = 500


def printable(text: str, most: int = MAX_TEXT) -> str:
    """Text on one line without escape codes: as `repr` escapes it, and cut. What is fine stays as it is."""
    if len(text) > most:
        text = text[:most]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)[:most]


def quote(text: object) -> str:
    """Text of a peer's as it may stand in a log or an answer: escaped, and cut to 256 characters."""
    return printable(str(text))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def get_logger(name: str, *, longest: int = MAX_TEXT) -> logging.Logger:
    """The logger of a module.

    Args:
        name: the module's.
        longest: characters that an argument may have; more only where all of them are our own words.
    """
    logger = logging.getLogger(name)
    if not any(isinstance(each, _Escaping) for each in logger.filters):
        logger.addFilter(_Escaping(longest))
    return logger


class _Escaping(logging.Filter):
    """Makes records safe before any handler sees them; lets all of them pass."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self._longest = longest

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape the arguments and the traceback of a record."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(self._safe, record.args))
        elif record.args:
            # What `logging` makes of an argument that is alone and a dict: it may be meant by its keys.
            safe = {key: self._safe(each) for key, each in record.args.items()}
            record.args = safe if "%(" in str(record.msg) else (self._safe(record.args),)
        if record.exc_info and not record.exc_text:
            record.exc_text = _traceback(record.exc_info)
        return True

    def _safe(self, value: object) -> object:
        if isinstance(value, int | float | _Safe):
            return value
        return _Safe(value, max(self._longest, _MAX_ERROR) if isinstance(value, BaseException) else self._longest)


class _Safe:
    """An argument that is escaped when, and only when, somebody wants its text."""

    __slots__ = ("_longest", "_value")

    def __init__(self, value: object, longest: int) -> None:
        self._value = value
        self._longest = longest

    def __str__(self) -> str:
        return printable(str(self._value), self._longest)

    def __repr__(self) -> str:
        return printable(repr(self._value), self._longest)


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def _traceback(info: _ExcInfo) -> str:
    """A traceback, indented: what a message in it says cannot begin a line as a record does."""
    lines = "".join(traceback.format_exception(info[1])).splitlines()
    return "\n".join("  " + printable(line, _MAX_ERROR) for line in lines[:_MAX_TRACEBACK_LINES])
