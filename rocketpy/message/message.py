"""Message: what a user sends. Its fields are checked when it is created.

The topic's spelling and the size are checked by the producer, which knows the limits. Plays the part of Message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketpy.errors import ConfigError
from rocketpy.message.property_checks import checked_text, put_user_properties
from rocketpy.message.property_names import KEY_SEPARATOR, RESERVED_PROPERTIES, PropertyName
from rocketpy.message.property_views import UserProperties
from rocketpy.message.values import NO_VALUE, Valued
from rocketpy.reprs import cut
from rocketpy.seams import wall_ms

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = ["MOST_LEVELS", "Message"]

MOST_LEVELS: Final = 64
"""Brokers have 18 delay levels unless configured otherwise (`messageDelayLevel`), and take a larger one for the highest
that they have. What is beyond any of them is no level, but seconds."""
_LONG: Final = 2**63 - 1
_PAST_MS: Final = 1000
"""How far in the past a moment may be: clocks differ a little, and programs take time."""
_WAIT: Final = PropertyName.WAIT
"""A global for speed: every message has this property."""


class Message(Valued):
    """A message to send.

    Args:
        topic: The topic.
        body: The payload, at least one byte. A str is encoded as UTF-8.
        value: Instead of a body, a value that the serializer of the producer encodes when the message is sent. Changes
            to the value before that are sent too.
        tags: One tag, for filtering by consumers.
        keys: Business keys, by which the message can be found; a list of str, or one key as a str. A key has no white
            space.
        properties: Your own properties; names and values are str.
        sharding_key: Messages with equal sharding keys go to one queue, in the order they are sent.
        delay_level: One of the broker's delay levels, 1 to 18 unless it is configured to have more (up to 64 here); 0
            is none. Brokers take a level above their highest for that one.
        delay: Seconds (or a timedelta) until delivery, to the millisecond. RocketMQ 5 brokers only.
        deliver_at: An aware datetime, or milliseconds since 1970; not in the past. RocketMQ 5 brokers only.
        wait_store_ok: Whether the answer waits until the message is flushed and replicated as the broker is
            configured.

    Raises:
        ConfigError: an argument cannot be sent.
    """

    __slots__ = ("body", "flag", "topic", "wire_properties")

    topic: str
    body: bytes
    """The payload; empty if there is a value, which is encoded when the message is sent."""
    flag: int
    """An application-defined number (int32)."""
    wire_properties: dict[str, str]
    """All properties by their names on the wire, the user's and RocketMQ's own, as they are sent. What you write here
    is not checked. Most programs want `properties`."""

    def __init__(
        self,
        topic: str,
        body: bytes | str = b"",
        *,
        value: Any = NO_VALUE,
        tags: str | None = None,
        keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay: float | timedelta | None = None,
        deliver_at: datetime | int | None = None,
        wait_store_ok: bool = True,
    ) -> None:
        self.topic = topic if type(topic) is str and topic else _checked_topic(topic)
        self.body = body if type(body) is bytes and body and value is NO_VALUE else self._take(body, value)
        self.flag = 0
        wire: dict[str, str] = {_WAIT: "true" if wait_store_ok is True else _checked_flag(wait_store_ok)}
        self.wire_properties = wire
        if properties:
            put_user_properties(wire, properties)
        if tags:
            wire[PropertyName.TAGS] = checked_text("tags", tags)
        if keys:
            wire[PropertyName.KEYS] = _joined_keys(keys)
        if sharding_key is not None:
            wire[PropertyName.SHARDING_KEY] = checked_text("sharding_key", sharding_key)
        if delay_level or delay is not None or deliver_at is not None:
            _put_delay(wire, delay_level, delay, deliver_at)

    @property
    def properties(self) -> UserProperties:
        """The properties that you have given, as a mapping like a dict, which shows and makes changes.

        Names and values are checked when you set one. RocketMQ's own properties, such as tag and keys, are in
        `system_properties`; their names are missing here, and cannot be set. Assigning a dict replaces your properties
        and keeps RocketMQ's own.

        Raises:
            ConfigError: a name or a value cannot be sent, or the name is one of RocketMQ's own.
        """
        return UserProperties(self.wire_properties)

    @properties.setter
    def properties(self, properties: Mapping[str, str]) -> None:
        wire = {name: value for name, value in self.wire_properties.items() if name in RESERVED_PROPERTIES}
        put_user_properties(wire, properties)
        self.wire_properties = wire  # a new dict, because a copy of the message may have the old one

    def _take(self, body: object, value: object) -> bytes:
        """Return the body; empty if there is a value, which is stored."""
        if value is NO_VALUE:
            return _checked_body(body)
        if isinstance(body, str) or body != b"":
            raise ConfigError("the message has both a body and a value: give only one of them")
        self._value = value
        return b""

    def __repr__(self) -> str:
        """Short form for logs: never the body."""
        details = "".join(f" {name}={value!r}" for name, value in (("tags", self.tags), ("keys", self.keys)) if value)
        size = f"{len(self.body)} bytes" if self.body or not self.has_value else "a value"
        return cut(f"<Message to {self.topic}, {size}{details}>")


def _checked_topic(topic: object) -> str:
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"the topic is {topic!r}: give its name")
    return topic


def _checked_body(body: object) -> bytes:
    if isinstance(body, str):
        body = _encoded(body)
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigError(
            f"the body is of type {type(body).__name__}: give bytes or a str, or give it as value=, which the "
            "serializer of the producer turns into bytes"
        )
    if not len(body):
        raise ConfigError("the body is empty: RocketMQ refuses messages without a body")
    return bytes(body)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise ConfigError(
            f"the body has a lone surrogate at {exc.start}, {text[exc.start]!r}, which UTF-8 cannot express: encode it "
            "yourself, as it was decoded, or leave it out"
        ) from exc


def _checked_flag(wait_store_ok: object) -> str:
    if not isinstance(wait_store_ok, bool):
        raise ConfigError(f"wait_store_ok must be True or False, not {wait_store_ok!r:.100}")
    return "true" if wait_store_ok else "false"


def _joined_keys(keys: Iterable[str]) -> str:
    if isinstance(keys, str):
        checked_text("keys", keys)
        if (parts := keys.split()) != [keys]:
            raise ConfigError(
                f"keys is {keys!r:.100}, but RocketMQ separates keys by spaces: give a list, keys={parts!r:.100}"
            )
        return keys
    if type(keys) is not list:
        _check_iterable(keys)
    parts = [checked_text("a key", key) for key in keys]
    for part in parts:
        if part.split() != [part]:
            raise ConfigError(
                f"the key {part!r:.100} contains a space, which separates keys: it would become several keys; give them"
                f" as keys={part.split()!r:.100}, or write it without white space"
            )
    return KEY_SEPARATOR.join(parts)


def _check_iterable(keys: object) -> None:
    if not isinstance(keys, Iterable) or isinstance(keys, Mapping):
        raise ConfigError(f"keys is of type {type(keys).__name__}: give a list of str")


def _put_delay(
    wire: dict[str, str], level: int, delay: float | timedelta | None, deliver_at: datetime | int | None
) -> None:
    if (level != 0) + (delay is not None) + (deliver_at is not None) > 1:
        raise ConfigError("give one of delay_level, delay and deliver_at, not several")
    if delay is not None:
        wire[PropertyName.TIMER_DELAY_MS] = str(_delay_ms(delay))
    elif deliver_at is not None:
        wire[PropertyName.TIMER_DELIVER_MS] = str(_deliver_ms(deliver_at))
    else:
        wire[PropertyName.DELAY] = str(_checked_level(level))


def _checked_level(level: object) -> int:
    if not isinstance(level, int) or isinstance(level, bool) or not 0 <= level <= MOST_LEVELS:
        raise ConfigError(
            f"delay_level is {level!r}: give a level that the brokers have, 1 to 18 as a rule, or 0 for none; a level "
            "is not a number of seconds: delay= takes those"
        )
    return level


def _delay_ms(delay: object) -> int:
    from datetime import timedelta  # few messages are delayed

    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ConfigError(f"delay is {delay!r}: give seconds, zero or more, or a timedelta")
    if seconds > _LONG / 1000:
        raise ConfigError(
            f"delay is {delay!r}, which is more than RocketMQ can express: give at most the broker's timerMaxDelaySec"
        )
    return round(seconds * 1000)


def _deliver_ms(deliver_at: object) -> int:
    from datetime import datetime

    from rocketpy.moments import SECONDS_BELOW

    if isinstance(deliver_at, datetime):
        if deliver_at.tzinfo is None:
            raise ConfigError("deliver_at has no time zone: give an aware datetime, or milliseconds since 1970")
        moment = round(deliver_at.timestamp() * 1000)
    elif isinstance(deliver_at, bool) or not isinstance(deliver_at, int) or deliver_at < 0:
        raise ConfigError(f"deliver_at is {deliver_at!r}: give an aware datetime, or milliseconds since 1970")
    elif 0 < deliver_at < SECONDS_BELOW:
        raise ConfigError(f"deliver_at is {deliver_at}, which looks like seconds: give milliseconds since 1970")
    else:
        moment = deliver_at
    if moment > _LONG:
        raise ConfigError(
            f"deliver_at is {deliver_at!r}, which is more than RocketMQ can express: give milliseconds since 1970, and "
            "no finer unit"
        )
    late = wall_ms() - moment
    if late > _PAST_MS:
        raise ConfigError(
            f"deliver_at is {deliver_at!r}, which was {late / 1000:.10g} s ago: give a time in the future, in "
            "milliseconds since 1970 if it is a number, or leave it out to have the message delivered at once"
        )
    return moment
