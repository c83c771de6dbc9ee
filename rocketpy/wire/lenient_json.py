"""Reads and writes the JSON dialect of fastjson, which headers and bodies use.

Java writes map keys that are not text without quotes (``{0:"10.0.0.1:10911"}``, ``{{"topic":"T"}:{...}}``) and reads
single quotes, bare names and stray commas. `parse_json` tries Python's strict parser first and falls back to the
tolerant one of `json_dialect`; in both, every key comes back as text (an object key as its JSON text).
`parse_json_steps` does the same a little at a time. `write_json` produces Java's form: bare integer keys, object keys.
Depth, member count and number size are bounded before they cost anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NoReturn, cast

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.json_dialect import read_dialect
from rocketpy.wire.json_literal import MAX_DIGITS, Literal
from rocketpy.wire.steps import run_steps

__all__ = ["ObjectKey", "parse_json", "parse_json_steps", "write_json"]

ObjectKey = tuple[tuple[str, Any], ...]
"""A structure used as a map key, as pairs of name and value; hashable, written as an object."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SPACE = re.compile(r"[ \t\r\n]*+")
_AT_ONCE = 4096
"""Characters that are read without looking at the clock in between."""


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"number of {len(text)} digits")
    return int(text)


def _scanner(**hooks: Any) -> Any:
    """The scanner itself, without Python's method around it."""
    return cast("Any", json.JSONDecoder(parse_constant=_refuse_constant, parse_float=Literal, **hooks)).scan_once


# With a hook for numbers it takes twice as long; no number of a short text is long enough to need it.
_scan_short = _scanner()
_scan_long = _scanner(parse_int=_bounded_int)


def parse_json(data: bytes | str, *, max_depth: int = 64, max_members: int = 200_000) -> Any:
    """Read JSON or the dialect of fastjson.

    Returns:
        dict, list, str, int, float, bool or None; keys of dicts are always str. A float is a `Literal`.

    Raises:
        RemoteProtocolError: not readable, too deep, too many members, or text that is not valid Unicode.
    """
    text = _decode(data)
    if (
        len(text) <= _AT_ONCE
        and _surely_within(text, max_depth, max_members)
        and not ("\\u" in text and _ESCAPED_SURROGATE.search(text))
    ):
        try:
            return _read_strictly(text)
        except (ValueError, StopIteration, RecursionError):
            pass
    return run_steps(_parse(text, max_depth, max_members))


def parse_json_steps(
    data: bytes | str, *, max_depth: int = 64, max_members: int = 200_000
) -> Generator[None, None, Any]:
    """`parse_json` in steps: a generator that returns the value. Raises as it does.

    No step takes 1 ms, but for single calls of the text's decoder, of a search for separators, and of Python's
    parser: 16 MiB take it up to 100 ms, a typical megabyte 10.
    """
    return (yield from _parse(_decode(data), max_depth, max_members))


def _parse(text: str, max_depth: int, max_members: int) -> Generator[None, None, Any]:
    if not _surely_within(text, max_depth, max_members):
        yield from _count(text, max_depth, max_members)
    yield
    try:
        value = _read_strictly(text)
    except (ValueError, StopIteration, RecursionError):
        yield
        value = yield from read_dialect(text, max_depth, max_members, write_json)
    yield
    if "\\u" in text and _ESCAPED_SURROGATE.search(text):
        yield from _refuse_surrogates(value)
    return value


def _read_strictly(text: str) -> Any:
    """Read standard JSON. Raises ValueError, StopIteration or RecursionError when it is none."""
    scan = _scan_short if len(text) <= _AT_ONCE else _scan_long
    value, end = scan(text, 0 if text[:1] == "{" else _skip_space(text, 0))
    if end != len(text) and _skip_space(text, end) != len(text):
        raise ValueError("text after the end of the value")
    return value


def _decode(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise RemoteProtocolError("JSON that is not UTF-8") from exc


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


# Possessive repeats and optional closing quotes: text without an end is consumed once, not tried again from
# every place.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|\'(?:[^\'\\]++|\\.)*+\'?|[{}\[\],]', re.DOTALL)


def _surely_within(text: str, max_depth: int, max_members: int) -> bool:
    """Whether the bounds hold whatever is text and whatever is structure."""
    return text.count("{") + text.count("[") <= max_depth and text.count(",") < max_members


def _count(text: str, max_depth: int, max_members: int) -> Generator[None, None, None]:
    """Refuse what is too deep or too large before a parser builds objects."""
    depth = members = 0
    for tokens, match in enumerate(_STRUCTURE.finditer(text)):
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
        if not tokens % 512:
            yield


def _refuse_surrogates(value: Any) -> Generator[None, None, None]:
    """Half a surrogate pair is no character: it could not be written again."""
    pending = [value]
    looked_at = 0
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
        looked_at += 1
        if not looked_at % 512:
            yield


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
