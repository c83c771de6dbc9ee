"""Nodes: the parts of an expression while it is parsed, and the checks that Java makes before it compares them.

Each node knows its position and its depth, for error messages and limits. Plays Apache's expression classes as far as
their kinds matter: constants, properties and conditions.
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
"""How deep parts may be nested; a chain of ANDs, or of ORs, counts once."""


@attrs.frozen(eq=False)
class Node:
    """One part of an expression.

    Attributes:
        at: The position of its first character, counted from 0.
        evaluate: Returns its value for a message.
        name: The property's name, if it is a property.
        value: Its value, if that is constant.
        is_constant: Whether it is written as a constant.
        is_truth: Whether it is a condition, or one of TRUE, FALSE and NULL.
        depth: How deep its parts are nested.
        row: The conditions of a chain of ANDs or ORs, which `evaluate` reads: `joined` appends to it.
        joined_by: "AND" or "OR", for such a chain.
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
    """A constant; with `is_truth` for TRUE, FALSE and NULL, which are conditions too."""
    return Node(at, conditions.constant(value), value=value, is_constant=True, is_truth=is_truth)


def property_node(at: int, name: str) -> Node:
    """A property of the message."""
    return Node(at, conditions.property_value(name), name=name)


def truth(at: int, condition: Condition, *parts: Node) -> Node:
    """A condition that is made of parts.

    Raises:
        FilterExpressionError: they are nested too deep.
    """
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MOST_DEPTH:
        raise FilterExpressionError(f"more than {MOST_DEPTH} levels of nesting: simplify the expression", at + 1)
    return Node(at, condition, is_truth=True, depth=depth)


def as_condition(node: Node) -> Condition:
    """The condition of a node that stands where one is needed.

    Raises:
        FilterExpressionError: the node is a number or a string.
    """
    if node.is_truth:
        return typed("Condition", node.evaluate)
    if node.name is not None:
        return conditions.cast(node.name)
    raise FilterExpressionError("this is a value, and a condition is expected: compare it with something", node.at + 1)


def check_comparable(node: Node) -> None:
    """Refuse nodes that cannot be compared by size.

    Raises:
        FilterExpressionError: it is a string, a condition or NULL.
    """
    if (node.is_constant and not isinstance(node.value, Number)) or node.is_truth:
        raise FilterExpressionError(
            "only numbers can be ordered: write a number without quotes, or a property", node.at + 1
        )


def check_equality(left: Node, right: Node) -> None:
    """Refuse a comparison with NULL, and one of TRUE or FALSE with a number or string on its right.

    Raises:
        FilterExpressionError: this is such a comparison.
    """
    for node in (left, right):
        if node.is_constant and node.value is None:
            raise FilterExpressionError("nothing equals NULL: write IS NULL or IS NOT NULL", node.at + 1)
    if left.is_constant and right.is_constant and left.is_truth and not right.is_truth:
        raise FilterExpressionError("TRUE and FALSE cannot be compared with numbers or strings", right.at + 1)


def joined(operator: str, left: Node, right: Node) -> Node:
    """Join two conditions by AND or OR. If the left one is a chain of the same operator, it is extended.

    Raises:
        FilterExpressionError: one of them is a value, or nested too deep.
    """
    if left.joined_by == operator:
        left.row.append(as_condition(right))
        deepest = truth(right.at, left.row[0], right).depth
        return attrs.evolve(left, depth=max(left.depth, deepest))
    row = [as_condition(left), as_condition(right)]
    condition = conditions.both(row) if operator == "AND" else conditions.either(row)
    return attrs.evolve(truth(left.at, condition, left, right), row=row, joined_by=operator)


def equality(left: Node, right: Node) -> Condition:
    """Whether two values are equal; the frequent case of a property and a constant is faster."""
    if left.name is not None and isinstance(right.value, Number):
        return conditions.equals_number(left.name, right.value)
    if left.name is not None and isinstance(right.value, str):
        return conditions.equals_text(left.name, right.value)
    return conditions.equality(left.evaluate, right.evaluate)


def ordering(operator: str, left: Node, right: Node) -> Condition:
    """Compare two values by size.

    Raises:
        FilterExpressionError: one of them cannot be compared by size.
    """
    check_comparable(left)
    check_comparable(right)
    if left.name is not None and isinstance(right.value, Number):
        return conditions.orders_number(left.name, operator, right.value)
    return conditions.ordering(operator, left.evaluate, right.evaluate)


def between(value: Node, low: Node, high: Node) -> Condition:
    """BETWEEN, both ends included.

    Raises:
        FilterExpressionError: an end is not a number, or the ends are the wrong way round.
    """
    ends = ordering(">=", value, low), ordering("<=", value, high)
    first, last = low.value, high.value
    are_fixed = low.is_constant and high.is_constant
    if are_fixed and isinstance(first, Number) and isinstance(last, Number) and compare_numbers(last, first) < 0:
        raise FilterExpressionError("BETWEEN needs the lower value first", low.at + 1)
    return conditions.both(ends)


def not_between(value: Node, low: Node, high: Node) -> Condition:
    """NOT BETWEEN, whose ends may be in any order.

    Raises:
        FilterExpressionError: one of the values cannot be compared by size.
    """
    return conditions.either((ordering("<", value, low), ordering(">", value, high)))
