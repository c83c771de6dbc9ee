"""Bodies at their limits, made from what is declared of them: the most members in each place, the longest text in each.

A declared body is walked by its annotations; for each list, set and map in it, however deep, there is one body that
holds as many elements there as the limit of members allows, and for each number one with every end of its range.
"""

from __future__ import annotations

import enum
import itertools
import json
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any

from rocketpy.wire.json_body import Body, members_of
from tests.hostile.frames import BEYOND_MEMBERS, LARGEST_BODY, MAX_DEPTH, MAX_MEMBERS

ENDS = (-(2**63), -(2**31), -1, 0, 2**31 - 1, 2**63 - 1, 2**31, 2**63)
"""Where numbers of 32 and of 64 bits begin and end, and just beyond."""

_names = itertools.count()
_SPARE = 64
"""Members that are left to what stands around a container."""


def fresh(prefix: str = "N") -> str:
    """A name that nobody has had."""
    return f"{prefix}{next(_names)}"


def dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# --- a declared body ---------------------------------------------------------------------------------------


def least(hint: Any, *, full: bool = False) -> Any:
    """The smallest value of a type that is read without a complaint; `full` gives every member its own."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return least(next(each for each in arguments if each is not types.NoneType), full=full)
    if origin in (list, set, frozenset):
        return []
    if origin is dict:
        return {}
    if origin is Annotated or hint in (int, float):
        return 1
    if hint is bool:
        return True
    if isinstance(hint, type) and issubclass(hint, Body):
        return object_of(hint, full=full)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint.__members__))
    return fresh()


@cache
def _hints(kind: type[Body]) -> list[tuple[str, Any, bool]]:
    """Name, type and whether it must be there, of every member."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [(each.names[0], hints[each.attribute], each.required) for each in members_of(kind)]


def object_of(kind: type[Body], *, full: bool = False) -> dict[str, Any]:
    """The smallest object of a declared body: the members that it needs, or all."""
    return {name: least(hint, full=full) for name, hint, required in _hints(kind) if required or full}


_Place = tuple[str, Callable[[Any], dict[str, Any]], Any]
"""The path of a member, what puts a value there, and the type of the member."""


def places(kind: type[Body], *, depth: int = 3) -> Iterator[_Place]:
    """Every member of a body and, within its containers and objects, of those it is made of."""
    for name, hint, _ in _hints(kind):

        def put(value: Any, name: str = name) -> dict[str, Any]:
            return object_of(kind) | {name: value}

        yield name, put, hint
        if depth > 1:
            yield from _inner(name, put, hint, depth - 1)


def _inner(name: str, put: Callable[[Any], dict[str, Any]], hint: Any, depth: int) -> Iterator[_Place]:
    item, wrap = _item(hint)
    if isinstance(item, type) and issubclass(item, Body):
        for path, inner, kind in places(item, depth=depth):
            yield f"{name}.{path}", lambda value, inner=inner: put(wrap(inner(value))), kind
    elif typing.get_origin(item) in (list, set, dict):
        yield f"{name}[]", lambda value: put(wrap(value)), item


def _item(hint: Any) -> tuple[Any, Callable[[Any], Any]]:
    """What a container holds, or what an optional member is; and how one of it is put there."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _item(next(each for each in arguments if each is not types.NoneType))
    if origin in (list, set, frozenset):
        return arguments[0], lambda value: [value]
    if origin is dict:
        return arguments[1], lambda value: {_key(arguments[0]): value}
    return hint, lambda value: value


def _key(hint: Any) -> str:
    return str(next(_names)) if hint is not str else fresh()


def count(value: Any) -> int:
    """What a value costs of the members that a body may have: its brackets, its commas, and the one that follows it."""
    text = dump(value)
    return 1 + sum(text.count(sign) for sign in (b"{", b"[", b","))


def many(hint: Any, members: int, *, full: bool) -> Any:
    """A container with so many members in it; None when the type is none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return many(next(each for each in arguments if each is not types.NoneType), members, full=full)
    if origin in (list, set, frozenset):
        each = count(least(arguments[0], full=full))
        numbers = arguments[0] is int or typing.get_origin(arguments[0]) is Annotated
        return [number if numbers else least(arguments[0], full=full) for number in range(members // each)]
    if origin is dict and arguments[0] in (str, int):
        each = count(least(arguments[1], full=full))
        return {_key(arguments[0]): least(arguments[1], full=full) for _ in range(members // each)}
    return None


def crowded(kind: type[Body]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Bodies that hold as much as may be in one place each: first of the smallest elements, then of the fullest."""
    for path, put, hint in places(kind):
        if many(hint, 0, full=False) is None:
            continue
        for name, most, full in (
            ("most", MAX_MEMBERS, False),
            ("most full", MAX_MEMBERS, True),
            ("four times the most", BEYOND_MEMBERS, False),
        ):

            def make(put: Any = put, hint: Any = hint, most: int = most, full: bool = full) -> bytes:
                return dump(put(many(hint, most - _SPARE, full=full)))

            yield f"{name} in {path}", make


def numbers(kind: type[Body]) -> list[bytes]:
    """A body for every end of every number in it."""
    found = []
    for _, put, hint in places(kind):
        if hint is int or typing.get_origin(hint) is Annotated:
            found += [dump(put(end)) for end in ENDS]
    return found


def texts(kind: type[Body]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Bodies with text as long as a frame allows, in one place each."""
    for path, put, hint in places(kind, depth=2):
        if str in (hint, *typing.get_args(hint)) and typing.get_origin(hint) not in (list, set, dict):
            yield f"longest {path}", lambda put=put: dump(put("x" * (LARGEST_BODY - 8192)))


# --- any JSON ----------------------------------------------------------------------------------------------


def _fill(around: bytes, piece: bytes, size: int = LARGEST_BODY) -> bytes:
    """Text of so many bytes: around, with as many pieces as there is room for where it has a dot."""
    head, _, tail = around.partition(b"@")
    return head + piece * ((size - len(around)) // len(piece)) + tail


def _most(around: bytes, piece: bytes, members: int = MAX_MEMBERS - _SPARE) -> bytes:
    head, _, tail = around.partition(b"@")
    return head + piece * members + tail


FEW = ("white space before", "most names, single quotes", "longest text", "deepest", "null", "an array")
"""Those of `any_json` that are sent for every code with a JSON body; all of them are for one code of each server."""


def any_json() -> list[tuple[str, str, Callable[[], bytes]]]:
    """Bodies that a reader of JSON of any kind may stumble over: name, the call into C that they need, maker."""
    deep = MAX_DEPTH - 1
    scan, match = "json scan", "re"
    return [
        ("white space before", match, lambda: _fill(b'@{"a":1}', b" ")),
        ("white space within", match, lambda: _fill(b'{@"a":1}', b" \n")),
        ("white space after", match, lambda: _fill(b'{"a":1}@', b"\t")),
        ("white space, single quotes", match, lambda: _fill(b"{@'a':1}", b" ")),
        ("comments", match, lambda: _fill(b"{@'a':1}", b"/**/")),
        ("one comment", match, lambda: _fill(b"{/*@*/'a':1}", b"*")),
        ("commas", match, lambda: _fill(b'{@"a":1}', b",")),
        ("commas in an array", match, lambda: _fill(b'{"a":[1@]}', b",")),
        ("brackets", match, lambda: _fill(b"@", b"[")),
        ("opening braces", match, lambda: _fill(b"@", b'{"a":')),
        ("deepest", "", lambda: b'{"a":' + b"[" * deep + b"]" * deep + b"}"),
        ("deeper", "", lambda: b'{"a":' + b"[" * (deep + 1) + b"]" * (deep + 1) + b"}"),
        ("most elements", "", lambda: _most(b'{"a":[1@]}', b",1")),
        ("too many elements", "", lambda: _most(b'{"a":[1@]}', b",1", MAX_MEMBERS + 1)),
        ("millions of elements", scan, lambda: _fill(b'{"a":[1@]}', b",1")),
        ("most names", "", lambda: dump({f"n{number}": 0 for number in range(MAX_MEMBERS - _SPARE)})),
        ("most names, single quotes", "", lambda: _most(b"{@}", b"'a':1,")),
        ("most objects", "", lambda: _most(b'{"a":[{}@]}', b",{}", (MAX_MEMBERS - _SPARE) // 2)),
        ("longest text", scan, lambda: _fill(b'{"a":"@"}', b"x")),
        ("longest text, single quotes", match, lambda: _fill(b"{'a':'@'}", b"x")),
        ("longest name", scan, lambda: _fill(b'{"@":1}', b"x")),
        ("escapes", scan, lambda: _fill(b'{"a":"@"}', b"\\u00e9")),
        ("escapes, single quotes", match, lambda: _fill(b"{'a':'@'}", b"\\n")),
        ("halves of characters", scan, lambda: _fill(b'{"a":"@"}', b"\\ud800")),
        ("pairs of halves", scan, lambda: _fill(b'{"a":"@"}', b"\\ud83d\\ude00")),
        ("text of four bytes", scan, lambda: _fill(b'{"a":"@"}', "\U0001f600".encode())),
        ("a number without an end", scan, lambda: _fill(b'{"a":@}', b"9")),
        ("a fraction without an end", scan, lambda: _fill(b'{"a":0.@}', b"3")),
        ("an exponent", "", lambda: b'{"a":1e999999999999}'),
        ("most digits", scan, lambda: _fill(b'{"a":[1@]}', b"," + b"9" * 4300)),
        ("quotes", match, lambda: _fill(b"@", b'"')),
        ("backslashes", match, lambda: _fill(b'{"a":"@', b"\\")),
        ("no UTF-8", "", lambda: _fill(b'{"a":"@"}', b"\xff")),
        ("references", "", lambda: _most(b'{"a":[{}@]}', b',{"$ref":"$"}', (MAX_MEMBERS - _SPARE) // 2)),
        ("an array", "", lambda: b"[]"),
        ("null", "", lambda: b"null"),
        ("nothing but a brace", "", lambda: b"{"),
    ]
