"""Builder: makes nodes while lark parses an expression.

For each rule of `sql92.lark`, lark calls the method with the name behind the rule's arrow, with the rule's parts as
arguments.
"""

from __future__ import annotations

from lark import Token, Transformer, v_args

from rocketpy_broker_sim.filter import conditions, nodes
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.nodes import Node, as_condition, check_equality, truth
from rocketpy_broker_sim.filter.values import Number, read_double, read_int, read_long

__all__ = ["MOST_OPERATORS", "Builder", "too_many_operators"]

MOST_OPERATORS = 256
"""Operators that an expression may have; the strings of IN do not count."""
_SMALLEST_DOUBLE = 5e-324
_LARGEST_INT = 2**31 - 1
_LARGEST_LONG = 2**63 - 1


def too_many_operators(at: int) -> FilterExpressionError:
    """The error for an expression with too many operators; `at` is the position of one of them."""
    return FilterExpressionError(
        f"the expression has more than {MOST_OPERATORS} operators: write fewer of them", at + 1
    )


@v_args(inline=True)
class Builder(Transformer[Token, Node]):
    """Makes the nodes of expressions, one expression at a time.

    Attributes:
        names: The properties that the expression reads.
        operators: The number of its operators.
    """

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """Start another expression."""
        self.names: set[str] = set()
        self.operators = 0

    def _count(self, at: int) -> None:
        self.operators += 1
        if self.operators > MOST_OPERATORS:
            raise too_many_operators(at)

    # --- logic

    def either(self, left: Node, right: Node) -> Node:
        """OR. A chain of ORs is one node, however long it is."""
        return self._joined("OR", left, right)

    def both(self, left: Node, right: Node) -> Node:
        """AND. A chain of ANDs is one node, however long it is."""
        return self._joined("AND", left, right)

    def _joined(self, operator: str, left: Node, right: Node) -> Node:
        self._count(right.at)
        return nodes.joined(operator, left, right)

    def inverted(self, node: Node) -> Node:
        """NOT."""
        self._count(node.at)
        return truth(node.at, conditions.inverted(as_condition(node)), node)

    # --- comparisons

    def equal(self, left: Node, right: Node) -> Node:
        """=, which refuses NULL."""
        self._count(right.at)
        check_equality(left, right)
        return truth(left.at, nodes.equality(left, right), left, right)

    def not_equal(self, left: Node, _: Token, right: Node) -> Node:
        """<>, the inverse of =."""
        found = self.equal(left, right)
        return truth(left.at, conditions.inverted(as_condition(found)), left, right)

    def is_null(self, node: Node) -> Node:
        """IS NULL."""
        self._count(node.at)
        return truth(node.at, conditions.is_null(node.evaluate), node)

    def is_not_null(self, node: Node) -> Node:
        """IS NOT NULL."""
        self._count(node.at)
        return truth(node.at, conditions.inverted(conditions.is_null(node.evaluate)), node)

    def ordered(self, left: Node, operator: Token, right: Node) -> Node:
        """>, >=, < and <=."""
        self._count(right.at)
        return truth(left.at, nodes.ordering(str(operator), left, right), left, right)

    def between(self, value: Node, negated: Token | None, low: Node, high: Node) -> Node:
        """BETWEEN and NOT BETWEEN."""
        self._count(low.at)
        condition = (nodes.between if negated is None else nodes.not_between)(value, low, high)
        return truth(value.at, condition, value, low, high)

    def one_of(self, node: Node, negated: Token | None, *texts: Token) -> Node:
        """IN and NOT IN, of a property and strings only."""
        self._count(node.at)
        if node.name is None:
            raise FilterExpressionError("IN needs a property on its left", node.at + 1)
        wanted = [_text_of(text) for text in texts]
        return truth(node.at, conditions.one_of(node.name, wanted, negated=negated is not None), node)

    def text_test(self, node: Node, negated: Token | None, operator: Token, text: Token) -> Node:
        """CONTAINS, STARTSWITH and ENDSWITH."""
        self._count(node.at)
        test = conditions.text_test(operator.upper(), node.evaluate, _text_of(text), negated=negated is not None)
        return truth(node.at, test, node)

    def text_operator(self, word: Token) -> Token:
        """The operator's keyword."""
        return word

    # --- values

    def negated(self, node: Node) -> Node:
        """A minus: a negative number, or no value for anything else. As in Java, it does not count as a constant."""
        self._count(node.at)
        value = node.value
        if isinstance(value, Number):
            number = Number(-value.value, value.read)
            return Node(node.at, conditions.constant(number), value=number, depth=node.depth)
        return Node(node.at, conditions.nothing(node.evaluate), depth=node.depth + 1)

    def property(self, name: Token) -> Node:
        """A property of the message."""
        self.names.add(str(name))
        return nodes.property_node(_at(name), str(name))

    def string(self, text: Token) -> Node:
        """A string in quotes."""
        return nodes.constant(_at(text), _text_of(text))

    def whole(self, digits: Token) -> Node:
        """A whole number of 32 bits, or of 64 bits if it is larger."""
        number = int(digits.rstrip("lL")) if len(digits) <= len(str(_LARGEST_LONG)) + 1 else _LARGEST_LONG + 1
        if number > _LARGEST_LONG:
            raise FilterExpressionError(f"the number is larger than {_LARGEST_LONG}", _at(digits) + 1)
        return nodes.constant(_at(digits), Number(number, read_int if number <= _LARGEST_INT else read_long))

    def floating(self, digits: Token) -> Node:
        """A number with a fraction, which must not be zero: as in Java, it is at least the smallest double."""
        number = float(digits)
        if number == float("inf") or number < _SMALLEST_DOUBLE:
            raise FilterExpressionError("the number is too large, or too close to zero: write 0", _at(digits) + 1)
        return nodes.constant(_at(digits), Number(number, read_double))

    def true(self, word: Token) -> Node:
        """TRUE."""
        return nodes.constant(_at(word), value=True, is_truth=True)

    def false(self, word: Token) -> Node:
        """FALSE."""
        return nodes.constant(_at(word), value=False, is_truth=True)

    def null(self, word: Token) -> Node:
        """NULL."""
        return nodes.constant(_at(word), None, is_truth=True)


def _at(token: Token) -> int:
    return token.start_pos or 0


def _text_of(token: Token) -> str:
    return token[1:-1].replace("''", "'")
