"""Loggers that cannot be made to lie: whatever stands in an argument, a record is one line, and a short one.

Topics, groups, client ids and remarks come from elsewhere and may hold line ends and escape codes, with which a peer
could write log lines of its own or repaint a terminal. So every logger of these packages comes from here, and escapes
and cuts what is put into its texts. Nor can a peer fill the disk: each place in the code logs a hundred lines at once
and then ten a second, and says how many it left out. `Seldom` keeps to one line a second for each cause. Where
lines go is for the program to say, as with any library.
"""

from __future__ import annotations

import atexit
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any
from weakref import WeakSet

__all__ = [
    "MAX_TEXT",
    "Seldom",
    "counted",
    "error_text",
    "get_logger",
    "printable",
    "quote",
    "shown",
    "tell_left_out",
]

MAX_TEXT = 256
"""Characters of foreign text that a log line may hold."""
_MAX_ERROR = 1024  # our own words around foreign text, which the error has cut
_MAX_TRACEBACK_LINES = 500
_MAX_CAUSES = 1024
_AT_ONCE = 100.0
_A_SECOND = 10.0
"""Lines that one place in the code may log at once, and how many it may log from then on."""


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


def shown(value: object, most: int = 100) -> str:
    """The shortened `repr` of a user's object. Never raises, even if the object's `__repr__` does."""
    if type(value) in (str, bytes):
        value = value[:most]  # type: ignore[index]  # a long one would take long
    try:
        return repr(value)[:most]
    except Exception as exc:  # noqa: BLE001  a detached row of a database, a proxy outside of its request
        return f"<{type(value).__name__} whose repr raised {type(exc).__name__}>"


def error_text(error: BaseException) -> str:
    """The type and text of an exception from the user's code. Never raises, even if the exception's `__str__` does."""
    try:
        text = str(error)
    except Exception as exc:  # noqa: BLE001  see above
        text = f"its str raised {type(exc).__name__}"
    return f"{type(error).__name__}: {text}"


def counted(number: int, one: str) -> str:
    """How many there are of something that has a plain plural: "1 queue", "3 queues"."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


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
        logger.addFilter(_Bounded(logger))
    return logger


def tell_left_out() -> None:
    """Log how many lines were left out, where no later line has said so. Any thread may call this."""
    for each in [*_tellers]:
        each.tell()


class Seldom:
    """Says the same thing once a second, and then how often it was left unsaid. Thread-safe.

    A cause is whatever makes two lines the same, such as a topic with the type of an error. An interleaving of threads
    may cost a count or let one line more through; no lock is held for that.

    Args:
        logger: where the lines go.
        interval: seconds between two lines of one cause.
        clock: the time, in seconds.
    """

    def __init__(
        self, logger: logging.Logger, *, interval: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = logger
        self._interval = interval
        self._clock = clock
        self._causes: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        self._last: dict[Hashable, tuple[int, str]] = {}
        _tellers.add(self)

    def tell(self) -> None:
        """Log how many lines of each cause were left out since its last one."""
        for cause, (level, text) in [*self._last.items()]:
            since, unsaid = self._causes.get(cause, (0.0, 0))
            if unsaid:
                self._causes[cause] = since, 0
                self._out.log(level, "%s left out, the last of them: %s", counted(unsaid, "more line"), text)
        self._last.clear()

    def log(self, level: int, cause: Hashable, text: str, *args: object, **more: Any) -> None:
        """Log a line, unless there was one of this cause within the interval."""
        self._say(level, cause, text, args, more)

    def _say(self, level: int, cause: Hashable, text: str, args: tuple[object, ...], more: dict[str, Any]) -> None:
        if not self._out.isEnabledFor(level):
            return
        now = self._clock()
        since, unsaid = self._causes.pop(cause, (None, 0))
        if since is not None and now - since < self._interval:
            self._causes[cause] = since, unsaid + 1
            self._last[cause] = level, text % args if args else text
            return
        self._last.pop(cause, None)
        self._causes[cause] = now, 0
        while len(self._causes) > _MAX_CAUSES:
            self._last.pop(self._causes.popitem(last=False)[0], None)
        if unsaid:
            text, args = f"{text} (and %d more like this since the last such line)", (*args, unsaid)
        self._out.log(level, text, *args, **{"stacklevel": 3} | more)

    def info(self, cause: Hashable, text: str, *args: object, **more: Any) -> None:
        """Log a line of level info."""
        self._say(logging.INFO, cause, text, args, more)

    def warning(self, cause: Hashable, text: str, *args: object, **more: Any) -> None:
        """Log a line of level warning."""
        self._say(logging.WARNING, cause, text, args, more)

    def error(self, cause: Hashable, text: str, *args: object, **more: Any) -> None:
        """Log a line of level error."""
        self._say(logging.ERROR, cause, text, args, more)


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


class _Place:
    """What one place in the code may still log."""

    __slots__ = ("left", "left_out", "level", "since", "text")

    def __init__(self, left: float, since: float) -> None:
        self.left = left
        self.since = since
        self.left_out = 0
        self.level = 0
        self.text = ""


class _Bounded(logging.Filter):
    """Lets no place in the code log more than somebody can read; debug lines always pass. Thread-safe.

    It follows the filter that escapes, so that what it keeps is harmless.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger
        self._places: dict[tuple[str, int], _Place] = {}
        _tellers.add(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged; it says how many before it were not."""
        if record.levelno < logging.INFO:
            return True
        now = time.monotonic()
        place = self._places.setdefault((record.pathname, record.lineno), _Place(_AT_ONCE, now))
        place.left = min(_AT_ONCE, place.left + (now - place.since) * _A_SECOND)
        place.since = now
        if place.left < 1:
            place.left_out += 1
            place.level, place.text = record.levelno, record.getMessage()
            return False
        place.left -= 1
        if place.left_out:
            record.msg, record.args = (
                "%s (left out: %s like this)",
                (record.getMessage(), counted(place.left_out, "line")),
            )
            place.left_out = 0
        return True

    def tell(self) -> None:
        """Log how many lines of each place were left out since its last one."""
        for place in [*self._places.values()]:
            if place.left_out:
                count, place.left_out = place.left_out, 0
                self._logger.log(place.level, "%s left out, the last of them: %s", counted(count, "line"), place.text)


_tellers: WeakSet[Seldom | _Bounded] = WeakSet()

atexit.register(tell_left_out)


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
