"""How single values of a JSON body are read and written: numbers, texts, truth, bytes, members of enumerations.

As fastjson does it: numbers and texts stand for each other, a fraction is cut off, true and false are 1 and 0, an empty
text or the text "null" is no number, a member of an enumeration goes by its name in any case or by its place. A reader
returns None for what counts as absent. Its text for an object or an array is its JSON. Plays the part of TypeUtils.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketpy.wire.json_literal import Literal
from rocketpy.wire.lenient_json import write_json

if TYPE_CHECKING:
    import enum

__all__ = ["SCALARS", "Codec", "Unreadable", "array", "enum_codec", "int_reader", "kind_of", "object_of", "read_text"]

Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]
Steps = Callable[[Any], Generator[None, None, Any]]


class Unreadable(Exception):
    """A value is not of its declared type; the text says where and why. Never leaves the reader of bodies."""


class Codec(NamedTuple):
    """How values of one type are read and written."""

    read: Reader
    """Makes the value of what stands in the parsed JSON."""
    write: Writer
    """Makes what is put into the JSON of the value."""
    steps: Steps | None = None
    """`read` in steps, for what has members or elements. It takes the value apart: nobody else may need it."""


_WHOLE = re.compile(r"([+-]?[0-9]{1,20})(?:\.0*)?")
_NO_VALUE = frozenset({"", "null", "NULL"})
_TRUTH = {"true": True, "1": True, "y": True, "t": True, "false": False, "0": False, "n": False, "f": False}


def array(value: Any) -> list[Any]:
    """The value, which must be a list."""
    if not isinstance(value, list):
        raise Unreadable(f"{kind_of(value)} where an array should be")
    return value


def object_of(value: Any) -> dict[str, Any]:
    """The value, which must be a dict."""
    if not isinstance(value, dict):
        raise Unreadable(f"{kind_of(value)} where an object should be")
    return value


def kind_of(value: Any) -> str:
    """What a value is, for an error."""
    if isinstance(value, str):
        return f"{value[:60]!r:.60}"
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else f"{value!r:.60}"


def read_text(value: Any) -> str:
    """Text of anything: JSON where it is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, Literal):
        return value.java_text
    return write_json(value)


def int_reader(bits: int) -> Reader:
    """The reader of numbers that fit so many bits."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(value: Any) -> int | None:
        number = value if type(value) is int else _whole(value)
        if value in _NO_VALUE if isinstance(value, str) else value is None:
            return None
        if number is None or not low <= number <= high:
            raise Unreadable(f"{kind_of(value)} is not a number of {bits} bits")
        return number

    return read


def _whole(value: Any) -> int | None:
    """The whole number that a value stands for; None when it stands for none."""
    if isinstance(value, str):
        match = _WHOLE.fullmatch(value[:64].replace(",", "")) if len(value) <= 64 else None
        return None if match is None else int(match.group(1))
    if isinstance(value, (bool, int)):
        return int(value)
    # An infinite number cannot be cut, and a finite one of 300 digits is over every bound.
    return int(value) if isinstance(value, float) and abs(value) < 1e30 else None


def _read_boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        if value in _NO_VALUE:
            return None
        found = _TRUTH.get(value.lower()) if len(value) <= 5 else None
    elif isinstance(value, (bool, int)):
        found = value == 1
    else:
        found = int(value) == 1 if isinstance(value, float) and abs(value) < 1e30 else None
    if found is None:
        raise Unreadable(f"{kind_of(value)} is neither true nor false")
    return found


def _read_float(value: Any) -> float | None:
    try:
        if isinstance(value, str) and value in _NO_VALUE:
            return None
        if isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= 64):
            return float(value)
    except (ValueError, OverflowError) as exc:
        raise Unreadable(f"{kind_of(value)} is not a number") from exc
    raise Unreadable(f"{kind_of(value)} is not a number")


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(read_text(value), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise Unreadable(f"not base64: {exc}") from exc


def enum_codec(kind: type[enum.Enum]) -> Codec:
    """Members by name in any case, or by their place; written by name. An unknown name reads as None."""
    by_name = {name.lower(): each for name, each in kind.__members__.items()}
    in_order = tuple(kind)

    def read(value: Any) -> enum.Enum | None:
        if isinstance(value, str):
            return by_name.get(value.lower()) if len(value) <= 256 else None
        if type(value) is int and 0 <= value < len(in_order):
            return in_order[value]
        raise Unreadable(f"{kind_of(value)} where the name or the number of a {kind.__name__} should be")

    return Codec(read, lambda value: value.name)


SCALARS: dict[Any, Codec] = {
    str: Codec(read_text, str),
    int: Codec(int_reader(64), int),
    bool: Codec(_read_boolean, bool),
    float: Codec(_read_float, float),
    bytes: Codec(_read_bytes, lambda value: base64.b64encode(value).decode()),
    Any: Codec(lambda value: value, lambda value: value),
}
"""The types without members or elements, by their annotation."""
