"""What the expression of markers of a run deselects in any case: such tests need not be made, only to be thrown away.

Each process of a run makes all tests. Of a matrix that has tens of thousands, that takes several seconds in each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

__all__ = ["left_out"]


def left_out(expression: str) -> set[str]:
    """The markers of which any one deselects a test, by an expression such as `(not nightly) and not alone`."""
    try:
        parsed = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:  # pytest says what is wrong with it, or it is none of Python's
        return set()
    return set(_refused([parsed]))


def _refused(terms: Iterable[ast.expr]) -> Iterator[str]:
    """The names that are refused by one of several terms that must all be true."""
    for term in terms:
        if isinstance(term, ast.BoolOp) and isinstance(term.op, ast.And):
            yield from _refused(term.values)
        elif isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.Not) and isinstance(term.operand, ast.Name):
            yield term.operand.id
