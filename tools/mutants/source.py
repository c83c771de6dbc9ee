"""A file of the library as text, tree and tokens, with one way to name a place in it: byte offsets."""

from __future__ import annotations

import ast
import bisect
import io
import itertools
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

IGNORED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `start` up to `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Token:
    """An operator or a word, and where it stands."""

    text: str
    span: Span


class Source:
    """The text of one file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.data = text.encode()
        self.tree = ast.parse(text, filename=path)
        self._starts = [0]
        for line in self.data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._tokens = list(self._read_tokens(text))

    def _read_tokens(self, text: str) -> Iterator[Token]:
        lines = text.split("\n")

        def offset(place: tuple[int, int]) -> int:
            line, column = place
            return self._starts[line - 1] + len(lines[line - 1][:column].encode())

        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in IGNORED and token.type != tokenize.ENDMARKER:
                yield Token(token.string, Span(offset(token.start), offset(token.end)))

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Return where a node stands, without the parentheses around it."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Span(
            self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset
        )

    def text(self, span: Span) -> str:
        """Return what stands there."""
        return self.data[span.start : span.end].decode()

    def between(self, left: ast.expr | ast.stmt | int, right: ast.expr | ast.stmt | int) -> Span | None:
        """Return where the operator between two nodes (or offsets) stands, which may be two words, as `not in` is."""
        start = left if isinstance(left, int) else self.span(left).end
        end = right if isinstance(right, int) else self.span(right).start
        first = bisect.bisect_left(self._tokens, start, key=lambda token: token.span.start)
        inside = itertools.takewhile(lambda token: token.span.end <= end, itertools.islice(self._tokens, first, None))
        words = [token for token in inside if token.text not in {"(", ")", ","}]
        return Span(words[0].span.start, words[-1].span.end) if words else None

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both counted from one."""
        line = bisect.bisect_right(self._starts, offset)
        return line, len(self.data[self._starts[line - 1] : offset].decode()) + 1

    def replaced(self, span: Span, new: str) -> str:
        """Return the text with `new` in that place; every other line keeps its number."""
        lost = self.data[span.start : span.end].count(b"\n") - new.count("\n")
        return (self.data[: span.start] + new.encode() + b"\n" * max(lost, 0) + self.data[span.end :]).decode()
