"""Pairs of attacks: at a bound and one beyond. Here are those of any frame and of any JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.json_dialect import _MAX_ODD_ESCAPES
from rocketpy.wire.json_literal import MAX_DIGITS
from rocketpy.wire.limits import DEFAULT_LIMITS, REQUEST_LIMITS, SMALL_REQUEST_LIMITS
from rocketpy_broker_sim.config import MAX_UPDATE
from tests.hostile.frames import header_text, raw, request
from tests.hostile.measure import CLOSED, Attack
from tests.hostile.samples import small_body, small_fields

OK, INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER
ERROR, ILLEGAL = ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL
_Make = Callable[[int], bytes | list[bytes]]


def pair(
    bound: str,
    most: int,
    what: str,
    make: _Make,
    *,
    beyond: int,
    at: int = OK,
    call: str = "",
    inflates: int = 0,
) -> Iterator[Attack]:
    """At a bound and one beyond.

    Args:
        bound: its module or class and its name.
        most: what it is.
        what: what there is so much of, in words.
        make: the request with so much of it, or several of which the last one counts.
        beyond: the code of the answer beyond it.
        at: the code of the answer at it.
        call: the call into C over a body at its limit.
        inflates: bytes that it becomes.
    """

    def frames(number: int) -> Callable[[], list[bytes]]:
        def made() -> list[bytes]:
            found = make(number)
            return found if isinstance(found, list) else [found]

        return made

    for number, answer, is_beyond in ((most, at, False), (most + 1, beyond, True)):
        yield Attack(
            name=what.format(f"{number:,}"),
            frames=frames(number),
            call=call,
            inflates=inflates,
            answer=answer,
            bound=bound,
            is_beyond=is_beyond,
        )


# --- any frame -----------------------------------------------------------------------------------------------


def frames_of(code: RequestCode) -> Iterator[Attack]:
    """Of any frame."""
    limits, fields = DEFAULT_LIMITS, small_fields(code)
    of = "WireLimits."

    def frame(size: int) -> bytes:
        header = header_text(code, fields).encode()
        return raw(header, bytes(size - 8 - len(header)))

    def header(size: int) -> bytes:
        text = header_text(code, fields)
        return raw((" " * (size - len(text)) + text).encode())

    def many(count: int) -> bytes:
        return request(code, fields | {f"f{number}": "x" for number in range(count - len(fields))})

    def deep(levels: int) -> bytes:
        nested = "[" * (levels - 1) + "]" * (levels - 1)
        return raw(f'{{"x":{nested},{header_text(code, fields)[1:]}'.encode())

    yield from pair(of + "max_frame", limits.max_frame, "a frame of {} bytes", frame, beyond=CLOSED, call="copy")
    yield from pair(of + "max_header", limits.max_header, "a header of {} bytes", header, beyond=CLOSED)
    yield from pair(of + "max_ext_fields", limits.max_ext_fields, "{} fields", many, beyond=CLOSED)
    yield from pair(of + "max_header_depth", limits.max_header_depth, "a header {} deep", deep, beyond=CLOSED)


# --- any JSON ------------------------------------------------------------------------------------------------


def listed_json(code: RequestCode) -> Iterator[Attack]:
    """Of a body that lists things; it has a member that is passed over."""
    limits = REQUEST_LIMITS

    def of(text: bytes) -> bytes:
        return request(code, small_fields(code), b'{"topicConfigList":[],"x":' + text + b"}")

    around = len('{"topicConfigList":[],"x":""}')
    yield from pair(
        "WireLimits.max_json_body",
        limits.max_json_body // 2,
        "{} bytes of JSON with characters beyond ASCII",
        lambda size: of(b'"' + "é".encode() + b"x" * (size - around - 2) + b'"'),
        beyond=ERROR,
        call="json scan",
        inflates=limits.max_json_body,
    )
    yield from pair(
        "WireLimits.max_body_members",
        limits.max_body_members,
        "{} members",
        # Up to the bound commas are counted, and everything when they are more.
        lambda count: of(b"[" + b"1," * (count - 2) + b"1]"),
        beyond=ERROR,
    )
    yield from pair(
        "WireLimits.max_body_depth",
        limits.max_body_depth,
        "JSON {} deep",
        lambda levels: of(b"[" * (levels - 1) + b"]" * (levels - 1)),
        beyond=ERROR,
    )
    # In a short text there is no room for a number that takes long.
    yield from pair(
        "json_literal.MAX_DIGITS",
        MAX_DIGITS,
        "{} digits",
        lambda size: of(b" " * 4096 + b"9" * size),
        beyond=ERROR,
    )
    yield from pair(
        "json_dialect._MAX_ODD_ESCAPES",
        _MAX_ODD_ESCAPES,
        "{} escapes of Java",
        lambda count: of(b"'" + b"\\x41" * count + b"'"),
        beyond=ERROR,
    )


def small_json(code: RequestCode) -> Iterator[Attack]:
    """Of a body about one thing."""
    limits = SMALL_REQUEST_LIMITS

    def sized(size: int) -> bytes:
        body = small_body(code)
        return request(code, {}, b" " * (size - len(body)) + body)

    def many(count: int) -> bytes:
        body = small_body(code)[:-1]
        commas = count - 1 - body.count(b",") - 1
        return request(code, {}, body + b',"x":[' + b"1," * commas + b"1]}")

    yield from pair(
        "WireLimits.max_json_body", limits.max_json_body, "{} bytes of JSON about one thing", sized, beyond=ERROR
    )
    yield from pair(
        "WireLimits.max_body_members", limits.max_body_members, "{} members about one thing", many, beyond=ERROR
    )


def settings(code: RequestCode) -> Iterator[Attack]:
    """Of changes of settings, the same at both servers."""
    body = small_body(code)
    yield from pair(
        "updates.MAX_UPDATE",
        MAX_UPDATE,
        "{} bytes of settings",
        lambda size: request(code, {}, body + b"#" * (size - len(body))),
        beyond=INVALID,
    )


def padded(around: bytes, size: int) -> bytes:
    """Blanks where it has an @, so that there are so many bytes."""
    head, _, tail = around.partition(b"@")
    return head + b" " * (size - len(head) - len(tail)) + tail
