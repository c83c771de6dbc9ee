"""Attributes of topics and groups, and the form in which they are changed: "+message.type=FIFO,-queue.type".

A change names keys with a sign: + adds or changes, - takes away. Only known keys with possible values get in, and some
can be given only when the topic is made. Plays the part of AttributeParser, AttributeUtil and TopicAttributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketpy.errors import BrokerError
from rocketpy.wire.codes import ResponseCode

__all__ = ["GROUP_ATTRIBUTES", "TOPIC_ATTRIBUTES", "Attribute", "alter", "parse_changes"]


class Attribute(NamedTuple):
    """What an attribute may be.

    Attributes:
        values: The possible texts.
        changeable: Whether it may be given to a topic that is there already.
    """

    values: frozenset[str]
    changeable: bool


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    "queue.type": Attribute(frozenset({"SimpleCQ"}), False),
    "cleanup.policy": Attribute(frozenset({"DELETE"}), False),
    "message.type": Attribute(frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"}), True),
}
"""What Apache's broker knows, without what this store does not do: batch queues, compaction, tiers."""
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}
"""The release that we play knows none."""

MAX_CHANGES = 65_536
"""Characters of a list of changes; every attribute there is would fill a hundredth of that."""


def parse_changes(text: str) -> dict[str, str]:
    """Keys with their sign, and their values, of "+a=1,-b".

    Raises:
        BrokerError: this is no list of changes, names a key twice, or is longer than any that means something.
    """
    if len(text) > MAX_CHANGES:
        raise _refusal(f"changes of attributes of {len(text)} characters, the limit is {MAX_CHANGES}: send less")
    found: dict[str, str] = {}
    for part in text.split(","):
        if not part:
            continue
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if key[:1] not in ("+", "-") or len(key) < 2:
            raise _refusal(f"the attribute {key[:64]!r} has no + or - before its name")
        if bool(equals) == key.startswith("-"):
            raise _refusal(f"the attribute {key[:64]!r} needs a value with +, and none with -")
        if key in found:
            raise _refusal(f"the attribute {key[:64]!r} is named twice")
        found[key] = value
    return found


def alter(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """The attributes after changes.

    Args:
        known: which there are.
        current: what holds now; None for what is being made.
        changes: values by key with sign.

    Raises:
        BrokerError: a key is not known, has no sign, cannot be changed any more, or a value is not possible.
    """
    found = dict(current or {})
    named: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-"):
            raise _refusal(f"the attribute {signed[:64]!r} has no + or - before its name")
        attribute = known.get(key)
        if attribute is None:
            raise _refusal(f"the attribute {key[:64]!r} is not known")
        if key in named:
            raise _refusal(f"the attribute {key!r} is changed twice")
        named.add(key)
        if current is not None and not attribute.changeable:
            raise _refusal(f"the attribute {key!r} cannot be changed after it is set")
        _apply(found, sign, key, value, attribute, is_new=current is None)
    return found


def _apply(found: dict[str, str], sign: str, key: str, value: str, attribute: Attribute, *, is_new: bool) -> None:
    if sign == "-":
        if is_new or key not in found:
            raise _refusal(f"the attribute {key!r} cannot be removed, because it is not set")
        del found[key]
    elif value in attribute.values:
        found[key] = value
    else:
        raise _refusal(f"{value[:64]!r} is not a value of the attribute {key!r}")


def _refusal(remark: str) -> BrokerError:
    return BrokerError.for_code(ResponseCode.INVALID_PARAMETER, remark)
