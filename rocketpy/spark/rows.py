"""Makes messages of rows: by the names of their columns, or by a function of the user's.

`RowMapping` says how, as a value that travels to the executors. Where the columns stand is looked up once for each set
of columns, so that a row costs little. Nothing here sends, counts or decides what becomes of a bad row, and nothing
needs Spark: the rules of a column are in `rocketpy.spark.columns`, the forms of rows in `rocketpy.spark.row_shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from rocketpy.errors import ConfigError, RocketMQError, RowError, SerializationError
from rocketpy.message import Message, PropertyName
from rocketpy.serialization import BinarySerializer, Serializer, StringSerializer, serializer
from rocketpy.spark.columns import FIELDS, PUTS, TOPIC, VALUE, WHOLE_ROW, encoded_body, key_texts, topic_name
from rocketpy.spark.row_shapes import NOTHING, Columns, OpenColumns, named_values, whole_row

__all__ = ["BadRow", "RowMapping"]

Column: TypeAlias = str | int | None
Values: TypeAlias = tuple[Any, ...]

_new: Final = Message.__new__
_WAIT: Final = PropertyName.WAIT
_NEEDED = (TOPIC, VALUE)
_WHOLE: Final = -1
"""In place of a column's place: the whole row."""
_MOST_SHAPES = 100


def _copied(columns: Mapping[str, Column] | None) -> dict[str, Column]:
    if not isinstance(columns, Mapping | None):
        raise ConfigError(
            f"columns is of the type {type(columns).__name__}: give parts of a message and their columns, such as "
            '{"value": "payload"}'
        )
    return dict(columns or {})


class BadRow(RocketMQError):
    """A row that cannot become a message; the code that walks the rows knows its number.

    Attributes:
        reason: What is wrong and what to do; never what the row holds.
        keys: The keys its message would have had, as far as they can be told.
        skippable: Whether leaving out bad rows may leave out this one. Not so where all rows would be as bad, such as
            when a column is missing, or where a function of the user's has failed.
    """

    def __init__(self, reason: str, *, keys: tuple[str, ...] = (), skippable: bool = True) -> None:
        self.reason = reason
        self.keys = keys
        self.skippable = skippable
        super().__init__(reason)

    def at(self, row: int, partition: int) -> RowError:
        """The error that the driver of the job shows."""
        return RowError(self.reason, row=row, partition=partition, keys=self.keys)


@attrs.frozen(kw_only=True)
class RowMapping:
    """How rows become messages.

    Attributes:
        topic: Where messages go, also those of rows that have a column named topic; where `columns` names the column of
            the topic, only those of rows in which it is null.
        columns: Which column gives which part of a message, where the column is not named as the part; None for a part
            that no column gives. The position stands for the column in tuples without names, and `*` for the whole
            row, as the value only.
        value_format: How values become bodies.
        function: Makes a message of a row, or None to leave the row out; then nothing else is set.

    Raises:
        ConfigError: the settings contradict each other or name what there is not.
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
        """Look the columns up; what comes back makes a message of the values of a row.

        It raises BadRow where it cannot.

        Raises:
            ConfigError: a column that is asked for is not there; the text lists those there are.
        """
        places = self._places(columns)
        single = isinstance(serializer(self.value_format), BinarySerializer | StringSerializer)
        if single and columns is not None and places[VALUE] == _WHOLE:
            raise ConfigError('a whole row is no single value: choose value_format="json" or "msgpack"')
        return _compiled(self, columns, places)

    def to_message(self) -> Callable[[Any], Message | None]:
        """Return a function that makes a message of a row, of whatever kind, or None where the row is to be left out.

        It raises BadRow where it cannot. It remembers the columns of the row before: make one for each partition.
        """
        return _by_columns(self) if self.function is None else _by_function(self.function)

    def _places(self, columns: Columns) -> dict[str, int]:
        """Where the column of each part stands; -1 for the whole row."""
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
        """Whether a part has to have a column: what a dict leaves out is null, and may be where null may be."""
        if isinstance(columns, OpenColumns):
            return field == VALUE or (field == TOPIC and self.topic is None)
        return field in _NEEDED or field in self.columns

    def _column_of(self, field: str) -> Column:
        if field in self.columns:
            return self.columns[field]
        if field == TOPIC and self.topic is not None:
            return None
        # The columns of a whole row are data, whatever their names: only what is asked for is taken out of them.
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
            f"a row is one value without columns, there is no {column!r} for the {field}: make the value of the "
            f'messages of it with columns={{"value": "*"}}, or give to_message'
        )
    there = ", ".join(map(repr, columns)) or "none"
    if isinstance(columns, range):
        advice = "the columns of tuples have no names, give positions"
    elif field == TOPIC:
        advice = "give one topic for all rows, or name the column"
    else:
        advice = f'name another with columns={{"{field}": ...}}'
        if field == VALUE:
            advice += ', or send whole rows with columns={"value": "*"} and value_format="json"'
    return ConfigError(f"there is no column {column!r} for the {field}; the columns are {there}: {advice}")


def _compiled(mapping: RowMapping, columns: Columns, places: Mapping[str, int]) -> Callable[[Values], Message]:
    """The loop's body; what does not change from row to row is in its cells."""
    encoder = serializer(mapping.value_format)
    encode, as_it_is = encoder.encode, bytes if isinstance(encoder, BinarySerializer) else None
    topic, topic_at, value_at = mapping.topic or "", places.get(TOPIC), places[VALUE]
    puts = [(places[field], put) for field, put in PUTS.items() if field in places]
    keys_at = places.get("keys")

    def message_of(values: Values) -> Message:
        try:
            value = values[value_at] if value_at != _WHOLE else whole_row(columns, values)
            # Made without its constructor, which would look at everything again.
            message = _new(Message)
            message.body = value if type(value) is as_it_is and value else encoded_body(value, encode)
            message.topic = topic if topic_at is None else topic_name(values[topic_at] or topic)
            message.flag = 0
            message.properties = properties = {_WAIT: "true"}
            for place, put in puts:
                column = values[place]
                if column is not None:
                    put(properties, column)
        except Exception as exc:
            raise _bad_values(exc, columns, values, keys_at) from exc
        return message

    return message_of


def _by_columns(mapping: RowMapping) -> Callable[[Any], Message]:
    shapes = _Shapes(mapping)
    known: object = shapes  # unlike any columns
    message_of: Callable[[Values], Message]

    def to_message(row: Any) -> Message:
        nonlocal known, message_of
        columns = getattr(row, "__fields__", None)
        if columns is not None:
            values = NOTHING + row
        else:
            columns, values = named_values(row)
        if columns is not known:
            if columns != known:
                message_of = shapes.look_up(columns)
            known = columns
        return message_of(values)

    return to_message


class _Shapes:
    """What was looked up for the columns seen so far: dicts have now these, now those."""

    def __init__(self, mapping: RowMapping) -> None:
        self._mapping = mapping
        self._compiled: dict[object, Callable[[Values], Message]] = {}

    def look_up(self, columns: Columns) -> Callable[[Values], Message]:
        shape = type(columns), None if columns is None else tuple(columns)
        message_of = self._compiled.get(shape)
        if message_of is None:
            try:
                message_of = self._mapping.compile(columns)
            except ConfigError as exc:
                raise BadRow(str(exc), skippable=isinstance(columns, OpenColumns)) from exc
            if len(self._compiled) >= _MOST_SHAPES:
                self._compiled.clear()
            self._compiled[shape] = message_of
        return message_of


def _by_function(function: Callable[[Any], object]) -> Callable[[Any], Message | None]:
    last: Message | None = None

    def to_message(row: Any) -> Message | None:
        nonlocal last
        try:
            message = function(row)
        except Exception as exc:
            raise _bad_row(exc, "to_message") from exc
        if message is None:
            return None
        if message is last:
            # The frame of the last row may not be sent yet: changed for this row, the message would be sent twice.
            raise BadRow(
                "to_message returned the Message of the row before again: make a new one for every row", skippable=False
            )
        if isinstance(message, Message):
            last = message
            return message
        kind = type(message).__name__
        raise BadRow(f"to_message returned a {kind}: return a Message, or None to skip the row", skippable=False)

    return to_message


def _bad_values(error: Exception, columns: Columns, values: Values, keys_at: int | None) -> BadRow:
    if columns is not None and len(values) != len(columns):
        return BadRow(f"the row has {len(values)} values for its {len(columns)} columns: fill it up with nulls")
    return _bad_row(error, "the value format", None if keys_at is None else values[keys_at])


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
