"""Turns rows into messages: by the names of their columns, or with a function of the user's.

Messages that can share a frame are not made at all: their bodies and encoded properties are enough.

`RowMapping` has the settings for this, and is sent to the executors. The positions of the columns are looked up once
for each set of columns, so that a row costs little. This module does not send or count, does not decide what to do with
bad rows, and does not need Spark. `rocketpy.spark.columns` has the rules for columns, `rocketpy.spark.row_shapes` the
kinds of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from rocketpy.errors import ConfigError, RocketMQError, RowError, SerializationError
from rocketpy.message import Message, PropertyName
from rocketpy.serialization import BinarySerializer, Serializer, StringSerializer, serializer
from rocketpy.spark.columns import (
    FIELDS,
    PUTS,
    TEXTS,
    TOPIC,
    VALUE,
    WHOLE_ROW,
    encoded_body,
    encoded_column,
    key_texts,
    topic_name,
)
from rocketpy.spark.row_shapes import NOTHING, Columns, OpenColumns, Unreadable, named_values, whole_row
from rocketpy.wire.properties import encode_properties

__all__ = ["WAIT_TEXT", "BadRow", "Encoded", "RowMapping"]

T = TypeVar("T")

Column: TypeAlias = str | int | None
Values: TypeAlias = tuple[Any, ...]
Encoded: TypeAlias = tuple[bytes, str]
"""Body and encoded properties of a message to the topic of the mapping; it may share a frame with any other."""

_new: Final = Message.__new__
_WAIT: Final = PropertyName.WAIT
WAIT_TEXT: Final = encode_properties({_WAIT: "true"})
"""The encoded property that every message begins with."""
_SPECIAL: Final = frozenset({TOPIC, "sharding_key", "delay_level", "deliver_at", "wait_store_ok"})
"""Parts by which messages may differ so that they cannot share a frame."""
_NEEDED = (TOPIC, VALUE)
_WHOLE: Final = -1
"""Used in place of the position of a column: the whole row."""
_MOST_SHAPES = 100
_RECENT: Final = 8
"""The number of messages of a function among which one that it returns again is noticed."""


def _copied(columns: Mapping[str, Column] | None) -> dict[str, Column]:
    if not isinstance(columns, Mapping | None):
        raise ConfigError(
            f"columns is of the type {type(columns).__name__}: give parts of a message and their columns, such as "
            '{"value": "payload"}'
        )
    return dict(columns or {})


class BadRow(RocketMQError):
    """A row that cannot become a message. The code that iterates over the rows knows its number.

    Attributes:
        reason: What is wrong and what to do about it; never the values of the row.
        keys: The keys that its message would have had, as far as they are known.
        skippable: Whether ``bad_rows="skip"`` skips this row. False if the other rows would fail too, for example
            because a column is missing, or if a function of the user's has failed.
    """

    def __init__(self, reason: str, *, keys: tuple[str, ...] = (), skippable: bool = True) -> None:
        self.reason = reason
        self.keys = keys
        self.skippable = skippable
        super().__init__(reason)

    def at(self, row: int, partition: int) -> RowError:
        """The error that the driver shows."""
        return RowError(self.reason, row=row, partition=partition, keys=self.keys)


@attrs.frozen(kw_only=True)
class RowMapping:
    """How rows become messages.

    Attributes:
        topic: The topic of the messages, even if rows have a column named topic. If `columns` has a column for the
            topic, only of rows in which that is null.
        columns: The column of each part of a message, if it does not have the name of the part; None if no column has
            the part. In tuples without names, a column is given by its position. `*` stands for the whole row, and is
            only for the value.
        value_format: How values are encoded.
        function: Turns a row into a message, or returns None to skip the row. Then nothing else is set.

    Raises:
        ConfigError: the settings contradict each other, or a part or format does not exist.
    """

    topic: str | None = None
    columns: Mapping[str, Column] = attrs.field(factory=dict, converter=_copied)
    value_format: str | Serializer = "binary"
    function: Callable[[Any], Message | None] | None = None

    def __attrs_post_init__(self) -> None:
        serializer(self.value_format)
        if self.function is not None:
            self._check_function()
            return
        if self.topic is not None:
            topic_name(self.topic)
        elif TOPIC in self.columns and self.columns[TOPIC] is None:
            raise ConfigError("a message needs a topic: give one for all rows, or name the column")
        for field, column in self.columns.items():
            _check_column(field, column)

    def _check_function(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"to_message is of the type {type(self.function).__name__}: give a function of a row")
        if self.topic is not None or self.columns or self.value_format != "binary":
            raise ConfigError(
                "to_message makes whole messages, with their topics: leave topic, columns and value_format out"
            )

    def compile(self, columns: Columns) -> Callable[[Values], Message]:
        """Look up the columns, and return a function that turns the values of a row into a message.

        The function raises BadRow if it cannot.

        Raises:
            ConfigError: a required column is missing; the text lists the existing ones.
        """
        return _message_of(self, columns, self._checked_places(columns))

    def compile_encoded(self, columns: Columns) -> Callable[[Values], Encoded | Message]:
        """As `compile`, but the function returns only the body and the encoded properties, if such columns allow it.

        It returns messages if there is a column for the topic, the sharding key, the time of delivery, or
        `wait_store_ok`.
        """
        places = self._checked_places(columns)
        return _message_of(self, columns, places) if _SPECIAL & places.keys() else _encoded_of(self, columns, places)

    def _checked_places(self, columns: Columns) -> dict[str, int]:
        places = self.places(columns)
        single = isinstance(serializer(self.value_format), BinarySerializer | StringSerializer)
        if single and columns is not None and places[VALUE] == _WHOLE:
            raise ConfigError('a whole row is not a single value: choose value_format="json" or "msgpack"')
        return places

    def to_message(self) -> Callable[[Any], Message | None]:
        """Return a function that turns a row of any kind into a message, or returns None if the row is skipped.

        The function raises BadRow if it cannot. It remembers the columns of the previous row: make one for each
        partition.
        """
        return _by_columns(self.compile) if self.function is None else _by_function(self.function)

    def to_encoded(self) -> Callable[[Any], Encoded | Message | None]:
        """As `to_message`, but the function returns only body and encoded properties of rows that allow it.

        See `compile_encoded`. The bytes of the messages are the same.
        """
        return _by_columns(self.compile_encoded) if self.function is None else _by_function(self.function)

    def places(self, columns: Columns) -> dict[str, int]:
        """The position of the column of each part that rows with these columns give; -1 for the whole row.

        Raises:
            ConfigError: a required column is missing.
        """
        places = {}
        for field in FIELDS:
            column = self._column_of(field)
            if column is None:
                continue
            if column == WHOLE_ROW:
                places[field] = _WHOLE
            elif columns is not None and column in columns:
                places[field] = _only_place(columns, column)
            elif self._is_needed(field, columns):
                raise _missing(field, column, columns)
        return places

    def _is_needed(self, field: str, columns: Columns) -> bool:
        """Whether a part must have a column. A column that a dict omits counts as null, so it must allow null."""
        if isinstance(columns, OpenColumns):
            return field == VALUE or (field == TOPIC and self.topic is None)
        return field in _NEEDED or field in self.columns

    def _column_of(self, field: str) -> Column:
        if field in self.columns:
            return self.columns[field]
        if field == TOPIC and self.topic is not None:
            return None
        # If the whole row is sent, its columns are data, and only columns that the user has named are parts too.
        return field if field in _NEEDED or self.columns.get(VALUE) != WHOLE_ROW else None


def _check_column(field: str, column: object) -> None:
    if field not in FIELDS:
        raise ConfigError(f"a message has no part {field!r}; columns can give {', '.join(FIELDS)}")
    if column is None and field == VALUE:
        raise ConfigError("a message needs a value: name its column")
    if column == WHOLE_ROW and field != VALUE:
        raise ConfigError(f"the whole row (*) can be the value, not the {field}")
    if isinstance(column, bool) or not isinstance(column, str | int | None):
        raise ConfigError(f"the column of the {field} is {column!r:.100}: give its name, or its position in a tuple")


def _only_place(columns: Any, column: str | int) -> int:
    if list(columns).count(column) > 1:
        raise ConfigError(f"there are several columns {column!r}: rename them (alias)")
    place: int = columns.index(column)
    return place


def _missing(field: str, column: str | int, columns: Columns) -> ConfigError:
    if columns is None:
        return ConfigError(
            f"a row is a single value without columns, so there is no {column!r} for the {field}: use it as the value "
            f'with columns={{"value": "*"}}, or give to_message'
        )
    there = ", ".join(map(repr, columns)) or "none"
    if isinstance(columns, range):
        advice = "the columns of tuples have no names, so give positions"
    elif field == TOPIC:
        advice = "give one topic for all rows, or name the column"
    else:
        advice = f'name another with columns={{"{field}": ...}}'
        if field == VALUE:
            advice += ', or send whole rows with columns={"value": "*"} and value_format="json"'
    return ConfigError(f"there is no column {column!r} for the {field}; the columns are {there}: {advice}")


def _message_of(mapping: RowMapping, columns: Columns, places: Mapping[str, int]) -> Callable[[Values], Message]:
    """The function for each row. Everything that is the same for all rows is in its closure."""
    encode, as_it_is = _encoder(mapping)
    topic, topic_at, value_at = mapping.topic or "", places.get(TOPIC), places[VALUE]
    puts = [(places[field], put) for field, put in PUTS.items() if field in places]
    keys_at = places.get("keys")

    def message_of(values: Values) -> Message:
        try:
            value = values[value_at] if value_at != _WHOLE else whole_row(columns, values)
            # Made without its constructor, which would check everything again.
            message = _new(Message)
            message.body = value if type(value) is as_it_is and value else encoded_body(value, encode)
            message.topic = topic if topic_at is None else topic_name(values[topic_at] or topic)
            message.flag = 0
            message.wire_properties = properties = {_WAIT: "true"}
            for place, put in puts:
                column = values[place]
                if column is not None:
                    put(properties, column)
        except Exception as exc:
            raise _bad_values(exc, columns, values, keys_at) from exc
        return message

    return message_of


def _encoded_of(mapping: RowMapping, columns: Columns, places: Mapping[str, int]) -> Callable[[Values], Encoded]:
    """The same for body and encoded properties."""
    encode, as_it_is = _encoder(mapping)
    value_at, keys_at = places[VALUE], places.get("keys")
    fields = [(places[field], field, TEXTS.get(field)) for field in PUTS if field in places]

    def encoded_of(values: Values) -> Encoded:
        try:
            value = values[value_at] if value_at != _WHOLE else whole_row(columns, values)
            body = value if type(value) is as_it_is and value else encoded_body(value, encode)
            properties = WAIT_TEXT
            for place, field, name in fields:
                column = values[place]
                if name and type(column) is str and column and column.isprintable() and not column.isspace():
                    properties = f"{properties}{name}\x01{column}\x02"  # nearly every text
                elif column is not None:
                    properties += encoded_column(field, column)
        except Exception as exc:
            raise _bad_values(exc, columns, values, keys_at) from exc
        return body, properties

    return encoded_of


def _encoder(mapping: RowMapping) -> tuple[Callable[[object], Any], type[bytes] | None]:
    """The function that encodes values, and the type of values that it leaves as they are."""
    encoder = serializer(mapping.value_format)
    return encoder.encode, bytes if isinstance(encoder, BinarySerializer) else None


def _by_columns(compiled: Callable[[Columns], Callable[[Values], T]]) -> Callable[[Any], T]:
    """A function for rows of any kind, from one that returns the function for the values of rows with some columns."""
    shapes = _Shapes(compiled)
    known: object = shapes  # unlike any columns
    made_of: Callable[[Values], T]

    def of_row(row: Any) -> T:
        nonlocal known, made_of
        columns = getattr(row, "__fields__", None)
        if columns is not None:
            values = NOTHING + row
        else:
            columns, values = named_values(row)
        if columns is not known:
            if columns != known:
                made_of = shapes.look_up(columns)
            known = columns
        return made_of(values)

    return of_row


class _Shapes(Generic[T]):
    """The functions for all sets of columns seen so far, because dicts may differ in their columns."""

    def __init__(self, compiled: Callable[[Columns], Callable[[Values], T]]) -> None:
        self._compile = compiled
        self._compiled: dict[object, Callable[[Values], T]] = {}

    def look_up(self, columns: Columns) -> Callable[[Values], T]:
        shape = type(columns), None if columns is None else tuple(columns)
        made_of = self._compiled.get(shape)
        if made_of is None:
            try:
                made_of = self._compile(columns)
            except ConfigError as exc:
                raise BadRow(str(exc), skippable=isinstance(columns, OpenColumns)) from exc
            if len(self._compiled) >= _MOST_SHAPES:
                self._compiled.clear()
            self._compiled[shape] = made_of
        return made_of


def _by_function(function: Callable[[Any], object]) -> Callable[[Any], Message | None]:
    recent: dict[int, Message] = {}
    """The last messages by identity. Few, because their bodies may be large."""

    def to_message(row: Any) -> Message | None:
        try:
            message = function(row)
        except Exception as exc:
            raise _bad_row(exc, "to_message") from exc
        if message is None:
            return None
        if id(message) in recent:
            # The message may not be sent yet. If it was changed for this row, it would be sent twice.
            raise BadRow(
                "to_message returned the Message of an earlier row again: make a new one for every row",
                skippable=False,
            )
        if isinstance(message, Message):
            if len(recent) == _RECENT:
                recent.clear()
            recent[id(message)] = message
            return message
        kind = type(message).__name__
        raise BadRow(f"to_message returned a {kind}: return a Message, or None to skip the row", skippable=False)

    return to_message


def _bad_values(error: Exception, columns: Columns, values: Values, keys_at: int | None) -> BadRow:
    if columns is not None and len(values) != len(columns):
        return BadRow(f"the row has {len(values)} values for its {len(columns)} columns: fill it up with nulls")
    keys = None if keys_at is None else values[keys_at]
    for column, value in zip(columns or (), values, strict=False):
        if type(value) is Unreadable:
            return BadRow(f"the column {column!r:.100} {value.reason}", keys=_told_keys(keys))
    return _bad_row(error, "the value format", keys)


def _bad_row(error: Exception, what: str, keys: object = None) -> BadRow:
    if isinstance(error, ConfigError | SerializationError):
        return BadRow(str(error), keys=_told_keys(keys))
    kind = type(error).__name__
    return BadRow(f"{what} failed with {kind}: see the cause", keys=_told_keys(keys), skippable=False)


def _told_keys(value: object) -> tuple[str, ...]:
    try:
        return () if value is None else key_texts(value)
    except ConfigError:
        return ()
