"""Bounds on values of Avro: how deep they are nested, and how many members they have.

fastavro reads nested records by recursion in C, so deep nesting would end the process. And items that take no bytes,
such as nulls, let a few bytes stand for any number of members. So both are checked before it reads. Most schemas are
bounds themselves: the bytes are only walked where the schema and the size of the body allow too much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from rocketpy.serialization.avro_schema import parsed
from rocketpy.serialization.bounds import too_deep, too_many

__all__ = ["check_bounds"]

_SIZES: Final[Mapping[str, int]] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS: Final = frozenset({"int", "long", "enum"})
_BYTES: Final = frozenset({"bytes", "string"})
_RECORDS: Final = frozenset({"record", "error"})
_NAMED: Final = _RECORDS | {"enum", "fixed"}
_LONGEST_NUMBER: Final = 10
"""Bytes of a number of 64 bits."""


def check_bounds(schema: str, body: bytes, *, max_depth: int, max_members: int) -> None:
    """Refuse a body whose value is nested too deep, or has too many members.

    Args:
        schema: The schema, as JSON.
        body: One value.
        max_depth: How deep lists and objects may be nested.
        max_members: How many members the value may have, counted over all of its lists and objects.

    Raises:
        SerializationError: the value exceeds a bound.
        ValueError, EOFError: the body is not a value of the schema.
    """
    form, named = _measured(schema)
    if form.depth <= max_depth and form.members + len(body) * form.per_byte <= max_members:
        return
    try:
        _Walk(named, body, max_depth, max_members).value(parsed(schema), 0)
    except RecursionError:
        raise too_deep(max_depth) from None


@attrs.frozen
class _Form:
    """What values of a type can be.

    Attributes:
        least: The fewest bytes of one.
        members: The most members of one outside of its lists and maps.
        depth: How deep lists and objects are nested at most.
        per_byte: The most members in lists and maps for a byte of theirs.
    """

    least: int = 0
    members: int = 0
    depth: float = 0
    per_byte: float = 0


_UNBOUNDED: Final = _Form(depth=math.inf)


@lru_cache(maxsize=64)
def _measured(schema: str) -> tuple[_Form, Mapping[str, Any]]:
    """What values of a schema can be, and the types that have names."""
    measure = _Measure()
    return measure.of(parsed(schema)), measure.named


class _Measure:
    """Measures the types of one schema."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._forms: dict[str, _Form] = {}

    def of(self, schema: Any) -> _Form:
        """What values of a part of the schema can be."""
        if isinstance(schema, list):
            return self._union([self.of(each) for each in schema])
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in _NAMED:
            self.named[schema["name"]] = schema
        if kind in _RECORDS:
            return self._record(schema)
        if kind == "array":
            return self._list(self.of(schema["items"]), 0)
        if kind == "map":
            return self._list(self.of(schema["values"]), 1)
        if kind == "fixed":
            return _Form(schema["size"])
        if kind in _NUMBERS or kind in _BYTES:
            return _Form(1)
        if kind in _SIZES:
            return _Form(_SIZES[kind])
        return self._forms[kind] if kind in self._forms else self.of(self.named[kind])

    def _union(self, forms: list[_Form]) -> _Form:
        return _Form(
            1 + min(form.least for form in forms),
            max(form.members for form in forms),
            max(form.depth for form in forms),
            max(form.per_byte for form in forms),
        )

    def _record(self, schema: Mapping[str, Any]) -> _Form:
        self._forms[schema["name"]] = _UNBOUNDED  # where it contains itself
        forms = [self.of(field["type"]) for field in schema["fields"]]
        form = self._forms[schema["name"]] = _Form(
            sum(form.least for form in forms),
            max(1, len(forms)) + sum(form.members for form in forms),
            1 + max((form.depth for form in forms), default=0),
            max((form.per_byte for form in forms), default=0),
        )
        return form

    def _list(self, item: _Form, key: int) -> _Form:
        """A list or map, whose items have keys of some bytes at least."""
        least = key + item.least
        per_byte = (1 + item.members) / least if least else math.inf
        return _Form(1, 1, 1 + item.depth, max(per_byte, item.per_byte))


class _Walk:
    """Goes over the bytes of a value, and counts.

    Members are counted as for msgpack: an empty list or object counts as one.
    """

    def __init__(self, named: Mapping[str, Any], body: bytes, max_depth: int, max_members: int) -> None:
        self._named = named
        self._body = body
        self._position = 0
        self._max_depth = max_depth
        self._max_members = self._left = max_members

    def value(self, schema: Any, depth: int) -> None:
        """Go over a value that is so deep inside the others."""
        if isinstance(schema, list):
            index = self._number()
            if not 0 <= index < len(schema):
                raise ValueError("a union does not have the type that is chosen")
            self.value(schema[index], depth)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in _SIZES:
            self._pass(_SIZES[kind])
        elif kind in _NUMBERS:
            self._number()
        elif kind in _BYTES:
            self._pass(self._number())
        elif kind == "fixed":
            self._pass(schema["size"])
        elif kind in _RECORDS:
            self._record(schema["fields"], depth + 1)
        elif kind == "array":
            self._list(schema["items"], depth + 1, has_keys=False)
        elif kind == "map":
            self._list(schema["values"], depth + 1, has_keys=True)
        else:
            self.value(self._named[kind], depth)

    def _record(self, fields: list[Mapping[str, Any]], depth: int) -> None:
        self._take(max(1, len(fields)), depth)
        for field in fields:
            self.value(field["type"], depth)

    def _list(self, items: Any, depth: int, *, has_keys: bool) -> None:
        """A list or map: blocks, each after the number of its items."""
        count = self._number()
        self._take(0 if count else 1, depth)
        while count:
            if count < 0:  # the size of the block follows
                count = -count
                self._number()
            self._take(count, depth)
            for _ in range(count):
                if has_keys:
                    self._pass(self._number())
                self.value(items, depth)
            count = self._number()

    def _take(self, members: int, depth: int) -> None:
        if depth > self._max_depth:
            raise too_deep(self._max_depth)
        self._left -= members
        if self._left < 0:
            raise too_many(self._max_members)

    def _pass(self, size: int) -> None:
        end = self._position + size
        if size < 0 or end > len(self._body):
            raise EOFError
        self._position = end

    def _number(self) -> int:
        """The next number: seven bits in each byte, the lowest first, and the sign in the lowest."""
        found = 0
        for index, byte in enumerate(self._body[self._position : self._position + _LONGEST_NUMBER]):
            found |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if found >> 64:
                    break
                self._position += index + 1
                return (found >> 1) ^ -(found & 1)
        else:
            if len(self._body) - self._position < _LONGEST_NUMBER:
                raise EOFError
        raise ValueError("a number has more than 64 bits")
