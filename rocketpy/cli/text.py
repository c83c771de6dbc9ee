"""Text of a cluster on a terminal: whatever names and bodies contain, nothing of it commands the terminal."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["body_text", "cell", "cut", "escaped", "time_text"]

MAX_CELL = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def escaped(text: str) -> str:
    """Text in which everything that is not printable, direction marks included, is escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def cut(text: str, width: int = MAX_CELL) -> str:
    """Text, shortened to the width of a cell."""
    return text if len(text) <= width else text[: width - 3] + "..."


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return cut(escaped(str(value)))


def body_text(row: dict[str, Any]) -> str:
    """The body of a message in a table: as text when it is text, else in hexadecimal."""
    if "bodyError" in row:
        return cut(f"({escaped(row['bodyError'])})")
    if "body" not in row:
        return f"({row['bodyLength']} bytes)"
    body = base64.b64decode(row["body"])
    try:
        return cut(escaped(body.decode()))
    except UnicodeDecodeError:
        return cut("0x" + body.hex())


def time_text(ms: int | None) -> str:
    """Milliseconds since 1970 as a time of UTC; the number itself where no calendar reaches."""
    if ms is None or ms <= 0:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}"
