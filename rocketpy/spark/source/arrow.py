"""Record batches of Arrow from messages that were read into columns. Every array is made from flat lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from rocketpy.message.property_names import KEY_SEPARATOR, RESERVED_PROPERTIES, PropertyName
from rocketpy.spark.source.shape import COLUMNS, VALUE
from rocketpy.wire.message_id import offset_message_id
from rocketpy.wire.property_columns import common_properties
from rocketpy.wire.record_columns import ColumnHead, properties_of

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.shape import Shape
    from rocketpy.wire.record_columns import RecordColumns

__all__ = ["TYPES", "BatchMaker", "arrow_schema"]

_TIME: Final = pa.timestamp("us", tz="UTC")
_STORED_TIME: Final = pa.timestamp("ms", tz="UTC")
_MOST_MS: Final = (2**63 - 1) // 1000
"""The largest time whose microseconds have room in a column."""
_LIST: Final = pa.list_(pa.field("element", pa.string()))
_MAP: Final = pa.map_(pa.string(), pa.field("value", pa.string()))
TYPES: Final[dict[str, pa.DataType]] = {
    "array<string>": _LIST,
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": _TIME,
    "map<string,string>": _MAP,
}
"""Arrow's type for each type that a column has in Spark."""

Values = Callable[[list[bytes], "RecordColumns"], pa.Array]
"""Makes the column of values."""

_OFFSET, _PHYSICAL_OFFSET, _BORN, _STORED, _STORE_HOST = map(
    ColumnHead._fields.index, ("queue_offset", "physical_offset", "born_timestamp", "store_timestamp", "store_host")
)


def arrow_schema(shape: Shape, value_type: pa.DataType | None = None) -> pa.Schema:
    """The schema of the record batches, as Spark wants it for `shape.ddl`.

    Args:
        shape: the columns.
        value_type: the type of the value, where a schema gives it.
    """
    if value_type is None:
        value_type = pa.string() if shape.value_format == "string" else pa.binary()
    types = {name: TYPES[kind] for name, kind in COLUMNS.items()} | {VALUE: value_type}
    return pa.schema([pa.field(name, types[name]) for name in shape.columns])


class BatchMaker:
    """Makes record batches of the messages of one queue.

    Args:
        shape: the columns.
        queue: the queue.
        schema: the schema that the batches have.
        values: makes the column of values.
    """

    def __init__(self, shape: Shape, queue: MessageQueue, schema: pa.Schema, values: Values) -> None:
        self._schema = schema
        self._queue = queue
        self._values = values
        self._all_properties = shape.all_properties
        self._makers: list[Callable[[_Rows], pa.Array]] = [_MAKERS[name] for name in shape.columns]

    def batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """One batch of all that was read."""
        rows = _Rows(columns, self._queue, self._values, self._all_properties)
        return pa.RecordBatch.from_arrays([make(rows) for make in self._makers], schema=self._schema)


class _Rows:
    """Messages on their way into a record batch; what several columns need is made once, and only if one needs it."""

    def __init__(self, columns: RecordColumns, queue: MessageQueue, values: Values, all_properties: bool) -> None:
        self.columns = columns
        self.queue = queue
        self.size = len(columns)
        self.make_values = values
        self.all_properties = all_properties
        self._heads: list[tuple[Any, ...]] | None = None
        self._properties: list[dict[str, str]] | None = None
        self._common: dict[str, list[str]] | None = None
        self._looked = False

    def head(self, place: int) -> tuple[Any, ...]:
        """One field of the fixed parts."""
        if self._heads is None:
            self._heads = list(zip(*self.columns.heads, strict=True)) or [()] * len(ColumnHead._fields)
        return self._heads[place]

    @property
    def common(self) -> dict[str, list[str]] | None:
        """The values of properties by name, if all messages have the same names."""
        if not self._looked:
            self._common, self._looked = common_properties(self.columns.properties), True
        return self._common

    def values(self, name: str) -> list[str | None] | None:
        """The values of one property, None in place of those that are not there; None if no message has it."""
        if self.common is not None:
            return self.common.get(name)  # type: ignore[return-value]  # a list of texts is one of texts or None
        return [each.get(name) for each in self.properties]

    @property
    def properties(self) -> list[dict[str, str]]:
        """The properties of each message."""
        if self._properties is None:
            self._properties = list(map(properties_of, self.columns.properties))
        return self._properties

    def texts(self, name: str) -> pa.Array:
        """One property, null where a message does not have it."""
        found = self.values(name)
        return pa.nulls(self.size, pa.string()) if found is None else pa.array(found, pa.string())

    def constant(self, value: Any, kind: pa.DataType) -> pa.Array:
        """The same for all."""
        return pa.repeat(pa.scalar(value, kind), self.size)

    def moments(self, place: int) -> pa.Array:
        """A time, stored as milliseconds since 1970; null for a number that is none: a producer may send any."""
        times = self.head(place)
        try:
            return pa.array(times, _STORED_TIME).cast(_TIME)
        except pa.ArrowInvalid:
            return pa.array([each if abs(each) <= _MOST_MS else None for each in times], _STORED_TIME).cast(_TIME)


def _keys(rows: _Rows) -> pa.Array:
    flat: list[str] = []
    ends = [0]
    found = rows.values(PropertyName.KEYS)
    if found is None:
        ends = [0] * (rows.size + 1)
    elif None not in found and KEY_SEPARATOR not in "".join(cast("list[str]", found)):
        flat, ends = cast("list[str]", found), list(range(rows.size + 1))
    else:
        for text in found:
            if text is not None:
                flat += filter(None, text.split(KEY_SEPARATOR))
            ends.append(len(flat))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(flat, pa.string()), type=_LIST)


def _message_ids(rows: _Rows) -> pa.Array:
    hosts, offsets, name = rows.head(_STORE_HOST), rows.head(_PHYSICAL_OFFSET), PropertyName.UNIQUE_KEY
    found = rows.values(name) or [None] * rows.size
    if None in found:
        found = [
            offset_message_id(host, offset) if each is None else each
            for each, host, offset in zip(found, hosts, offsets, strict=True)
        ]
    return pa.array(found, pa.string())


def _properties(rows: _Rows) -> pa.Array:
    names: list[str] = []
    values: list[str] = []
    ends = [0]
    add_end, hidden = ends.append, frozenset() if rows.all_properties else RESERVED_PROPERTIES
    if rows.common is not None:
        return _common_properties({name: each for name, each in rows.common.items() if name not in hidden}, rows.size)
    for each in rows.properties:
        for name, value in each.items():
            if name not in hidden:
                names.append(name)
                values.append(value)
        add_end(len(names))
    return _map(ends, names, values)


def _common_properties(found: dict[str, list[str]], size: int) -> pa.Array:
    """The map where all messages have the same names."""
    values = list(chain.from_iterable(zip(*found.values(), strict=True)))
    return _map(range(0, len(values) + 1, len(found)) if found else [0] * (size + 1), list(found) * size, values)


def _map(ends: Sequence[int], names: list[str], values: list[str]) -> pa.Array:
    keys, items = pa.array(names, pa.string()), pa.array(values, pa.string())
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, items, type=_MAP)


_MAKERS: Final[dict[str, Callable[[_Rows], pa.Array]]] = {
    "keys": _keys,
    VALUE: lambda rows: rows.make_values(rows.columns.bodies, rows.columns),
    "topic": lambda rows: rows.constant(rows.queue.topic, pa.string()),
    "broker_name": lambda rows: rows.constant(rows.queue.broker_name, pa.string()),
    "queue_id": lambda rows: rows.constant(rows.queue.queue_id, pa.int32()),
    "offset": lambda rows: pa.array(rows.head(_OFFSET), pa.int64()),
    "timestamp": lambda rows: rows.moments(_STORED),
    "born_timestamp": lambda rows: rows.moments(_BORN),
    "tags": lambda rows: rows.texts(PropertyName.TAGS),
    "sharding_key": lambda rows: rows.texts(PropertyName.SHARDING_KEY),
    "message_id": _message_ids,
    "properties": _properties,
}
assert list(_MAKERS) == list(COLUMNS)
