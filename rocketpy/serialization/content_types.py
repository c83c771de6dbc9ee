"""The property with the content type of a body, which tells readers what serializer to use. Pure.

The property has the name that Spring's messages use. Content types are MIME types. A serializer of the user's own with
exactly the same text comes first; otherwise case and parameters do not matter, except for the charset of text/plain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from rocketpy.errors import ConfigError, SerializationError, UnknownContentTypeError
from rocketpy.logs import quote
from rocketpy.serialization.named import serializer
from rocketpy.serialization.serializer import Serializer

__all__ = ["CONTENT_TYPE", "OwnSerializers", "content_type_of", "decoded", "encoded", "own_serializers"]

CONTENT_TYPE: Final = "contentType"
"""The name of the property."""

OwnSerializers: TypeAlias = tuple[Serializer, ...]
"""Serializers of the user's own, each with a content type."""

_BUILT_IN: Final = {
    "application/msgpack": "msgpack",
    "application/x-msgpack": "msgpack",
    "application/vnd.msgpack": "msgpack",
    "application/json": "json",
    "text/json": "json",
    "text/plain": "string",
    "application/octet-stream": "binary",
}
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_LONGEST: Final = 200


def content_type_of(by: Serializer) -> str:
    """The content type that a serializer writes.

    Raises:
        ConfigError: it has none, or one that a property cannot hold.
    """
    found: object = getattr(by, "content_type", None)
    if not isinstance(found, str) or not found.isprintable() or not found.strip() or len(found) > _LONGEST:
        raise ConfigError(
            f"the serializer {by.name!r:.100} needs a content_type, which tells readers of a message how its "
            f"body is written: a text such as 'application/x-protobuf', not {found!r:.100}"
        )
    return found


def own_serializers(value: Serializer | Iterable[Serializer]) -> OwnSerializers:
    """Serializers of the user's own, from one or an iterable of them.

    Raises:
        ConfigError: one of them is not a serializer, or has no content type.
    """
    if isinstance(value, Serializer | str | bytes) or not isinstance(value, Iterable):
        value = (value,)
    found = tuple(serializer(each) for each in value)
    for each in found:
        content_type_of(each)
    return found


def encoded(value: object, by: Serializer) -> bytes:
    """Encode a value with a serializer, to at least one byte.

    Raises:
        SerializationError: the serializer failed; an exception of the user's own serializer is the cause.
    """
    try:
        body: object = by.encode(value)
    except SerializationError:
        raise
    except Exception as exc:
        raise SerializationError(f"the serializer {by.name!r} failed to write the value: {_said(exc)}") from exc
    if not isinstance(body, bytes | bytearray) or not body:
        found = "no bytes" if isinstance(body, bytes | bytearray) else f"an object of type {type(body).__name__}"
        raise SerializationError(f"the serializer {by.name!r} returned {found}: a body is bytes, at least one")
    return bytes(body)


def decoded(body: bytes, content_type: str, own: OwnSerializers, what: object) -> Any:
    """Decode a body.

    Args:
        body: The body.
        content_type: Its content type.
        own: The user's own serializers, which come before the built-in formats.
        what: The message, for errors.

    Raises:
        UnknownContentTypeError: there is no serializer for the content type.
        SerializationError: the body does not match its content type, or exceeds the bounds.
    """
    by = _reader(content_type, own)
    if by is None:
        raise UnknownContentTypeError(
            f"{what!r} has the content type '{quote(content_type)}', which is not known here: give the consumer a "
            "serializer for it (serializers=), call decode with one, or read the body",
            content_type=content_type,
        )
    try:
        return by.decode(body)
    except Exception as exc:
        said = str(exc) if isinstance(exc, SerializationError) else f"the serializer {by.name!r} failed: {_said(exc)}"
        raise SerializationError(
            f"the body of {what!r} does not match its content type '{quote(content_type)}'; body has the bytes: {said}"
        ) from exc


def _reader(content_type: str, own: OwnSerializers) -> Serializer | None:
    for each in own:
        if content_type_of(each) == content_type:
            return each
    plain, parameters = _split(content_type)
    for each in own:
        if _split(content_type_of(each))[0] == plain:
            return each
    name = _BUILT_IN.get(plain)
    if name is None or (name == "string" and parameters.get("charset", "utf-8") not in _UTF_8):
        return None
    return serializer(name)


def _split(content_type: str) -> tuple[str, dict[str, str]]:
    """Return the type with its subtype, and the parameters; all in lower case."""
    plain, *rest = content_type.lower().split(";", 8)
    pairs = (each.partition("=") for each in rest)
    return plain.strip(), {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _said(exc: Exception) -> str:
    """The text of an exception of a user's serializer, cut off, because it may repeat the whole value."""
    return f"{type(exc).__name__}: {exc!s:.200}"
