"""What messages say of when they are due. Pure.

A message asks for a delay in seconds or in milliseconds, or for a moment. Its slot is the tick before that moment, as
with Apache's broker, and stands in TIMER_OUT_MS; the moment itself lies in the tick after the beginning of the slot.
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
        ValueError: it is none.
    """
    if _NUMBER.fullmatch(text) is None or not -_LONG <= int(text) < _LONG:
        raise ValueError(f"{text:.20} is not a number")
    return int(text)


def asked_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """The moment that a message asks for, ms since 1970; None when it asks for none.

    Raises:
        ValueError: what stands there is no number.
    """
    for name, unit in _DELAYS:
        if name in properties:
            return now_ms + _number(properties[name]) * unit
    moment = properties.get(PropertyName.TIMER_DELIVER_MS)
    return None if moment is None else _number(moment)


def slot_ms(moment: int, precision: int) -> int:
    """The beginning of the slot of a moment: of the tick that it is in, or that ends with it."""
    return (moment - 1) // precision * precision


def out_ms(properties: Mapping[str, str]) -> int | None:
    """The beginning of the slot of a message in the timer's topic; None when it does not say."""
    try:
        found = _number(properties[PropertyName.TIMER_OUT_MS])
    except (KeyError, ValueError):
        return None
    return found if found > 0 else None


def exact_ms(properties: Mapping[str, str], stored_ms: int, slot: int, precision: int) -> int:
    """The moment at which a message is due: never before it, and at most a tick behind the beginning of its slot.

    Args:
        properties: Those of the message.
        stored_ms: When it was stored, so no earlier than when its delay began.
        slot: The beginning of its slot.
        precision: Milliseconds of a tick.
    """
    try:
        moment = asked_ms(properties, stored_ms)
    except ValueError:
        moment = None
    return slot + precision if moment is None else min(max(moment, slot), slot + precision)


def delete_key(topic: str, unique_key: str) -> str:
    """How a message that recalls another names it."""
    return f"{topic}+{unique_key}"
