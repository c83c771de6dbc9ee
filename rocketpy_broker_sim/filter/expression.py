"""Compiled expressions, which all users share. Plays SqlFilter, FilterFactory and the cache of SelectorParser.

An expression is compiled once, in steps, and cached by its text. Errors are cached too, because clients send a wrong
expression again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.filter.errors import EvaluationError, FilterExpressionError

if TYPE_CHECKING:
    from rocketpy_broker_sim.filter.conditions import Condition
    from rocketpy_broker_sim.filter.parsing import Parser

__all__ = ["MOST_CHARACTERS", "Compiler", "Expression"]

MOST_CHARACTERS = 16 * 1024
"""Characters that an expression may have."""
_MOST_KEPT = 1000
_MOST_KEPT_CHARACTERS = 1 << 18
_BYTES_A_CHARACTER = 24
"""Estimated bytes for each character: the text, and what it is compiled to."""
_PAIR_END = b"\x02"


class Expression:
    """A compiled expression; made by a Compiler.

    Attributes:
        text: The expression.
        cost: About how many microseconds one evaluation takes.
        cost_of_byte: About how many microseconds more for each byte of the message's properties.
        size: Estimated bytes of memory.
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
        """Evaluate it: True, False, or None if it is unknown because a property is missing.

        Raises:
            EvaluationError: a property does not have the type that the expression needs.
        """
        return self._condition(properties.get)

    def matches(self, encoded: bytes) -> bool:
        """Whether a message with these stored properties matches; unknown and errors count as no match."""
        data = _PAIR_END + encoded
        found: dict[str, str] = {}
        for name, head in self._heads:
            at = data.rfind(head)
            if at >= 0:
                begin = at + len(head)
                end = data.find(_PAIR_END, begin)
                # Of several properties with the same name the last one wins, and empty values do not count.
                value = data[begin:end] if end >= 0 else data[begin:]
                known = value or find_property(encoded, head[1:-1])
                if known:
                    found[name] = known.decode("utf-8", "replace")
        try:
            return self._condition(found.get) is True
        except EvaluationError:
            return False


class Compiler:
    """Compiles expressions, and caches the most recently used ones. lark is loaded for the first of them."""

    def __init__(self) -> None:
        self._parser: Parser | None = None
        self._kept: OrderedDict[str, Expression | FilterExpressionError] = OrderedDict()
        self._characters = 0

    @property
    def is_loaded(self) -> bool:
        """Whether the parser was made."""
        return self._parser is not None

    def load(self) -> None:
        """Make the parser, which takes some 50 ms. Thread-safe."""
        if self._parser is None:
            from rocketpy_broker_sim.filter.parsing import Parser

            self._parser = Parser()

    def cached(self, text: str) -> Expression | None:
        """An expression from the cache; None if it was not compiled yet.

        Raises:
            FilterExpressionError: the expression was compiled before and is wrong, or it is too long.
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
        """Compile an expression at once, or take it from the cache.

        Raises:
            FilterExpressionError: the expression is wrong, or too long.
        """
        steps = self.compile_steps(text)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                found: Expression = stop.value
                return found

    def compile_steps(self, text: str) -> Generator[None, None, Expression]:
        """Do what `compile` does in steps, one expression at a time. The first step is long unless `load` was called.

        Raises:
            FilterExpressionError: the expression is wrong, or too long.
        """
        found = self.cached(text)
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
