"""Bodies as text: decoded if they are UTF-8, otherwise in hexadecimal or base64 and marked as such. Pure.

Bodies, keys and tags are not trusted, so nothing that controls a terminal reaches one: control characters, direction
marks and the like are escaped as in Python.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from rocketpy.cli.text import escaped
from rocketpy.errors import MessageDecodeError

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

__all__ = ["body_of", "clean_lines", "line_of_body", "marked", "pretty_value", "text_of"]

MAX_HEX = 64
"""Bytes of a binary body that the pretty format shows."""
MAX_LINE = 120
"""Characters up to which JSON stays on one line."""
MAX_JSON = 100_000
"""Characters up to which JSON is parsed to be indented."""
_KEPT = "\n\t"


def body_of(message: MessageExt) -> bytes | MessageDecodeError:
    """The body of a message, or why it cannot be unpacked."""
    try:
        return message.body
    except MessageDecodeError as error:
        return error


def text_of(body: bytes) -> str | None:
    """A body as text; None if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def clean_lines(text: str) -> str:
    """Text in which everything that is not printable is escaped, except line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(each if each in _KEPT else escaped(each) for each in text)


def marked(body: bytes) -> str:
    """A binary body in one line, from which it can be restored."""
    return "base64:" + base64.b64encode(body).decode()


def line_of_body(body: bytes) -> str:
    """A body for people in one line."""
    text = text_of(body)
    return _hex(body) if text is None else escaped(text)


def _hex(body: bytes) -> str:
    more = "..." if len(body) > MAX_HEX else ""
    return f"hex:{body[:MAX_HEX].hex()}{more} ({len(body)} bytes)"


def pretty_value(body: bytes) -> list[str]:
    """A body for people, in one line if it is short, otherwise in several."""
    text = text_of(body)
    if text is None:
        return [_hex(body)]
    if len(text) > MAX_LINE and (found := _indented(text)) is not None:
        text = found
    return [escaped(line.replace("\t", "    ")) for line in text.splitlines()] or [""]


def _indented(text: str) -> str | None:
    """JSON with one member per line; None if it is not an object or a list."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_JSON:
        return None
    try:
        value: Any = json.loads(text)
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
