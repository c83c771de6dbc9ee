"""msgpack: the types of JSON, and bytes. Smaller and faster to read than JSON, and known in many languages.

Datetimes with a time zone are written as msgpack's own timestamp and decoded as aware datetimes in UTC. Other values
without a msgpack type are written as text, as in the json format: Decimal, dates, datetimes without a zone, durations.
Keys are always text. Decoding refuses all extensions of msgpack other than its timestamp.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, NoReturn
from uuid import UUID

import attrs
import msgpack

from rocketpy.errors import SerializationError
from rocketpy.serialization.bounds import MAX_MEMBERS, check_depth, too_deep, too_many
from rocketpy.serialization.plain import MAX_DEPTH, Leaves, decimal_text, duration_text, plain

__all__ = ["MsgpackSerializer"]


@attrs.frozen
class MsgpackSerializer:
    """Values as msgpack.

    Attributes:
        max_depth: How deep lists and objects may be nested, when encoding and decoding.
        max_members: How many members a decoded value may have, counted over all of its lists and objects.
    """

    name: str = attrs.field(default="msgpack", init=False)
    content_type: str = attrs.field(default="application/msgpack", init=False)
    max_depth: int = attrs.field(default=MAX_DEPTH, kw_only=True)
    max_members: int = attrs.field(default=MAX_MEMBERS, kw_only=True)

    def encode(self, value: object) -> bytes:
        """Return the msgpack of a value.

        Raises:
            SerializationError: something inside has a type that cannot be written, is a whole number of more than 64
                bits, or is nested too deep.
        """
        flat = (
            type(value) is dict and _SAME.issuperset(map(type, value.values())) and _TEXTS.issuperset(map(type, value))
        )
        if not flat:
            value = plain(value, _LEAVES, max_depth=self.max_depth)
        try:
            packed: bytes = msgpack.packb(value, datetime=True)
        except OverflowError:
            raise SerializationError(
                "a whole number inside the value has more than the 64 bits of msgpack: make it a Decimal or a text"
            ) from None
        except UnicodeEncodeError as exc:
            raise SerializationError(f"a text inside the value cannot be written in UTF-8: {exc.reason}") from None
        return packed

    def decode(self, body: bytes) -> Any:
        """Return the value of msgpack bytes.

        Raises:
            SerializationError: the bytes are not exactly one msgpack value, or exceed the bounds.
        """
        room = _Room(self.max_members)
        try:
            value = msgpack.unpackb(
                body,
                raw=False,
                timestamp=3,
                strict_map_key=True,
                ext_hook=_no_extension,
                list_hook=room.take,
                object_hook=room.take,
                max_array_len=min(self.max_members, len(body)),
                max_map_len=min(self.max_members, len(body) // 2),
            )
        except (RecursionError, msgpack.StackError):
            raise too_deep(self.max_depth) from None
        except SerializationError:
            raise
        except UnicodeDecodeError as exc:
            raise SerializationError(f"a text in the body is not UTF-8: {exc.reason}") from None
        except (ValueError, OverflowError, msgpack.UnpackException) as exc:
            why = str(exc) or "it has a byte that begins no value"
            raise SerializationError(f"the body is not one value of msgpack: {why}") from None
        check_depth(value, self.max_depth)
        return value


class _Room:
    """Counts the members of lists and objects while they are built."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def take(self, holder: Any) -> Any:
        # An empty list or object counts as one.
        self.left -= 1 if not holder else len(holder)
        if self.left < 0:
            raise too_many(self.limit)
        return holder


def _no_extension(code: int, _data: bytes) -> NoReturn:
    raise SerializationError(f"the body holds an extension of msgpack of type {code}, which is not known here")


def _moment(value: datetime) -> datetime | str:
    return value.isoformat() if value.utcoffset() is None else value


_TEXTS = frozenset({str})
_SAME: frozenset[type] = frozenset({str, int, float, bool, NoneType, bytes, bytearray})
_LEAVES = Leaves(
    _SAME,
    {
        memoryview: bytes,
        Decimal: decimal_text,
        datetime: _moment,
        date: date.isoformat,
        time: time.isoformat,
        timedelta: duration_text,
        UUID: str,
    },
)
