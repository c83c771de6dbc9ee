"""Avro: values of one schema in its binary encoding, without a header, so that readers need the schema too.

This is what Spark's `to_avro` writes and its `from_avro` reads. It needs the extra `avro`.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from types import NoneType
from typing import Any
from uuid import UUID

import attrs

from rocketpy.errors import ConfigError, SerializationError
from rocketpy.serialization.avro_bounds import check_bounds
from rocketpy.serialization.avro_schema import fastavro, parsed
from rocketpy.serialization.bounds import MAX_MEMBERS
from rocketpy.serialization.plain import MAX_DEPTH, Leaves, duration_text, plain

__all__ = ["AvroSerializer"]


@attrs.frozen
class AvroSerializer:
    """Values as Avro.

    An object must have exactly the fields of its record; fields with a default may be missing. Datetimes without a time
    zone are in the zone of the process, as Spark gives timestamps.

    Attributes:
        schema: The schema, as JSON.
        max_depth: How deep lists and objects may be nested, when encoding and decoding.
        max_members: How many members a decoded value may have, counted over all of its lists and objects.

    Raises:
        ConfigError: the schema is not an Avro schema, or fastavro is not installed.
    """

    schema: str = attrs.field(validator=lambda _self, _field, value: _check(value))
    max_depth: int = attrs.field(default=MAX_DEPTH, kw_only=True)
    max_members: int = attrs.field(default=MAX_MEMBERS, kw_only=True)
    name: str = attrs.field(default="avro", init=False)
    content_type: str = attrs.field(default="avro/binary", init=False)

    def encode(self, value: object) -> bytes:
        """Return the Avro of a value.

        Raises:
            SerializationError: the value does not match the schema, or is nested too deep.
        """
        made = plain(value, _LEAVES, max_depth=self.max_depth)
        stream = BytesIO()
        try:
            fastavro().schemaless_writer(
                stream, parsed(self.schema), made, strict_allow_default=True, disable_tuple_notation=True
            )
        except Exception as error:  # fastavro raises errors of many types, whose texts repeat the value
            raise SerializationError(f"the value does not match the Avro schema ({type(error).__name__})") from error
        return stream.getvalue()

    def decode(self, body: bytes) -> Any:
        """Return the value of a body.

        Raises:
            SerializationError: the body is not one value of the schema, or exceeds the bounds.
        """
        stream = BytesIO(body)
        try:
            check_bounds(self.schema, body, max_depth=self.max_depth, max_members=self.max_members)
            value = fastavro().schemaless_reader(stream, parsed(self.schema))
        except SerializationError:
            raise
        except Exception as error:  # noqa: BLE001 - fastavro raises many types for bytes of others
            said = f"{type(error).__name__}: {error!s:.200}".removesuffix(": ")
            raise SerializationError(f"the body is not Avro written with the schema: {said}") from None
        if (end := stream.tell()) != len(body):
            raise SerializationError(
                f"the body is not Avro written with the schema: it has {len(body)} bytes, the value ends after {end}"
            )
        return value


def _check(schema: Any) -> None:
    if not isinstance(schema, str):
        raise ConfigError(f"the schema is of the type {type(schema).__name__}: give its JSON as text")
    parsed(schema)


_LEAVES = Leaves(
    frozenset({str, int, float, bool, NoneType, bytes, Decimal, datetime, date, time, UUID}),
    {bytearray: bytes, memoryview: bytes, timedelta: duration_text},
)
