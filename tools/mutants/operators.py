"""Which changes a file admits: what stands in it, read as a tree, and what each part of it may become."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tools.mutants.skipped import is_for_people, is_log_call, is_skipped, is_type_checking
from tools.mutants.source import Source, Span

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.Pow: "*",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.BitXor: "&",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file."""

    path: str
    line: int
    column: int
    operator: str
    span: Span
    new: str
    in_function: bool
    """It changes what a function does when it is called, and nothing that runs at import."""

    @property
    def name(self) -> str:
        """Return what identifies it wherever the code is the same."""
        return f"{self.path}:{self.line}:{self.column} {self.operator}"


@dataclass(frozen=True, slots=True)
class Change:
    """What an operator offers: this place becomes that text."""

    operator: str
    span: Span
    new: str


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of a node by what is around it."""

    in_function: bool = False
    for_people: bool = False


def mutants_of(source: Source) -> list[Mutant]:
    """Return every change that the file admits, in the order of the text."""
    found = []
    for node, around in _nodes(source.tree, Around()):
        for change in _changes(node, source, around):
            line, column = source.place(change.span.start)
            inside = around.in_function
            found.append(Mutant(source.path, line, column, change.operator, change.span, change.new, inside))
    return sorted(found, key=lambda mutant: (mutant.span.start, mutant.span.end, mutant.operator))


def _nodes(node: ast.AST, around: Around) -> Iterator[tuple[ast.AST, Around]]:
    """Yield all that may be changed."""
    yield node, around
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_skipped(child, node, field):
                inside = around.in_function or (is_function and field == "body")
                for_people = around.for_people or is_for_people(child, node, field)
                yield from _nodes(child, Around(inside, for_people))


def _changes(node: ast.AST, source: Source, around: Around) -> Iterator[Change]:
    if isinstance(node, ast.expr) and not (around.for_people and _is_text(node)):
        yield from _of_expression(node, source)
    elif isinstance(node, ast.stmt):
        yield from _of_statement(node, source, in_function=around.in_function)
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield from _negated(node.test, source)


def _negated(test: ast.expr, source: Source) -> Iterator[Change]:
    """What is asked by itself becomes its opposite; in comparisons and the like the operator does."""
    if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript) and not is_type_checking(test):
        yield Change("condition negated", source.span(test), f"(not {source.text(source.span(test))})")


# ------------------------------------------------------------------------------------------- expressions


@functools.singledispatch
def _of_expression(node: ast.expr, source: Source) -> Iterator[Change]:
    """Other expressions stay."""
    return iter(())


@_of_expression.register
def _(node: ast.Compare, source: Source) -> Iterator[Change]:
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        span = source.between(left, right)
        if span is not None:
            old = source.text(span)
            yield from (Change(f"{old} becomes {new}", span, new) for new in COMPARISONS[type(operator)])
        left = right


@_of_expression.register
def _(node: ast.BinOp, source: Source) -> Iterator[Change]:
    span = source.between(node.left, node.right)
    new = ARITHMETIC.get(type(node.op))
    if span is not None and new is not None and not _is_text(node.left) and not _is_text(node.right):
        yield Change(f"{source.text(span)} becomes {new}", span, new)


@_of_expression.register
def _(node: ast.BoolOp, source: Source) -> Iterator[Change]:
    new = "or" if isinstance(node.op, ast.And) else "and"
    for left, right in zip(node.values, node.values[1:], strict=False):
        span = source.between(left, right)
        if span is not None:
            yield Change(f"{source.text(span)} becomes {new}", span, new)


@_of_expression.register
def _(node: ast.UnaryOp, source: Source) -> Iterator[Change]:
    if isinstance(node.op, ast.Not | ast.USub):
        word = "not" if isinstance(node.op, ast.Not) else "-"
        yield Change(f"{word} dropped", Span(source.span(node).start, source.span(node.operand).start), " ")


@_of_expression.register
def _(node: ast.Constant, source: Source) -> Iterator[Change]:
    span, value = source.span(node), node.value
    if isinstance(value, bool):
        yield Change(f"{value} becomes {not value}", span, str(not value))
    elif isinstance(value, int):
        old = source.text(span)
        yield Change(f"{old} becomes {value + 1}", span, str(value + 1))
        yield Change(f"{old} becomes {value - 1}", span, f"({value - 1})" if value < 1 else str(value - 1))
    elif isinstance(value, float):
        yield Change(f"{source.text(span)} becomes {value + 1!r}", span, repr(value + 1))
    elif isinstance(value, str | bytes) and value:
        yield Change("text emptied", span, '""' if isinstance(value, str) else 'b""')


@_of_expression.register
def _(node: ast.JoinedStr, source: Source) -> Iterator[Change]:
    yield Change("text emptied", source.span(node), '""')


@_of_expression.register
def _(node: ast.Subscript, source: Source) -> Iterator[Change]:
    if isinstance(node.slice, ast.Slice):
        for name, end in (("start", node.slice.lower), ("end", node.slice.upper)):
            if end is not None:
                yield Change(f"{name} of slice dropped", source.span(end), "None")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


# -------------------------------------------------------------------------------------------- statements


def _of_statement(node: ast.stmt, source: Source, *, in_function: bool) -> Iterator[Change]:
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC and not _is_text(node.value):
        span = source.between(node.target, node.value)
        if span is not None:
            new = ARITHMETIC[type(node.op)] + "="
            yield Change(f"{source.text(span)} becomes {new}", span, new)
    if isinstance(node, ast.Break | ast.Continue):
        old, new = ("break", "continue") if isinstance(node, ast.Break) else ("continue", "break")
        yield Change(f"{old} becomes {new}", source.span(node), new)
    if isinstance(node, ast.Return) and node.value is not None and source.text(source.span(node.value)) != "None":
        yield Change("nothing returned", source.span(node), "return None")
    if in_function and _may_go(node):
        yield Change("statement dropped", source.span(node), "pass")


def _may_go(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(value, ast.Call) and not is_log_call(value)
    return isinstance(node, ast.Assign | ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None)
