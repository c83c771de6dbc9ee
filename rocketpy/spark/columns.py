"""The parts of a message that a column can provide, and the values that such a column may have.

This module has only the rules for single values: null and empty text mean that the message does not have the part; a
text can be any single value; all other parts have one type. Errors name the part and the type found, never the value.
`rocketpy.spark.rows` looks the columns up and iterates over rows. Pure, and without pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from numbers import Integral
from typing import Any, Final

from rocketpy.errors import ConfigError
from rocketpy.message import KEY_SEPARATOR, RESERVED_PROPERTIES, PropertyName
from rocketpy.message.message import MOST_LEVELS
from rocketpy.moments import SECONDS_BELOW
from rocketpy.serialization.plain import scalar_text
from rocketpy.wire.names import NOT_ALLOWED_SEND, check_topic
from rocketpy.wire.properties import encode_properties

__all__ = [
    "FIELDS",
    "PUTS",
    "TEXTS",
    "TOPIC",
    "VALUE",
    "WHOLE_ROW",
    "Put",
    "encoded_body",
    "encoded_column",
    "key_texts",
    "topic_name",
]

Put = Callable[[dict[str, str], Any], None]
"""Writes the value of a column, which is not null, into the properties of a message, under their names on the wire."""

TOPIC: Final = "topic"
VALUE: Final = "value"
WHOLE_ROW: Final = "*"
"""Used in place of a column name: the whole row, as an object with a member for each column."""

_LARGEST = 2**63 - 1
_SEPARATORS = frozenset("\x01\x02")
_MOST_KNOWN = 1_000
_known_names: set[str] = set()
_known_topics: set[str] = set()


def encoded_body(value: object, encode: Callable[[object], Any]) -> bytes:
    """Encode a value as the body of a message.

    Raises:
        ConfigError: the value is null, or the body is empty.
        SerializationError: the format cannot encode the value.
        TypeError: a serializer of the user's did not return bytes.
    """
    body = None if value is None else encode(value)
    if type(body) is bytes and body:
        return body
    if value is not None and not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"a value format must return bytes, not {_type(body)}")
    if not body:
        raise ConfigError(
            f"the value is {'null' if value is None else 'empty'}, and RocketMQ accepts no message without a body: "
            'filter such rows out, or skip them with bad_rows="skip"'
        )
    return bytes(body)


def topic_name(value: object) -> str:
    """The topic that a column names.

    Raises:
        ConfigError: it is no topic that a message can be sent to.
    """
    if type(value) is str and value in _known_topics:
        return value
    if value is None or value == "":
        raise ConfigError("the topic is null or empty: fill the column, or give one topic for all rows")
    if not isinstance(value, str):
        raise ConfigError(f"the topic is of the type {_type(value)}: give a string")
    check_topic(value)
    if value in NOT_ALLOWED_SEND:
        raise ConfigError(f"clients cannot send to the topic {value}: only the broker writes to it")
    _remember(_known_topics, value)
    return value


def _remember(known: set[str], name: str) -> None:
    if len(known) < _MOST_KNOWN:
        known.add(name)


# --- text ---------------------------------------------------------------------------------------------


def _text(what: str, value: object) -> str:
    """Text that may stand in a property; "" for what stands for nothing."""
    if type(value) is not str:
        value = _written(what, value)
    if value.isspace():
        raise ConfigError(f"{what} is blank: give text, or null for none")
    if not _can_travel(value):
        raise ConfigError(
            f"{what} contains a control character that separates properties (\\x01 or \\x02), or half of a surrogate "
            "pair: remove it"
        )
    return value


def _can_travel(text: str) -> bool:
    if text.isprintable():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return _SEPARATORS.isdisjoint(text)


def _written(what: str, value: object) -> str:
    """A single value as the format "string" writes it."""
    if value is None:
        return ""
    text = scalar_text(value)
    if text is None:
        raise ConfigError(f"{what} is of the type {_type(value)}: cast the column to a string")
    return text


def _put_text(name: str, what: str) -> Put:
    def put(properties: dict[str, str], value: object) -> None:
        # What is printable holds no control character: nearly every text passes here.
        if not (type(value) is str and value.isprintable() and not value.isspace()):
            value = _text(what, value)
        if value:
            properties[name] = value

    return put


def _put_keys(properties: dict[str, str], value: object) -> None:
    if not (type(value) is str and value.isprintable() and not value.isspace()):
        value = KEY_SEPARATOR.join(key_texts(value))
    if value:
        properties[PropertyName.KEYS] = value


def key_texts(value: object) -> tuple[str, ...]:
    """The keys in a column: an array of single values, or one text with keys separated by spaces.

    Raises:
        ConfigError: the type of the column, or a key, is not usable.
    """
    if not isinstance(value, list | tuple) or hasattr(value, "__fields__"):
        return tuple(_text("the key", value).split())
    keys = [text for each in value if (text := _text("the key", each))]
    for key in keys:
        if KEY_SEPARATOR in key:
            raise ConfigError(f"the key {key!r:.100} contains a space, which separates keys: it would become several")
    return tuple(keys)


# --- properties ---------------------------------------------------------------------------------------


def _put_properties(properties: dict[str, str], value: object) -> None:
    for name, each in _pairs(value):
        if not (type(each) is str and each.isprintable() and not each.isspace()):
            each = _text(f"the property {name!r:.100}", each)
        if each:
            properties[name if name in _known_names else _property_name(name)] = each


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Names and values of a map or a struct."""
    if isinstance(value, Mapping):
        return value.items()
    fields = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
    if fields is None or not isinstance(value, tuple):
        raise ConfigError(f"the properties are of the type {_type(value)}: give a map or a struct")
    return zip(fields, value, strict=False)


def _property_name(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"a name of a property is of the type {_type(name)}: give strings")
    if name in RESERVED_PROPERTIES:
        raise ConfigError(f"the property name {name!r} is used by RocketMQ itself: choose another")
    if not name or name.isspace() or not _can_travel(name):
        raise ConfigError(f"the property name {name!r:.100} is blank or cannot be carried: choose another")
    _remember(_known_names, name)
    return name


# --- when and how -------------------------------------------------------------------------------------


def _put_delay_level(properties: dict[str, str], value: object) -> None:
    if type(value) is not int and not _is_integer(value):
        raise ConfigError(f"the delay level is of the type {_type(value)}: give an integer")
    level = int(value)  # type: ignore[call-overload]  # it is an integer, if perhaps one of numpy's
    if not 0 <= level <= MOST_LEVELS:
        raise ConfigError(
            f"the delay level is {level}: give a level that the brokers have, 1 to 18 as a rule, or 0 or null for "
            "none; a level is not a number of seconds: deliver_at takes a time"
        )
    if level:
        properties[PropertyName.DELAY] = str(level)


def _put_deliver_at(properties: dict[str, str], value: object) -> None:
    if PropertyName.DELAY in properties:
        raise ConfigError("both delay_level and deliver_at say when the message is due: leave one of them null")
    moment = _milliseconds(value)
    if not 0 <= moment <= _LARGEST:
        raise ConfigError("deliver_at is before 1970, or beyond what RocketMQ can express")
    properties[PropertyName.TIMER_DELIVER_MS] = str(moment)


def _milliseconds(value: Any) -> int:
    """Milliseconds since 1970. PySpark gives timestamps in the time zone of the process, without saying so."""
    if _is_integer(value):
        if 0 < value < SECONDS_BELOW:
            raise ConfigError("deliver_at looks like seconds: give a timestamp, or milliseconds since 1970")
        return int(value)
    if not isinstance(value, datetime):
        advice = "cast the date to a timestamp" if isinstance(value, date) else "give a timestamp"
        raise ConfigError(f"deliver_at is of the type {_type(value)}: {advice}, or milliseconds since 1970")
    try:
        return round(value.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as exc:
        raise ConfigError("deliver_at is not a moment that this machine can express") from exc


def _put_wait_store_ok(properties: dict[str, str], value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(f"wait_store_ok is of the type {_type(value)}: give a boolean")
    properties[PropertyName.WAIT] = "true" if value else "false"


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _type(value: object) -> str:
    return type(value).__name__


PUTS: Final[Mapping[str, Put]] = {
    "tags": _put_text(PropertyName.TAGS, "the tag"),
    "keys": _put_keys,
    "properties": _put_properties,
    "sharding_key": _put_text(PropertyName.SHARDING_KEY, "the sharding key"),
    "delay_level": _put_delay_level,
    "deliver_at": _put_deliver_at,
    "wait_store_ok": _put_wait_store_ok,
}
"""How each optional part is written, in the order in which they are."""


TEXTS: Final[Mapping[str, str]] = {"tags": PropertyName.TAGS, "keys": PropertyName.KEYS}
"""The property of each part that stands in it as it is, if it is printable text that is not blank."""


def _encoded_plain(value: dict[str, Any]) -> str | None:
    """A map with names that were checked before and printable texts that are not blank, encoded; None for any other."""
    encoded = ""
    for name, text in value.items():
        if not (type(text) is str and text and text.isprintable() and name in _known_names) or text.isspace():
            return None
        encoded = f"{encoded}{name}\x01{text}\x02"
    return encoded


def encoded_column(field: str, value: object) -> str:
    """The properties that a column writes, encoded."""
    if type(value) is dict and field == "properties":
        encoded = _encoded_plain(value)
        if encoded is not None:
            return encoded
    properties: dict[str, str] = {}
    PUTS[field](properties, value)
    return encode_properties(properties)


FIELDS: Final = (TOPIC, VALUE, *PUTS)
"""The parts of a message that columns can give, and the names of the columns they are looked for in."""
