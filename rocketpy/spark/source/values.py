"""The column of values: bodies as they are, or decoded on the way.

A value that is not of its format fails the task, with the place of the message, or is null if the user says so.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rocketpy.errors import SerializationError
from rocketpy.serialization.avro_schema import fastavro, parsed_for_columns

if TYPE_CHECKING:
    from rocketpy.spark.source.shape import Shape
    from rocketpy.wire.record_columns import RecordColumns

__all__ = ["values_of"]

_BAD = (ValueError, TypeError, OverflowError)
"""What decoders raise for values that are not of their format or type; the errors of Arrow are among these."""


def values_of(shape: Shape, kind: pa.DataType | None = None) -> Callable[[list[bytes], RecordColumns], pa.Array]:
    """What makes the column of values.

    Args:
        shape: says the format.
        kind: the type of values that are decoded by a schema; None where there is no column of values.

    Raises:
        ConfigError: the library of the format is not installed.
    """
    if shape.value_format == "string":
        return _string_values
    if shape.value_format == "binary" or kind is None:
        return _binary_values
    bad_is_null = shape.bad_values == "null"
    if shape.value_format == "json":
        return _Decoded(_Json(kind), kind, "JSON of the type in valueSchema", bad_is_null=bad_is_null)
    assert shape.value_schema is not None, "checked with the options"
    what = "Avro written with the schema in valueSchema"
    return _Decoded(_Avro(kind, shape.value_schema), kind, what, bad_is_null=bad_is_null)


def _binary_values(bodies: list[bytes], _: RecordColumns) -> pa.Array:
    return pa.array(bodies, pa.binary())


def _string_values(bodies: list[bytes], _: RecordColumns) -> pa.Array:
    """Bodies as text; what is not UTF-8 is read with replacement characters, as Java reads it."""
    try:
        return pa.array(bodies, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([body.decode("utf-8", "replace") for body in bodies], pa.string())


class _Decoded:
    """Values that are decoded all at once, and one by one only if some of them are bad.

    Args:
        decode: decodes several bodies; raises one of `_BAD` if one of them is bad.
        kind: the type of the values.
        what: what values should be, for errors.
        bad_is_null: whether a bad value becomes null.
    """

    def __init__(
        self, decode: Callable[[list[bytes]], pa.Array], kind: pa.DataType, what: str, *, bad_is_null: bool
    ) -> None:
        self._decode = decode
        self._kind = kind
        self._what = what
        self._bad_is_null = bad_is_null

    def __call__(self, bodies: list[bytes], columns: RecordColumns) -> pa.Array:
        """The column."""
        if not bodies:
            return pa.nulls(0, self._kind)
        try:
            return self._decode(bodies)
        except _BAD:
            found = [self._single(body, head) for body, head in zip(bodies, columns.heads, strict=True)]
        return pa.concat_arrays(found)

    def _single(self, body: bytes, head: tuple[Any, ...]) -> pa.Array:
        try:
            return self._decode([body])
        except _BAD as error:
            if self._bad_is_null:
                return pa.nulls(1, self._kind)
            raise SerializationError(
                f"the value of the message at offset {head[3]} is not {self._what}: {error}; to read such values as "
                "null, set badValues to null"
            ) from None


class _Json:
    """Decodes objects of JSON, one in each body.

    Members that the type does not have are left out, and those that are missing are null.

    Args:
        kind: the type of the values.
    """

    def __init__(self, kind: pa.DataType) -> None:
        from pyarrow import json as arrow_json

        self._json = arrow_json
        self._kind = kind
        self._options = self._parsing(pa.field("value", _parsed_kind(kind)))
        self._syntax_only = self._parsing()
        self._member_behind = re.compile(_end_of(kind) + rb'\s*,\s*"')
        """Is found in every line that has another member behind a value that is not null, and seldom in other lines."""

    def _parsing(self, *fields: pa.Field) -> Any:
        return self._json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")

    def __call__(self, bodies: list[bytes]) -> pa.Array:
        """The values. Each body is a member of an object in a line of its own, and Arrow parses all lines at once.

        A body could close its line and begin another one, which the number of rows shows. Or it could be a value with
        more members behind it, such as `{"a":1},"x":2`. That is an error where bodies are elements of arrays, but
        arrays take Arrow longer, so only lines that look like it are parsed so too.

        Raises:
            ValueError: a body is not JSON of the type.
        """
        bodies = [body.replace(b"\n", b" ").replace(b"\r", b" ") for body in bodies]
        lines = b"\n".join([b'{"value":%b}' % body for body in bodies])
        if not lines.isascii():
            lines.decode()  # Arrow takes the bytes of texts as they are
        column = self._parsed(lines, self._options).column("value").combine_chunks()
        if len(column) != len(bodies):
            raise ValueError("it is more than one value")
        if column.null_count or self._member_behind.search(lines):
            self._parsed(b"\n".join([b'{"values":[%b]}' % body for body in bodies]), self._syntax_only)
        return _converted(column, self._kind)

    def _parsed(self, lines: bytes, options: Any) -> pa.Table:
        # One block for all: an object must not lie across two.
        read_options = self._json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        return self._json.read_json(BytesIO(lines), read_options=read_options, parse_options=options)


def _parsed_kind(kind: pa.DataType) -> pa.DataType:
    """The type as which values are parsed: Arrow takes text for bytes as it is, and numbers for dates."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_parsed_kind(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parsed_kind(kind.value_type)))
    return pa.string() if _is_text(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    """Whether JSON has text for values of a type that Arrow does not parse from text."""
    return bool(pa.types.is_binary(kind) or pa.types.is_date(kind))


def _converted(parsed: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type, from those that were parsed as `_parsed_kind` says: bytes are base64, dates are ISO 8601.

    Raises:
        ValueError: a text is neither.
    """
    if parsed.type == kind:
        return parsed
    if pa.types.is_struct(kind):
        members = [_converted(parsed.field(place), each.type) for place, each in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=parsed.is_null())
    if pa.types.is_list(kind):
        items = _converted(parsed.values, kind.value_type)
        bits_and_ends = parsed.buffers()[:2]
        return pa.Array.from_buffers(kind, len(parsed), bits_and_ends, parsed.null_count, parsed.offset, [items])
    if pa.types.is_date(kind):
        return parsed.cast(kind)
    texts = parsed.to_pylist()
    return pa.array([None if text is None else b64decode(text, validate=True) for text in texts], kind)


def _end_of(kind: pa.DataType) -> bytes:
    """A pattern for the last character of a value of a type, unless the value is null."""
    if pa.types.is_struct(kind):
        return rb"\}"
    return rb"[\]}]" if pa.types.is_nested(kind) else b""


class _Avro:
    """Decodes values in Avro's binary encoding, one in each body, without a header.

    Args:
        kind: the type of the values.
        schema: the schema with which all of them were written, as JSON.

    Raises:
        ConfigError: fastavro is not installed.
    """

    def __init__(self, kind: pa.DataType, schema: str) -> None:
        self._kind = kind
        self._schema = parsed_for_columns(schema)
        self._read = fastavro().schemaless_reader

    def __call__(self, bodies: list[bytes]) -> pa.Array:
        return pa.array(list(map(self._value, bodies)), self._kind)

    def _value(self, body: bytes) -> Any:
        stream = BytesIO(body)
        try:
            value = self._read(stream, self._schema)
        except EOFError:
            raise ValueError("it ends too early") from None
        except Exception as error:  # noqa: BLE001 - fastavro raises many types for bytes of others
            raise ValueError(f"{type(error).__name__}: {error!s:.200}") from None
        if (end := stream.tell()) != len(body):
            raise ValueError(f"it is {len(body)} bytes long, and the value ends after {end}")
        return value
