"""What an expression is made of, as functions of a message's properties: no code is made, and none of it is slow.

A condition is given what finds a property by its name, and answers True, False or None: unknown. Logic has these three
values. The frequent shapes, a property beside a constant, have functions of their own.
Plays the part of evaluate in ComparisonExpression, LogicExpression, UnaryExpression and UnaryInExpression.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from rocketpy_broker_sim.filter.values import Number, Value, compare_numbers, compare_texts, equals, order

__all__ = [
    "ORDERS",
    "TEXT_TESTS",
    "Condition",
    "Evaluate",
    "Get",
    "both",
    "cast",
    "constant",
    "contains",
    "either",
    "equality",
    "equals_number",
    "equals_text",
    "inverted",
    "is_null",
    "nothing",
    "one_of",
    "ordering",
    "orders_number",
    "property_value",
    "text_test",
]

Get: TypeAlias = Callable[[str], str | None]
"""Finds a property by its name; None when the message has none of it."""
Condition: TypeAlias = Callable[[Get], bool | None]
Evaluate: TypeAlias = Callable[[Get], Value]
_Holds: TypeAlias = Callable[[int], bool]

_SEARCHED_SLOWLY = range(2_500, 30_000)
"""Python looks for a short text in one of so many characters in a way that crafted texts make slow."""


def contains(text: str, wanted: str) -> bool:
    """Whether a text stands in another, in time that grows with their sizes and not with the product of them."""
    if len(text) not in _SEARCHED_SLOWLY:
        return wanted in text
    return 0 <= text.ljust(_SEARCHED_SLOWLY.stop, "\0").find(wanted) <= len(text) - len(wanted)


ORDERS: Mapping[str, _Holds] = {
    ">": lambda compared: compared > 0,
    ">=": lambda compared: compared >= 0,
    "<": lambda compared: compared < 0,
    "<=": lambda compared: compared <= 0,
}
"""Operator -> whether it holds for values that compare so."""
TEXT_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
"""Operator -> whether a text stands so in another."""


# --- values --------------------------------------------------------------------------------------------


def constant(value: Value) -> Evaluate:
    """Always the same."""
    return lambda get: value


def property_value(name: str) -> Evaluate:
    """A property, as a text."""
    return lambda get: get(name)


def nothing(evaluate: Evaluate) -> Evaluate:
    """No value, once the value that it is made of has been worked out: that may fail."""

    def value(get: Get) -> None:
        evaluate(get)

    return value


def cast(name: str) -> Condition:
    """A property as a condition: no text is true, whatever it says."""
    return lambda get: None if get(name) is None else False


# --- logic ---------------------------------------------------------------------------------------------


def both(conditions: Sequence[Condition]) -> Condition:
    """AND: the first that does not hold decides."""

    def test(get: Get) -> bool | None:
        known: bool | None = True
        for condition in conditions:
            found = condition(get)
            if not found:
                if found is not None:
                    return False
                known = None
        return known

    return test


def either(conditions: Sequence[Condition]) -> Condition:
    """OR: the first that holds decides."""

    def test(get: Get) -> bool | None:
        known: bool | None = False
        for condition in conditions:
            found = condition(get)
            if found:
                return True
            if found is None:
                known = None
        return known

    return test


def inverted(condition: Condition) -> Condition:
    """NOT: the unknown stays unknown."""

    def test(get: Get) -> bool | None:
        found = condition(get)
        return None if found is None else not found

    return test


# --- comparisons ---------------------------------------------------------------------------------------


def is_null(evaluate: Evaluate) -> Condition:
    """Whether a value is missing; never unknown."""
    return lambda get: evaluate(get) is None


def equality(left: Evaluate, right: Evaluate) -> Condition:
    """Whether two values are equal."""
    return lambda get: equals(left(get), right(get))


def equals_text(name: str, value: str) -> Condition:
    """Whether a property is a text."""

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else text == value

    return test


def equals_number(name: str, number: Number) -> Condition:
    """Whether a property is a number."""
    value, read = number

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else order(read(text), value) == 0

    return test


def ordering(operator: str, left: Evaluate, right: Evaluate) -> Condition:
    """Whether one value is larger, or smaller, than another: as numbers, always. No truth is asked about."""
    holds = ORDERS[operator]

    def test(get: Get) -> bool | None:
        one = left(get)
        if one is None:
            return None
        other = right(get)
        return None if other is None else holds(_compare(one, other))

    return test


def orders_number(name: str, operator: str, number: Number) -> Condition:
    """Whether a property is larger, or smaller, than a number."""
    value, read = number
    holds = ORDERS[operator]

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else holds(order(read(text), value))

    return test


def _compare(left: str | bool | Number, right: str | bool | Number) -> int:
    if isinstance(left, bool) or isinstance(right, bool):
        raise AssertionError("conditions have no size: nodes.check_comparable refuses them")
    if isinstance(left, str):
        return compare_texts(left, right) if isinstance(right, str) else order(right.read(left), right.value)
    return order(left.value, left.read(right)) if isinstance(right, str) else compare_numbers(left, right)


# --- texts ---------------------------------------------------------------------------------------------


def one_of(name: str, wanted: Collection[str], *, negated: bool) -> Condition:
    """IN and NOT IN; unknown without the property."""
    texts = frozenset(wanted)

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else (text in texts) is not negated

    return test


def text_test(operator: str, evaluate: Evaluate, wanted: str, *, negated: bool) -> Condition:
    """CONTAINS, STARTSWITH and ENDSWITH, and their negations: all of them false for what is no text, or for ''."""
    holds = TEXT_TESTS[operator]
    if not wanted:
        return lambda get: False

    def test(get: Get) -> bool | None:
        text = evaluate(get)
        return isinstance(text, str) and holds(text, wanted) is not negated

    return test
