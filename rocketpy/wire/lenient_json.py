"""Reads and writes the JSON dialect of fastjson, which headers and bodies use.

Java writes map keys that are not text without quotes (``{0:"10.0.0.1:10911"}``, ``{{"topic":"T"}:{...}}``) and reads
single quotes, bare names and stray commas. `parse_json` tries Python's strict parser first and falls back to a
tolerant one of our own; in both, every key comes back as text (an object key as its JSON text). `write_json` produces
Java's form: bare integer keys, object keys. Depth, member count and number size are bounded before they cost anything.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NoReturn, cast

from rocketpy.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["ObjectKey", "parse_json", "write_json"]

ObjectKey = tuple[tuple[str, Any], ...]
"""A structure used as a map key, as pairs of name and value; hashable, written as an object."""

_MAX_DIGITS = 4300
"""Digits of a number. What Python itself allows at least, and what no text shorter than this can exceed."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"number of {len(text)} digits")
    return int(text)


# The scanner itself, without the method of Python's around it. With a hook for numbers it takes twice as long.
_scan_short: Any = cast(Any, json.JSONDecoder(parse_constant=_refuse_constant)).scan_once
_scan_long: Any = cast(Any, json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_bounded_int)).scan_once


def parse_json(data: bytes | str, *, max_depth: int = 64, max_members: int = 200_000) -> Any:
    """Read JSON or the dialect of fastjson.

    Returns:
        dict, list, str, int, float, bool or None; keys of dicts are always str.

    Raises:
        RemoteProtocolError: not readable, too deep, too many members, or text that is not valid Unicode.
    """
    text = _decode(data)
    _check_bounds(text, max_depth, max_members)
    scan = _scan_short if len(text) <= _MAX_DIGITS else _scan_long
    try:
        value, end = scan(text, 0 if text[:1] == "{" else _skip_space(text, 0))
        if end != len(text) and _skip_space(text, end) != len(text):
            raise ValueError("text after the end of the value")
    except (ValueError, StopIteration, RecursionError):
        value = _Lenient(text, max_depth, max_members).document()
    if "\\u" in text and _ESCAPED_SURROGATE.search(text):
        _refuse_surrogates(value)
    return value


def _decode(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise RemoteProtocolError("JSON that is not UTF-8") from exc


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


# Possessive repeats and optional closing quotes: text without an end is consumed once, not tried again from
# every place.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|\'(?:[^\'\\]++|\\.)*+\'?|[{}\[\],]', re.DOTALL)


def _check_bounds(text: str, max_depth: int, max_members: int) -> None:
    """Refuse what is too deep or too large before a parser builds objects. Skipped when the counts cannot matter."""
    if text.count("{") + text.count("[") <= max_depth and text.count(",") < max_members:
        return
    depth = members = 0
    for match in _STRUCTURE.finditer(text):
        token = match.group()
        if token in "{[":
            depth += 1
            members += 1
        elif token in "}]":
            depth -= 1
        elif token == ",":
            members += 1
        if depth > max_depth:
            raise RemoteProtocolError(f"JSON is nested deeper than {max_depth} levels")
        if members > max_members:
            raise RemoteProtocolError(f"JSON has more than {max_members} members")


def _refuse_surrogates(value: Any) -> None:
    """Half a surrogate pair is no character: it could not be written again."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise RemoteProtocolError("JSON text holds half a surrogate pair")
        elif isinstance(item, dict):
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


# --- the tolerant reader -------------------------------------------------------------------------------

_SPACE = re.compile(r"(?:[\s,]|/\*.*?\*/|//[^\n]*+)*+", re.DOTALL)
_BLANK = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*+)*+", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[LSBFDlsbfd]?")
_NAME = re.compile(r"[A-Za-z_$][\w$.@-]*")
_DOUBLE = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


class _Lenient:
    """One pass over a text in the dialect of fastjson. It counts for itself: commas and quotes tell less here."""

    def __init__(self, text: str, max_depth: int, max_members: int) -> None:
        self.text = text
        self.position = 0
        self.depth_left = max_depth
        self.members_left = max_members
        self.within_key = False

    def document(self) -> Any:
        """The whole text as one value."""
        value = self.value()
        self.skip(_SPACE)
        if self.position != len(self.text):
            self.fail("text after the end of the value")
        return value

    def value(self) -> Any:
        """Any value."""
        self.members_left -= 1
        if self.members_left < 0:
            self.fail("too many members")
        self.skip(_SPACE)
        char = self.text[self.position : self.position + 1]
        if char == "{":
            return self.object()
        if char == "[":
            return self.array()
        if char in ('"', "'") and char:
            return self.string()
        if match := _NUMBER.match(self.text, self.position):
            return self.number(match)
        if match := _NAME.match(self.text, self.position):
            self.position = match.end()
            if match.group() in _WORDS:
                return _WORDS[match.group()]
        self.fail("no value")

    def object(self) -> dict[str, Any]:
        """An object; keys may be quoted, bare, numbers or objects."""
        self.enter()
        found: dict[str, Any] = {}
        while not self.closes("}"):
            key = self.key()
            self.skip(_BLANK)
            if self.text[self.position : self.position + 1] != ":":
                self.fail("no ':' after a key")
            self.position += 1
            found[key] = self.value()
        return found

    def key(self) -> str:
        """A key, as text."""
        char = self.text[self.position]
        if char in "\"'":
            return self.string()
        if char == "{":
            return self.object_key()
        if match := _NAME.match(self.text, self.position) or _NUMBER.match(self.text, self.position):
            self.position = match.end()
            return match.group()
        self.fail("no key")

    def object_key(self) -> str:
        """An object as a key. Not within another one: each level would double the backslashes of the text."""
        if self.within_key:
            self.fail("an object key within an object key")
        self.within_key = True
        found = self.object()
        self.within_key = False
        return write_json(found)

    def array(self) -> list[Any]:
        """An array."""
        self.enter()
        found: list[Any] = []
        while not self.closes("]"):
            found.append(self.value())
        return found

    def enter(self) -> None:
        """Step past an opening bracket."""
        self.position += 1
        self.depth_left -= 1
        if self.depth_left < 0:
            self.fail("nested too deep")

    def closes(self, bracket: str) -> bool:
        """Skip separators; whether the structure ends here."""
        self.skip(_SPACE)
        if self.position >= len(self.text):
            self.fail(f"no closing {bracket}")
        if self.text[self.position] != bracket:
            return False
        self.position += 1
        self.depth_left += 1
        return True

    def string(self) -> str:
        """Text in double or single quotes."""
        pattern = _DOUBLE if self.text[self.position] == '"' else _SINGLE
        match = pattern.match(self.text, self.position)
        if match is None:
            self.fail("text without a closing quote")
        self.position = match.end()
        raw = match.group(1)
        return _join_surrogates(_ESCAPE.sub(_unescape, raw)) if "\\" in raw else raw

    def number(self, match: re.Match[str]) -> int | float:
        """A number, with or without a type letter of Java."""
        self.position = match.end()
        text = match.group().rstrip("LSBFDlsbfd")
        if len(text) > _MAX_DIGITS:
            self.fail("number with too many digits")
        try:
            return int(text)
        except ValueError:
            return float(text)

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Move past what does not count."""
        if match := pattern.match(self.text, self.position):
            self.position = match.end()

    def fail(self, why: str) -> NoReturn:
        """Give up on the text."""
        raise RemoteProtocolError(f"not readable as JSON: {why} at character {self.position}")


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "ux" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _SIMPLE_ESCAPES.get(code, code)


def _join_surrogates(text: str) -> str:
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- the writer ----------------------------------------------------------------------------------------


def write_json(value: Any, *, browser_compatible: bool = False) -> str:
    """Write a value as fastjson does: no spaces, None members left out, integer and object keys bare.

    Args:
        value: dict, list, tuple, set, str, int, float, bool or None. Keys of a dict are str, int or `ObjectKey`.
        browser_compatible: every key quoted and sorted, everything outside ASCII escaped: standard JSON.

    Raises:
        LocalProtocolError: a value of another type.
    """
    parts: list[str] = []
    _write(value, parts, browser_compatible)
    return "".join(parts)


def _write(value: Any, parts: list[str], browser: bool) -> None:
    if value is None or value is True or value is False:
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        parts.append(encode_basestring_ascii(value) if browser else encode_basestring(value))
    elif isinstance(value, int):
        parts.append(int.__repr__(value))
    elif isinstance(value, float):
        # What is no number has no form in JSON; fastjson writes null.
        parts.append(float.__repr__(value) if math.isfinite(value) else "null")
    elif isinstance(value, dict):
        _write_object(value, parts, browser)
    elif isinstance(value, (list, tuple, set, frozenset)):
        _write_array(value, parts, browser)
    else:
        raise LocalProtocolError(f"a {type(value).__name__} cannot be written as JSON")


def _write_object(value: dict[Any, Any], parts: list[str], browser: bool) -> None:
    items = [(key, item) for key, item in value.items() if item is not None]
    if browser:
        items.sort(key=lambda pair: str(pair[0]))
    separator = "{"
    for key, item in items:
        parts.append(separator)
        _write_key(key, parts, browser)
        parts.append(":")
        _write(item, parts, browser)
        separator = ","
    parts.append("{}" if separator == "{" else "}")


def _write_key(key: Any, parts: list[str], browser: bool) -> None:
    if isinstance(key, tuple):
        text = write_json(dict(key), browser_compatible=browser)
    elif isinstance(key, int):
        text = int.__repr__(key)
    else:
        _write(key, parts, browser)
        return
    parts.append(encode_basestring(text) if browser else text)


def _write_array(value: Any, parts: list[str], browser: bool) -> None:
    separator = "["
    for item in value:
        parts.append(separator)
        _write(item, parts, browser)
        separator = ","
    parts.append("[]" if separator == "[" else "]")
