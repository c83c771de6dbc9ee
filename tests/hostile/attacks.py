"""What is sent for a request code: everything that its declaration lets be large, and what any request may carry.

Header and body come from `rocketpy.wire.catalogue.exchanges`, so a code needs nothing here to be attacked. `special`
has what is special about a code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketpy.wire.catalogue.exchanges import body_module, body_name, header_class
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import WireField
from rocketpy.wire.json_body import Body
from tests.hostile import shapes
from tests.hostile.bounds import bounds
from tests.hostile.frames import (
    LARGEST_BODY,
    MAX_FIELDS,
    MAX_FRAME,
    MAX_HEADER,
    binary,
    header_text,
    raw,
    request,
)
from tests.hostile.measure import Attack
from tests.hostile.samples import SHORT_CODES, small_body, small_fields
from tests.hostile.special import special

ALL_JSON = {RequestCode.CHECK_CLIENT_CONFIG, RequestCode.QUERY_DATA_VERSION}
"""Codes that do least with what they read: all kinds of JSON are tried on them, one at each server."""
_HEADER_ROOM = 1024
"""What a largest text leaves to the rest of its header."""


def attacks(code: RequestCode) -> list[Attack]:
    """All attacks of a code on a server."""
    return [*of_any(code, small_fields(code), small_body(code)), *special(code), *bounds(code)]


def of_any(code: RequestCode, fields: dict[str, str], body: bytes) -> Iterator[Attack]:
    """The attacks that are possible with any code, given the declared types of its header and its body.

    Args:
        code: The code of the request.
        fields: The header fields of a small request.
        body: The body of a small request.
    """
    yield from _headers(code, fields, body)
    yield from _any_body(code, fields)
    yield from _declared_body(code, fields)


def small(code: RequestCode) -> Callable[[], bytes]:
    """Makes the request in small, as a client of good will sends it."""
    return lambda: request(code, small_fields(code), small_body(code))


# --- headers -----------------------------------------------------------------------------------------------


def _fields(code: RequestCode) -> list[tuple[str, WireField]]:
    kind = header_class(code)
    if kind is None:
        return []
    return [(field.short or field.name if code in SHORT_CODES else field.name, field) for field in kind.wire_fields]


def _headers(code: RequestCode, fields: dict[str, str], body: bytes) -> Iterator[Attack]:
    own = _fields(code)
    texts = [name for name, field in own if field.kind == "text"]

    def longest(room: int = MAX_HEADER - _HEADER_ROOM) -> dict[str, str]:
        each = room // max(1, len(texts)) - 32
        return fields | (dict.fromkeys(texts, "x" * each) or {"a": "x" * each})

    def each_longest() -> Iterator[bytes]:
        for name in texts:
            for length in (0, 127, 128, 255, 256, 32_767, 32_768, 65_536):
                yield request(code, fields | {name: "x" * length}, body)
            for odd in ("\x00", "\x01\x02", "..", "../../etc", "%s%n", "\u202e", "\U0001f600", " "):
                yield request(code, fields | {name: odd}, body)

    def numbers() -> Iterator[bytes]:
        for name, field in own:
            if field.kind != "text":
                for end in (*shapes.ENDS, "", "x", "NaN", "1e9", "true"):
                    yield request(code, fields | {name: str(end)}, body)

    def filler(count: int) -> dict[str, str]:
        return fields | {f"f{number}": "x" for number in range(count - len(fields))}

    deep = "[" * 31 + "]" * 31
    tail = header_text(code, fields)[1:]
    yield Attack(name="nothing at all", frames=lambda: [request(code)])
    yield Attack(name="longest texts", frames=lambda: [request(code, longest(), body)])
    yield Attack(name="longest texts, binary", frames=lambda: [binary(code, longest(), body)])
    yield Attack(name="texts at all lengths", frames=each_longest)
    yield Attack(name="numbers at their ends", frames=numbers)
    yield Attack(name="a header too long", frames=lambda: [request(code, longest(MAX_HEADER + 65536), body)])
    yield Attack(name="most fields", frames=lambda: [request(code, filler(MAX_FIELDS), body)])
    yield Attack(name="too many fields", frames=lambda: [request(code, filler(MAX_FIELDS + 1), body)])
    yield Attack(name="a deep header", frames=lambda: [raw(f'{{"x":{deep},{tail}'.encode(), body)])
    yield Attack(name="a header of blanks", frames=lambda: [raw((" " * (MAX_HEADER - 4096) + "{" + tail).encode())])
    yield Attack(name="a header in single quotes", frames=lambda: [_single_quoted(code, filler(MAX_FIELDS), body)])
    yield Attack(name="fields that are no text", frames=lambda: [request(code, {key: [[1]] for key in fields}, body)])


def _single_quoted(code: RequestCode, fields: dict[str, str], body: bytes) -> bytes:
    return raw(header_text(code, fields).replace('"', "'").encode(), body)


# --- bodies ------------------------------------------------------------------------------------------------


def _any_body(code: RequestCode, fields: dict[str, str]) -> Iterator[Attack]:
    beyond = (MAX_FRAME + 1).to_bytes(4, "big") + b"\0\0\0\x10{}"
    yield Attack(name="largest body", call="copy", frames=lambda: [request(code, fields, bytes(LARGEST_BODY))])
    yield Attack(name="a body too large", frames=lambda: [beyond])
    yield Attack(name="a body of one byte", frames=lambda: [request(code, fields, b"\xff")])


def _declared_body(code: RequestCode, fields: dict[str, str]) -> Iterator[Attack]:
    kind = _json_kind(code)
    if kind is None:
        return

    def framed(name: str, make: Callable[[], bytes], call: str) -> Attack:
        return Attack(name=name, frames=lambda: [request(code, fields, make())], call=call)

    for name, call, make in shapes.any_json():
        if code in ALL_JSON or name in shapes.FEW:
            yield framed(name, make, call)
    for name, make in shapes.crowded(kind):
        yield framed(name, make, "")
    for name, make in shapes.texts(kind):
        yield framed(name, make, "json scan")
    yield Attack(
        name="numbers of the body at their ends",
        frames=lambda: [request(code, fields, body) for body in shapes.numbers(kind)],
    )


def _json_kind(code: RequestCode) -> type[Body] | None:
    name = body_name(code)
    if "." not in name:
        return None
    subject, _, kind = name.strip("[]").partition(".")
    found = getattr(body_module(subject), kind)
    assert issubclass(found, Body)
    return found
