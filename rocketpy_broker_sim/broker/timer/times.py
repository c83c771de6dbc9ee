"""The times of delivery in messages. Pure.

A message asks for a delay, in seconds or milliseconds, or for a time. Its slot is the tick before that time, as with
Apache's broker, and is kept in TIMER_OUT_MS; the time itself lies within the tick that begins with the slot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rocketpy.message import PropertyName

__all__ = ["asked_ms", "delete_key", "exact_ms", "out_ms", "slot_ms"]

_NUMBER = re.compile("[+-]?[0-9]{1,19}", re.ASCII)
_LONG = 2**63
_DELAYS = ((PropertyName.TIMER_DELAY_SEC, 1000), (PropertyName.TIMER_DELAY_MS, 1))


def _number(text: str) -> int:
    """A number as Java reads it.

    Raises:
        ValueError: it is not a number.
    """
    if _NUMBER.fullmatch(text) is None or not -_LONG <= int(text) < _LONG:
        raise ValueError(f"{text:.20} is not a number")
    return int(text)


def asked_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """The time that a message asks for, ms since 1970; None if it asks for none.

    Raises:
        ValueError: the property is not a number.
    """
    for name, unit in _DELAYS:
        if name in properties:
            return now_ms + _number(properties[name]) * unit
    moment = properties.get(PropertyName.TIMER_DELIVER_MS)
    return None if moment is None else _number(moment)


def slot_ms(moment: int, precision: int) -> int:
    """The beginning of the slot of a time: of the tick that it is in, or that ends with it."""
    return (moment - 1) // precision * precision


def out_ms(properties: Mapping[str, str]) -> int | None:
    """The beginning of the slot of a message in the timer's topic; None if the message has none."""
    try:
        found = _number(properties[PropertyName.TIMER_OUT_MS])
    except (KeyError, ValueError):
        return None
    return found if found > 0 else None


def exact_ms(properties: Mapping[str, str], stored_ms: int, slot: int, precision: int) -> int:
    """The exact time at which a message is due: at most a tick after the beginning of its slot.

    Args:
        properties: The properties of the message.
        stored_ms: When it was stored, which is not earlier than when its delay began.
        slot: The beginning of its slot.
        precision: Milliseconds of a tick.
    """
    try:
        moment = asked_ms(properties, stored_ms)
    except ValueError:
        moment = None
    return slot + precision if moment is None else min(max(moment, slot), slot + precision)


def delete_key(topic: str, unique_key: str) -> str:
    """The key by which a recall names its message."""
    return f"{topic}+{unique_key}"
