"""Compiled expressions, each once for all who use it. Plays SqlFilter, FilterFactory and the cache of SelectorParser.

An expression is compiled once, in steps, and found again by its text. What cannot be compiled is remembered too: those
who send it send it again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from rocketpy_broker_sim.filter.errors import EvaluationError, FilterExpressionError

if TYPE_CHECKING:
    from rocketpy_broker_sim.filter.conditions import Condition
    from rocketpy_broker_sim.filter.parsing import Parser

__all__ = ["MOST_CHARACTERS", "Compiler", "Expression"]

MOST_CHARACTERS = 16 * 1024
"""Characters of an expression."""
_MOST_KEPT = 1000
_MOST_KEPT_CHARACTERS = 1 << 18
_BYTES_A_CHARACTER = 24
"""Of an expression: the text, and what it is compiled to."""
_PAIR_END = b"\x02"


class Expression:
    """What an expression says of messages; made by a Compiler.

    Attributes:
        text: The expression.
        cost: About how many microseconds it takes for a message.
        cost_of_byte: The same for each byte of the properties, of which most messages have few.
        size: Bytes that it is reckoned to take.
    """

    __slots__ = ("_condition", "_heads", "cost", "cost_of_byte", "size", "text")

    def __init__(self, text: str, condition: Condition, names: frozenset[str], operators: int) -> None:
        self.text = text
        self.cost = 1.0 + 0.6 * len(names) + 0.5 * operators
        self.cost_of_byte = 0.0005 * (len(names) + operators)
        self.size = 1000 + _BYTES_A_CHARACTER * len(text)
        self._condition = condition
        self._heads = [(name, b"\x02%b\x01" % name.encode()) for name in sorted(names)]

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """True, False, or None when it cannot be told for lack of a property.

        Raises:
            EvaluationError: a property is not what the expression takes it for.
        """
        return self._condition(properties.get)

    def matches(self, encoded: bytes) -> bool:
        """Whether a message with these stored properties is wanted; one that it cannot be told of is not."""
        data = _PAIR_END + encoded
        found: dict[str, str] = {}
        for name, head in self._heads:
            at = data.rfind(head)
            while at >= 0:  # the last of equal names wins, and an empty value does not count
                begin = at + len(head)
                end = data.find(_PAIR_END, begin)
                value = data[begin:end] if end >= 0 else data[begin:]
                if value:
                    found[name] = value.decode("utf-8", "replace")
                    break
                at = data.rfind(head, 0, at)
        try:
            return self._condition(found.get) is True
        except EvaluationError:
            return False


class Compiler:
    """Compiles expressions, and keeps those that were used last. lark is loaded for the first of them."""

    def __init__(self) -> None:
        self._parser: Parser | None = None
        self._kept: OrderedDict[str, Expression | FilterExpressionError] = OrderedDict()
        self._characters = 0

    @property
    def is_loaded(self) -> bool:
        """Whether the parser is there."""
        return self._parser is not None

    def load(self) -> None:
        """Make the parser: some 50 ms of work. For any thread."""
        if self._parser is None:
            from rocketpy_broker_sim.filter.parsing import Parser

            self._parser = Parser()

    def known(self, text: str) -> Expression | None:
        """An expression that was compiled before; None when that is still to be done.

        Raises:
            FilterExpressionError: that has failed.
        """
        found = self._kept.get(text)
        if found is None:
            if len(text) > MOST_CHARACTERS:
                raise _too_long(text)
            return None
        self._kept.move_to_end(text)
        if isinstance(found, FilterExpressionError):
            raise found.again()
        return found

    def compile(self, text: str) -> Expression:
        """An expression, compiled at once.

        Raises:
            FilterExpressionError: it is none, or too large.
        """
        steps = self.compile_steps(text)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                found: Expression = stop.value
                return found

    def compile_steps(self, text: str) -> Generator[None, None, Expression]:
        """`compile`, in steps; the first one takes long unless `load` has been called. One text after the other.

        Raises:
            FilterExpressionError: it is none, or too large.
        """
        found = self.known(text)
        if found is not None:
            return found
        self.load()
        if self._parser is None:
            raise AssertionError("loaded")
        try:
            condition, names, operators = yield from self._parser.parse_steps(text)
        except FilterExpressionError as exc:
            self._keep(text, exc)
            raise exc.again() from None
        expression = Expression(text, condition, names, operators)
        self._keep(text, expression)
        return expression

    def _keep(self, text: str, found: Expression | FilterExpressionError) -> None:
        if text not in self._kept:
            self._characters += len(text)
        self._kept[text] = found
        while len(self._kept) > _MOST_KEPT or self._characters > _MOST_KEPT_CHARACTERS:
            dropped, _ = self._kept.popitem(last=False)
            self._characters -= len(dropped)


def _too_long(text: str) -> FilterExpressionError:
    problem = f"the expression has {len(text)} characters, {MOST_CHARACTERS} are allowed: write a shorter one"
    return FilterExpressionError(problem, MOST_CHARACTERS + 1)
