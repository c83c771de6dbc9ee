"""How a body is read and written when all that is known is its name in `rocketpy.wire.catalogue.exchanges`.

For tools that take any frame apart: code that knows the request calls the declared class itself. The words for bodies
that are not one JSON object are "message" (the payload of one message, as it is), "batch" (items of
SEND_BATCH_MESSAGE), "records" (stored messages), "properties" (key=value lines), "names" (a JSON array of text) and
"text".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.batch import decode_batch, encode_batch_items
from rocketpy.wire.lenient_json import parse_json, write_json
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.properties_text import format_properties, read_properties
from rocketpy.wire.raw_record import read_records

if TYPE_CHECKING:
    from rocketpy.wire.json_body import Body

__all__ = ["BodyCodec", "plain_codec"]


class DeclaredBody(Protocol):
    """What every class of rocketpy.wire.bodies offers."""

    def encode(self) -> bytes:
        """The body as it travels."""
        ...

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a body."""
        ...


class BodyCodec(NamedTuple):
    """Both directions."""

    decode: Callable[[bytes], Any]
    """Makes the value of the bytes of a body."""
    encode: Callable[[Any], bytes]
    """Makes the bytes of a body of the value."""

    @classmethod
    def of(cls, declared: type[DeclaredBody]) -> BodyCodec:
        """A body that is one object of a declared class."""
        return cls(declared.decode, lambda value: bytes(value.encode()))

    @classmethod
    def of_array(cls, declared: type[Body]) -> BodyCodec:
        """A body that is a JSON array of objects of a declared class."""
        return cls(
            lambda data: [declared.from_json(item) for item in _array(data)],
            lambda value: write_json([item.to_json() for item in value]).encode(),
        )


def plain_codec(word: str) -> BodyCodec:
    """How a body is read and written that is not one JSON object.

    Raises:
        KeyError: there is no such word.
    """
    return _PLAIN[word]


def _array(data: bytes) -> list[Any]:
    limits = DEFAULT_LIMITS
    if len(data) > limits.max_json_body:
        raise RemoteProtocolError(f"{len(data)} bytes of JSON, the limit is {limits.max_json_body}")
    value = parse_json(data, max_depth=limits.max_body_depth, max_members=limits.max_body_members)
    if not isinstance(value, list):
        raise RemoteProtocolError("the body is not a JSON array")
    return value


def _names(data: bytes) -> list[str]:
    names = _array(data)
    if not all(isinstance(name, str) for name in names):
        raise RemoteProtocolError("the body is not an array of names")
    return names


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise RemoteProtocolError("the body is not UTF-8") from exc


_PLAIN = {
    "message": BodyCodec(bytes, bytes),
    "batch": BodyCodec(decode_batch, encode_batch_items),
    "records": BodyCodec(read_records, lambda value: b"".join(record.encode() for record in value)),
    "properties": BodyCodec(lambda data: read_properties(_text(data)), lambda value: format_properties(value).encode()),
    "names": BodyCodec(_names, lambda value: write_json(value).encode()),
    "text": BodyCodec(_text, str.encode),
}
