"""Parsing expressions with lark, by the grammar in `sql92.lark`. Loaded for the first expression only.

As in Apache's parser, text after a complete expression is ignored: tokens are read one by one, until one does not
belong to the expression. Plays SelectorParser.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from rocketpy_broker_sim.filter.builder import MOST_OPERATORS, Builder, too_many_operators
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.nodes import MOST_DEPTH, Node, as_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy_broker_sim.filter.conditions import Condition

__all__ = ["Parser"]

TOKENS_A_STEP = 16
_SHOWN = 40
_END = "$END"
_OPENS = {"LPAR": 1, "RPAR": -1}
_PREFIXES = frozenset({"NOT", "MINUS"})
_WORDS = {
    "$END": "the end",
    "NAME": "a property",
    "STRING": "a text in single quotes",
    "WHOLE": "a number",
    "FLOAT": "a number",
    "ORDER": "<, <=, >, >=",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "PLUS": "+",
    "MINUS": "-",
}


class Parser:
    """Parses expressions. Making a parser takes some 15 ms, and the first one 40 ms more."""

    def __init__(self) -> None:
        grammar = files("rocketpy_broker_sim.filter").joinpath("sql92.lark").read_text(encoding="utf-8")
        self._builder = Builder()
        self._lark = Lark(
            grammar,
            parser="lalr",
            lexer="basic",
            transformer=self._builder,
            g_regex_flags=re.IGNORECASE | re.ASCII,
        )

    def parse_steps(self, text: str) -> Generator[None, None, tuple[Condition, frozenset[str], int]]:
        """Parse an expression in steps of far less than a millisecond, one expression at a time.

        Returns:
            Its condition, the names of the properties that it reads, and the number of its operators.

        Raises:
            FilterExpressionError: it is wrong.
        """
        self._builder.begin()
        parsing: Any = self._lark.parse_interactive(text)  # lark has no types for what it gives
        unexpected: UnexpectedToken | None = None
        open_ = prefixes = 0
        try:
            for number, token in enumerate(parsing.lexer_thread.lex(parsing.parser_state), 1):
                open_ += _OPENS.get(token.type, 0)
                if open_ > MOST_DEPTH:
                    raise FilterExpressionError(
                        f"more than {MOST_DEPTH} levels of parentheses: simplify the expression",
                        (token.start_pos or 0) + 1,
                    )
                # They are all reduced at once, after the last of them.
                prefixes += token.type in _PREFIXES
                if prefixes > MOST_OPERATORS:
                    raise too_many_operators(token.start_pos or 0)
                try:
                    parsing.feed_token(token)
                except UnexpectedToken as exc:
                    unexpected = exc
                    break
                if number % TOKENS_A_STEP == 0:
                    yield
            found = parsing.feed_eof()
        except UnexpectedCharacters as exc:
            raise _strange(text, cast("int", exc.pos_in_stream)) from None
        except UnexpectedToken as exc:
            raise _misplaced(parsing, unexpected or exc, text) from None
        if not isinstance(found, Node):
            raise AssertionError(f"the grammar gives nodes, not {found!r}")
        return as_condition(found), frozenset(self._builder.names), self._builder.operators


def _strange(text: str, at: int) -> FilterExpressionError:
    if text[at] == "'":
        return FilterExpressionError("a string begins here and does not end: write a quote inside it twice", at + 1)
    return FilterExpressionError(f"{text[at]!r} means nothing here", at + 1)


def _misplaced(parsing: Any, unexpected: UnexpectedToken, text: str) -> FilterExpressionError:
    token = unexpected.token
    expected = f"expected {_listed(parsing.accepts())}"
    if token.type == _END:
        return FilterExpressionError(f"the expression ends too early, {expected}", len(text) + 1)
    return FilterExpressionError(f"{str(token)[:_SHOWN]!r} does not fit, {expected}", (token.start_pos or 0) + 1)


def _listed(names: Iterable[str]) -> str:
    words = sorted({_WORDS.get(name, name) for name in names})
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)
