"""Checks on the driver that rows of a schema can become messages, and picks the columns that are needed. Pure.

Types are those of Spark's JSON: a name such as "long" or "decimal(10,2)", or an object for an array, map or struct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import attrs

from rocketpy.errors import ConfigError
from rocketpy.serialization import serializer
from rocketpy.spark.columns import FIELDS, TOPIC, VALUE, WHOLE_ROW

if TYPE_CHECKING:
    from rocketpy.spark.rows import RowMapping

__all__ = ["Field", "Selection", "default_format", "selection"]

Kind: TypeAlias = str | Mapping[str, Any]


class Field(NamedTuple):
    """A column of the frame."""

    name: str
    """Its name."""
    kind: Kind
    """Its type, as Spark's JSON writes it."""


@attrs.frozen
class Selection:
    """The columns that become parts of messages. It pickles.

    Attributes:
        columns: Their names, in the order of the frame.
        places: Their positions in the frame.
        moments: Those that are read as milliseconds since 1970.
    """

    columns: tuple[str, ...]
    places: tuple[int, ...]
    moments: frozenset[str] = frozenset()


def default_format(columns: Mapping[str, str | None], fields: Sequence[Field]) -> str:
    """The format of values if the user gives none: "string" for a column of strings, otherwise "binary"."""
    kinds = dict(fields)
    return "string" if _base(kinds.get(columns.get(VALUE) or VALUE, "binary")) == "string" else "binary"


def selection(mapping: RowMapping, fields: Sequence[Field], dedupe_key: str | None = None) -> Selection:
    """The columns that rows of these fields give to messages.

    Args:
        mapping: how rows become messages.
        fields: the columns of the frame.
        dedupe_key: a column that is needed too; it identifies a row.

    Raises:
        ConfigError: a column is missing or there are several of its name, or its type cannot be a part of a message.
    """
    names = [field.name for field in fields]
    _check_names(mapping, names)
    mapping.compile(names)  # which refuses columns of the same name, and formats that do not fit
    places = mapping.places(names)
    for part, place in places.items():
        if place >= 0:
            _check_type(part, fields[place], mapping)
        else:
            _check_whole_row(fields)
    whole = any(place < 0 for place in places.values())
    more = [] if dedupe_key is None else [_key_place(dedupe_key, fields)]
    used = range(len(names)) if whole else sorted({*places.values(), *more})
    moments = set()
    at = places.get("deliver_at")
    if (
        at is not None
        and not whole
        and at not in more
        and list(places.values()).count(at) == 1
        and fields[at].kind == "timestamp"
    ):
        moments.add(names[at])
    return Selection(tuple(names[place] for place in used), tuple(used), frozenset(moments))


def _key_place(column: str, fields: Sequence[Field]) -> int:
    """The position of the column that identifies a row."""
    names = [field.name for field in fields]
    if names.count(column) != 1:
        there = "several columns" if column in names else "no column"
        raise ConfigError(f"there is {there} {column!r:.100} for the dedupeKey; the columns are {', '.join(names)}")
    place = names.index(column)
    if not _is_single(fields[place].kind):
        raise ConfigError(
            f"the column {column!r:.100} has the type {_shown(fields[place].kind)}, and the dedupeKey must be a string "
            "or another single value: cast it"
        )
    return place


def _check_names(mapping: RowMapping, names: Sequence[str]) -> None:
    there = ", ".join(map(repr, names)) or "none"
    for part, column in mapping.columns.items():
        if column not in (None, WHOLE_ROW) and column not in names:
            raise ConfigError(f"there is no column {column!r:.100} for the {part}; the columns are {there}")
    if VALUE not in mapping.columns and VALUE not in names:
        raise ConfigError(
            f"there is no column 'value'; the columns are {there}: name another with the option columns, such as "
            '{"value": "payload"}, or send whole rows with {"value": "*"} and valueFormat json'
        )
    if mapping.topic is None and TOPIC not in mapping.columns and TOPIC not in names:
        raise ConfigError(
            f"the option topic is missing, and there is no column 'topic'; the columns are {there}: give the option, "
            'or name a column with the option columns, such as {"topic": "target"}'
        )


# --- types ---------------------------------------------------------------------------------------------

_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_SINGLE: Final = _INTEGERS | frozenset(
    {"string", "float", "double", "decimal", "boolean", "date", "timestamp", "timestamp_ntz", "time", "duration"}
)
"""Types with a single value that can be written as text."""
_ALIASES: Final = {"char": "string", "varchar": "string"}
_SQL_NAMES: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def _base(kind: Kind) -> str:
    """The name of a type without its parameters; "duration" for intervals of days and seconds."""
    if not isinstance(kind, str):
        return str(kind.get("type"))
    if kind.startswith("interval ") and "month" not in kind and "year" not in kind:
        return "duration"
    name = kind.partition("(")[0].partition(" ")[0]
    return _ALIASES.get(name, name)


def _shown(kind: Kind) -> str:
    """A type as SQL writes it."""
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    base = kind.get("type")
    if base == "array":
        return f"array<{_shown(kind['elementType'])}>"
    if base == "map":
        return f"map<{_shown(kind['keyType'])},{_shown(kind['valueType'])}>"
    return "a user-defined type" if base == "udt" else str(base)


def _is_single(kind: Kind) -> bool:
    return _base(kind) in _SINGLE


def _are_keys(kind: Kind) -> bool:
    if not isinstance(kind, str) and kind.get("type") == "array":
        return _is_single(kind["elementType"]) or kind["elementType"] == "void"
    return _is_single(kind)


def _are_properties(kind: Kind) -> bool:
    if isinstance(kind, str):
        return False
    if kind.get("type") == "map":
        return _base(kind["keyType"]) == "string" and _is_single_or_void(kind["valueType"])
    if kind.get("type") != "struct":
        return False
    return _are_named_apart(kind) and all(_is_single_or_void(each["type"]) for each in kind["fields"])


def _are_named_apart(struct: Mapping[str, Any]) -> bool:
    """Whether the members of a struct have different names."""
    return len({each["name"] for each in struct["fields"]}) == len(struct["fields"])


def _is_single_or_void(kind: Kind) -> bool:
    return kind == "void" or _is_single(kind)


def _is_nested(kind: Kind) -> bool:
    """Whether json and msgpack can write the values."""
    if isinstance(kind, str):
        return kind in ("binary", "void") or _is_single(kind)
    base = kind.get("type")
    if base == "array":
        return _is_nested(kind["elementType"])
    if base == "map":
        return _is_single(kind["keyType"]) and _is_nested(kind["valueType"])
    if base != "struct":
        return False
    return _are_named_apart(kind) and all(_is_nested(each["type"]) for each in kind["fields"])


_NESTED: Final = "made of single values, binary, arrays, maps, and structs whose members have different names"
_VALUES: Final[Mapping[str, tuple[Callable[[Kind], bool], str]]] = {
    "binary": (lambda kind: kind == "binary", "binary"),
    "string": (_is_single, "a string or another single value"),
    "json": (_is_nested, _NESTED),
    "msgpack": (_is_nested, _NESTED),
    "avro": (_is_nested, _NESTED),
}
"""What a value of each format may be, and how an error says it."""

_PARTS: Final[Mapping[str, tuple[Callable[[Kind], bool], str]]] = {
    TOPIC: (lambda kind: _base(kind) == "string", "a string"),
    "tags": (_is_single, "a string or another single value"),
    "keys": (_are_keys, "a string, another single value, or an array of them"),
    "properties": (
        _are_properties,
        "a map from strings to single values, or a struct of single values with different names",
    ),
    "sharding_key": (_is_single, "a string or another single value"),
    "delay_level": (lambda kind: _base(kind) in _INTEGERS, "an integer"),
    "deliver_at": (
        lambda kind: _base(kind) in _INTEGERS or kind in ("timestamp", "timestamp_ntz"),
        "a timestamp, or milliseconds since 1970",
    ),
    "wait_store_ok": (lambda kind: kind == "boolean", "a boolean"),
}
"""The same for the other parts of a message, whose columns may also be all null."""
assert {VALUE, *_PARTS} == set(FIELDS)


def _check_type(part: str, field: Field, mapping: RowMapping) -> None:
    if part == VALUE:
        value_format = serializer(mapping.value_format).name
        fits, wanted = _VALUES[value_format]
        what, advice = f"the value, with valueFormat {value_format},", "cast it, or choose another valueFormat"
    else:
        fits, wanted = _PARTS[part]
        what, advice = f"the {part}", f'cast it, or turn the part off with the option columns: {{"{part}": null}}'
        if field.kind == "void":
            return
    if not fits(field.kind):
        raise ConfigError(
            f"the column {field.name!r:.100} has the type {_shown(field.kind)}, and {what} must be {wanted}: {advice}"
        )


def _check_whole_row(fields: Sequence[Field]) -> None:
    names = [field.name for field in fields]
    if not names:
        raise ConfigError("the frame has no columns, so its rows have no value")
    for name, kind in fields:
        if names.count(name) > 1:
            raise ConfigError(f"there are several columns {name!r:.100}: rename them (alias)")
        if not _is_nested(kind):
            raise ConfigError(
                f"the column {name!r:.100} has the type {_shown(kind)}, and members of the value must be {_NESTED}: "
                "cast it, or leave it out of the DataFrame"
            )
