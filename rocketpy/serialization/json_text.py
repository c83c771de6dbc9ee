"""JSON in UTF-8, without spaces, which any language reads.

Values without a JSON type are written as text: bytes in base64; Decimal digit by digit, because readers that use
doubles would lose digits; dates, times and durations in ISO 8601, without an offset if they have no time zone; and NaN
and the infinities by name. Decoding does not reverse this: it returns only dicts, lists, text, numbers, booleans and
None.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, NoReturn
from uuid import UUID

import attrs

from rocketpy.errors import SerializationError
from rocketpy.serialization.bounds import MAX_MEMBERS, check_depth, too_deep, too_many
from rocketpy.serialization.plain import MAX_DEPTH, Leaves, decimal_text, duration_text, plain

__all__ = ["JsonSerializer"]

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A JSON string, even if unterminated. Otherwise each quote of a hostile body could cause a scan to its end."""


@attrs.frozen
class JsonSerializer:
    """Values as JSON.

    Attributes:
        max_depth: How deep lists and objects may be nested, when encoding and decoding.
        max_members: How many members a decoded value may have, counted over all of its lists and objects.
    """

    name: str = attrs.field(default="json", init=False)
    content_type: str = attrs.field(default="application/json", init=False)
    max_depth: int = attrs.field(default=MAX_DEPTH, kw_only=True)
    max_members: int = attrs.field(default=MAX_MEMBERS, kw_only=True)

    def encode(self, value: object) -> bytes:
        """Return the JSON of a value.

        Raises:
            SerializationError: something inside has a type that cannot be written, or the value is nested too deep.
        """
        try:
            if not (type(value) is dict and _SAME.issuperset(map(type, value.values())) and _names(value)):
                value = plain(value, _LEAVES, max_depth=self.max_depth)
            return _encode(value).encode()
        except SerializationError:
            raise
        except ValueError:  # a NaN or infinity, half a surrogate pair, or a number with thousands of digits
            return self._encode_with_care(value)

    def _encode_with_care(self, value: object) -> bytes:
        """Encode a value with numbers that JSON lacks, or say what cannot be written."""
        value = plain(value, _FINITE_LEAVES, max_depth=self.max_depth)
        try:
            return _encode(value).encode()
        except UnicodeEncodeError as exc:
            raise SerializationError(f"a text inside the value cannot be written in UTF-8: {exc.reason}") from None
        except ValueError as exc:
            raise SerializationError(f"a number inside the value cannot be written: {exc}") from None

    def decode(self, body: bytes) -> Any:
        """Return the value of a JSON text.

        Raises:
            SerializationError: the bytes are not JSON in UTF-8, or exceed the bounds.
        """
        try:
            text = str(body, "utf-8")
            if sum(map(body.count, (b",", b"[", b"{"))) > self.max_members:
                self._check_members(text)
            value = json.loads(text, parse_constant=_no_constant)
        except UnicodeDecodeError as exc:
            raise SerializationError(f"the body is not JSON in UTF-8: {exc.reason} at byte {exc.start}") from None
        except json.JSONDecodeError as exc:
            raise SerializationError(f"the body is not JSON: {exc.msg} at character {exc.pos}") from None
        except SerializationError:
            raise
        except ValueError as exc:
            raise SerializationError(f"a number in the body cannot be read: {exc}") from None
        except RecursionError:
            raise too_deep(self.max_depth) from None
        check_depth(value, self.max_depth)
        if "\\ud" in text or "\\uD" in text:
            _check_surrogates(value)
        return value

    def _check_members(self, text: str) -> None:
        """Count members as for msgpack, where an empty list or object counts as one.

        Outside of strings, that is the number of commas and opening brackets: n members take n-1 commas and a bracket.
        """
        if sum(map(_TEXT.sub("", text).count, ",[{")) > self.max_members:
            raise too_many(self.max_members)


def _no_constant(name: str) -> NoReturn:
    raise SerializationError(f"the body is not JSON: it has no number {name}")


def _check_surrogates(value: object) -> None:
    """Refuse escapes of half a surrogate pair, because code that encodes the text later would fail."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise SerializationError("a text in the body has half a surrogate pair") from None


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _names(value: dict[Any, Any]) -> bool:
    return _TEXTS.issuperset(map(type, value))


def _base64(value: bytes | bytearray | memoryview) -> str:
    return b64encode(value).decode("ascii")


_TEXTS = frozenset({str})
_SAME: frozenset[type] = frozenset({str, int, float, bool, NoneType})
_LEAVES = Leaves(
    _SAME,
    {
        bytes: _base64,
        bytearray: _base64,
        memoryview: _base64,
        Decimal: decimal_text,
        datetime: datetime.isoformat,
        date: date.isoformat,
        time: time.isoformat,
        timedelta: duration_text,
        UUID: str,
    },
)
_FINITE_LEAVES = Leaves(_SAME - {float}, {**_LEAVES.others, float: _float})
