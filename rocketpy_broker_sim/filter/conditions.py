"""Conditions: an expression as nested functions of a message's properties. No code is generated.

A condition is called with a function that finds a property by its name, and returns True, False or None for unknown, as
in SQL's three-valued logic. Frequent forms, such as the comparison of a property with a constant, have functions of
their own. Plays the part of evaluate in ComparisonExpression, LogicExpression, UnaryExpression and UnaryInExpression.
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
"""Finds a property by its name; None if the message does not have it."""
Condition: TypeAlias = Callable[[Get], bool | None]
Evaluate: TypeAlias = Callable[[Get], Value]
_Holds: TypeAlias = Callable[[int], bool]

_SEARCHED_WELL = 30_000
"""Length of a text from which on Python searches it in linear time, however it and the wanted text are crafted."""
_QUICK = 100_000
"""Product of the lengths of both texts up to which any search takes less than ten microseconds."""


def contains(text: str, wanted: str) -> bool:
    """Whether a text contains another, in time that is linear in their lengths even for crafted texts."""
    if len(text) * len(wanted) <= _QUICK or len(text) >= _SEARCHED_WELL:
        return wanted in text
    return 0 <= text.ljust(_SEARCHED_WELL, "\0").find(wanted) <= len(text) - len(wanted)


ORDERS: Mapping[str, _Holds] = {
    ">": lambda compared: compared > 0,
    ">=": lambda compared: compared >= 0,
    "<": lambda compared: compared < 0,
    "<=": lambda compared: compared <= 0,
}
"""Operator -> whether it holds, given a negative, zero or positive result of a comparison."""
TEXT_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
"""Operator -> its test of a text and a wanted text."""


# --- values --------------------------------------------------------------------------------------------


def constant(value: Value) -> Evaluate:
    """A constant value."""
    return lambda get: value


def property_value(name: str) -> Evaluate:
    """The value of a property, a string."""
    return lambda get: get(name)


def nothing(evaluate: Evaluate) -> Evaluate:
    """No value; the inner value is evaluated all the same, which may raise."""

    def value(get: Get) -> None:
        evaluate(get)

    return value


def cast(name: str) -> Condition:
    """A property as a condition: False whatever its text, unknown if it is missing."""
    return lambda get: None if get(name) is None else False


# --- logic ---------------------------------------------------------------------------------------------


def both(conditions: Sequence[Condition]) -> Condition:
    """AND: False as soon as one is False."""

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
    """OR: True as soon as one is True."""

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
    """NOT: unknown stays unknown."""

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
    """Whether a property equals a string."""

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else text == value

    return test


def equals_number(name: str, number: Number) -> Condition:
    """Whether a property, read as a number, equals a number."""
    value, read = number

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else order(read(text), value) == 0

    return test


def ordering(operator: str, left: Evaluate, right: Evaluate) -> Condition:
    """Compare two values by size, always as numbers; neither may be a truth value."""
    holds = ORDERS[operator]

    def test(get: Get) -> bool | None:
        one = left(get)
        if one is None:
            return None
        other = right(get)
        return None if other is None else holds(_compare(one, other))

    return test


def orders_number(name: str, operator: str, number: Number) -> Condition:
    """Compare a property with a number by size."""
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
    """IN and NOT IN; unknown if the property is missing."""
    texts = frozenset(wanted)

    def test(get: Get) -> bool | None:
        text = get(name)
        return None if text is None else (text in texts) is not negated

    return test


def text_test(operator: str, evaluate: Evaluate, wanted: str, *, negated: bool) -> Condition:
    """CONTAINS, STARTSWITH and ENDSWITH, and their negations, all of which are False for '' and for other types."""
    holds = TEXT_TESTS[operator]
    if not wanted:
        return lambda get: False

    def test(get: Get) -> bool | None:
        text = evaluate(get)
        return isinstance(text, str) and holds(text, wanted) is not negated

    return test
