"""The text of java.util.Properties: bodies of the configuration requests, and configuration files.

Plays the part of MixAll.string2Properties and MixAll.properties2String.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rocketpy.errors import RemoteProtocolError

__all__ = ["Entry", "format_properties", "read_entries", "read_properties"]

_LINE_END = re.compile(r"\r\n|\r|\n")
_UTF16_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")


class Entry(NamedTuple):
    """The value of a key, and where it is said."""

    text: str
    """The value, its escapes resolved."""
    line: int
    """The line it begins in, from 1."""


def format_properties(properties: Mapping[str, str]) -> str:
    """``key=value`` lines, as the bodies of the configuration requests carry them."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def read_properties(text: str) -> dict[str, str]:
    """Read a properties text: comments, ``key=value``, ``key: value``, continued lines and escapes.

    The last of a doubled key wins.

    Raises:
        RemoteProtocolError: a character is escaped in a way that is none.
    """
    return {key: entry.text for key, entry in read_entries(text).items()}


def read_entries(text: str) -> dict[str, Entry]:
    """The same, with the line of every value, for who has to mend a file.

    Raises:
        RemoteProtocolError: a character is escaped in a way that is none.
    """
    entries: dict[str, Entry] = {}
    for number, line in _logical_lines(_LINE_END.split(text)):
        key, value = _split(line)
        entries[_unescape(key)] = Entry(_unescape(value), number)
    return entries


def _logical_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with the number of their first part; one that ends with a backslash goes on in the next."""
    parts: list[str] = []
    start = 0
    for number, raw in enumerate(lines, 1):
        line = raw.lstrip(" \t\f")
        if not parts:
            if not line or line[0] in "#!":
                continue
            start = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])  # joined at the end: somebody may send a line of a million parts
            continue
        if line or any(parts):
            yield start, "".join((*parts, line))
        parts = []
    if any(parts):
        yield start, "".join(parts)


def _split(line: str) -> tuple[str, str]:
    """Key and value; the key ends at the first bare blank, ``=`` or ``:``."""
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    # Java keeps trailing blanks; every reader of such a file is bitten by them, and no key here means them.
    return key, rest.rstrip()


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            out.append(_utf16_unit(text[position - 2 : position + 4]))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return _paired("".join(out))


def _utf16_unit(text: str) -> str:
    escaped = _UTF16_UNIT.fullmatch(text)
    if escaped is None:
        raise RemoteProtocolError(f"{text!r} in the properties is not an escaped character")
    return chr(int(escaped[1], 16))


def _paired(text: str) -> str:
    """Java escapes a character beyond the first 65,536 as two; half of one is none."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as exc:
        raise RemoteProtocolError(f"half of a character is escaped in the properties: {text!r:.100}") from exc
