"""The parts of an expression while it is read, with what Java checks of each before it makes a comparison of them.

Each node knows where it stands, how deep it is and what it costs, for the limits. Plays the classes of Apache's
expressions as far as their kinds matter: constants, properties and what is a truth by itself.
"""

from __future__ import annotations

from typing import cast as typed

import attrs

from rocketpy_broker_sim.filter import conditions
from rocketpy_broker_sim.filter.conditions import Condition, Evaluate
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.values import Number, Value, compare_numbers

__all__ = [
    "MOST_DEPTH",
    "Node",
    "as_condition",
    "between",
    "check_comparable",
    "check_equality",
    "constant",
    "equality",
    "joined",
    "not_between",
    "ordering",
    "property_node",
    "truth",
]

MOST_DEPTH = 64
"""How deep parts may stand in each other; rows of AND, and of OR, count once."""


@attrs.frozen(eq=False)
class Node:
    """One part.

    Attributes:
        at: Where it begins, counted from 0.
        evaluate: Its value for a message.
        name: The property that it is; None when it is none.
        value: What it always is, where it is a constant.
        is_constant: Whether it stands in the text as a constant.
        is_truth: Whether it is a condition by itself.
        depth: How many parts stand in each other.
        row: Its conditions, where it is a row of AND or of OR: what `joined` adds to them counts for `evaluate`.
        joined_by: "AND" or "OR", for a row.
    """

    at: int
    evaluate: Evaluate
    name: str | None = None
    value: Value = None
    is_constant: bool = False
    is_truth: bool = False
    depth: int = 1
    row: list[Condition] = attrs.Factory(list)
    joined_by: str = ""


def constant(at: int, value: Value, *, is_truth: bool = False) -> Node:
    """A constant; TRUE, FALSE and NULL are truths too."""
    return Node(at, conditions.constant(value), value=value, is_constant=True, is_truth=is_truth)


def property_node(at: int, name: str) -> Node:
    """A property of the message."""
    return Node(at, conditions.property_value(name), name=name)


def truth(at: int, condition: Condition, *parts: Node) -> Node:
    """A condition that is made of parts.

    Raises:
        FilterExpressionError: they stand too deep in each other.
    """
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MOST_DEPTH:
        raise FilterExpressionError(f"more than {MOST_DEPTH} parts stand in each other: write fewer of them", at + 1)
    return Node(at, condition, is_truth=True, depth=depth)


def as_condition(node: Node) -> Condition:
    """A node where a condition is wanted.

    Raises:
        FilterExpressionError: it is a number or a text.
    """
    if node.is_truth:
        return typed("Condition", node.evaluate)
    if node.name is not None:
        return conditions.cast(node.name)
    raise FilterExpressionError("this is a value, and a condition is expected: compare it with something", node.at + 1)


def check_comparable(node: Node) -> None:
    """Refuse what has no size.

    Raises:
        FilterExpressionError: it is a text, a truth or NULL.
    """
    if (node.is_constant and not isinstance(node.value, Number)) or node.is_truth:
        raise FilterExpressionError(
            "only numbers are compared by size: write a number without quotes, or a property", node.at + 1
        )


def check_equality(left: Node, right: Node) -> None:
    """Refuse to compare with NULL, and a truth with another constant on its right.

    Raises:
        FilterExpressionError: it is so.
    """
    for node in (left, right):
        if node.is_constant and node.value is None:
            raise FilterExpressionError("nothing equals NULL: write IS NULL or IS NOT NULL", node.at + 1)
    if left.is_constant and right.is_constant and left.is_truth and not right.is_truth:
        raise FilterExpressionError("TRUE and FALSE are not compared with numbers and texts", right.at + 1)


def joined(operator: str, left: Node, right: Node) -> Node:
    """Two conditions with AND or OR between them; a row on the left grows by the right one, and is one part still.

    Raises:
        FilterExpressionError: one of them is a value, or stands too deep.
    """
    if left.joined_by == operator:
        left.row.append(as_condition(right))
        deepest = truth(right.at, left.row[0], right).depth
        return attrs.evolve(left, depth=max(left.depth, deepest))
    row = [as_condition(left), as_condition(right)]
    condition = conditions.both(row) if operator == "AND" else conditions.either(row)
    return attrs.evolve(truth(left.at, condition, left, right), row=row, joined_by=operator)


def equality(left: Node, right: Node) -> Condition:
    """Whether two values are equal; the frequent shapes, a property beside a constant, take less time."""
    if left.name is not None and isinstance(right.value, Number):
        return conditions.equals_number(left.name, right.value)
    if left.name is not None and isinstance(right.value, str):
        return conditions.equals_text(left.name, right.value)
    return conditions.equality(left.evaluate, right.evaluate)


def ordering(operator: str, left: Node, right: Node) -> Condition:
    """Whether one value is larger, or smaller, than another.

    Raises:
        FilterExpressionError: one of them has no size.
    """
    check_comparable(left)
    check_comparable(right)
    if left.name is not None and isinstance(right.value, Number):
        return conditions.orders_number(left.name, operator, right.value)
    return conditions.ordering(operator, left.evaluate, right.evaluate)


def between(value: Node, low: Node, high: Node) -> Condition:
    """BETWEEN, both ends included.

    Raises:
        FilterExpressionError: the ends are no numbers, or the wrong way round.
    """
    ends = ordering(">=", value, low), ordering("<=", value, high)
    first, last = low.value, high.value
    are_fixed = low.is_constant and high.is_constant
    if are_fixed and isinstance(first, Number) and isinstance(last, Number) and compare_numbers(last, first) < 0:
        raise FilterExpressionError("BETWEEN has the lower value first", low.at + 1)
    return conditions.both(ends)


def not_between(value: Node, low: Node, high: Node) -> Condition:
    """NOT BETWEEN, whose ends may be in any order.

    Raises:
        FilterExpressionError: one of the values has no size.
    """
    return conditions.either((ordering("<", value, low), ordering(">", value, high)))
