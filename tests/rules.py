"""The rules of this tree that no linter knows, each a function from one source to what offends it.

`tests/test_layout.py` holds every file against them and lists all offenders of a rule at once; `tests/test_rules.py`
holds the rules against small texts that break them.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

import pytest

__all__ = [
    "MAX_EXAMPLE_LINES",
    "MAX_FUNCTION_LINES",
    "MAX_LINES",
    "Source",
    "cancelled_caught",
    "conditional_asserts",
    "left_to_do",
    "listed",
    "long_example",
    "long_file",
    "long_functions",
    "marks_told_wrongly",
    "no_docstring",
    "rare_words",
    "shields",
    "told",
    "uncollected",
    "untold_fields",
]

MAX_LINES = 500
MAX_EXAMPLE_LINES = 59
MAX_FUNCTION_LINES = 50
COLLECTED = re.compile(r"tests/(.+/)?test_[^/]+\.py")
MARKS = ("TO" + "DO", "FIX" + "ME", "X" * 3)
RARE_WORDS = {
    "who" + "ever": "name the one that is meant: a client, a caller, the thread that holds the lock",
    "an" + "ew": "again, or a verb with re-: rebuilt, restarted",
    "le" + "st": "so that ... not, or because otherwise ...",
    "be" + "ars": "has, accepts, or tolerates",
    "am" + "id": "during, or in the middle of",
}
"""Words that nobody says -> what to write. They are in two parts because this file is held against them as well."""
_MAY_BE_CONDITIONAL = re.compile(r"^\s*assert\b.*(\sif\s|[(\[{]$)", re.MULTILINE)
_RARE_WORD = re.compile(rf"\b({'|'.join(RARE_WORDS)})\b", re.IGNORECASE)


class Source:
    """One file, parsed at most once.

    Args:
        name: as messages have it, from the top of the tree.
        text: what it holds.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @classmethod
    def read(cls, path: Path, root: Path) -> Source:
        return cls(path.relative_to(root).as_posix(), path.read_text("utf-8"))

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.name)

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


def listed(offences: Iterable[str], remedy: str) -> None:
    """Fail with all offences and what to do about them, if there are any, and show nothing else."""
    found = list(offences)
    if found:
        pytest.fail(f"{remedy}:\n" + "\n".join(f"  {each}" for each in found), pytrace=False)


def long_file(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > MAX_LINES:
        yield f"{source.name} has {lines} lines"


def long_example(source: Source) -> Iterator[str]:
    """An example of one file is read in one go."""
    lines = len(source.text.splitlines())
    if lines > MAX_EXAMPLE_LINES:
        yield f"{source.name} has {lines} lines"


def long_functions(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{source.name}:{node.lineno} {node.name} has {lines} lines"


def no_docstring(source: Source) -> Iterator[str]:
    if not ast.get_docstring(source.tree):
        yield source.name


def untold_fields(source: Source) -> Iterator[str]:
    """Fields of named tuples that nothing says anything about.

    What does is a docstring below the field, a line of the class's docstring that begins with its name, or a comment
    beside the field or above it.
    """
    if "NamedTuple" not in source.text:
        return
    lines = source.text.splitlines()
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(b).endswith("NamedTuple") for b in node.bases):
            said = set(re.findall(r"^\s+(\w+): *\S", ast.get_docstring(node) or "", re.MULTILINE))
            for field, below in zip_longest(node.body, node.body[1:]):
                if not isinstance(field, ast.AnnAssign) or _is_text(below) or _has_comment(lines, field):
                    continue
                name = ast.unparse(field.target)
                if name not in said:
                    yield f"{source.name}:{field.lineno} {node.name}.{name}"


def _is_text(node: ast.stmt | None) -> bool:
    """True for a docstring that says something."""
    text = node.value if isinstance(node, ast.Expr) else None
    return isinstance(text, ast.Constant) and isinstance(text.value, str) and _says_something(text)


def _has_comment(lines: list[str], field: ast.AnnAssign) -> bool:
    """Whether a comment stands behind a field, or on a line of its own above it."""
    assert field.end_lineno is not None
    behind = lines[field.end_lineno - 1].encode()[field.end_col_offset :].strip()
    return behind.startswith(b"#") or lines[field.lineno - 2].lstrip().startswith("#")


def _sets_shield(node: ast.AST) -> bool:
    """True for the argument `shield=...` of a call and for an assignment to `.shield`."""
    if isinstance(node, ast.keyword):
        return node.arg == "shield"
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Attribute) and target.attr == "shield" for target in targets)


def shields(source: Source) -> int:
    """How many shields are set."""
    return sum(map(_sets_shield, source.nodes))


def cancelled_caught(source: Source) -> Iterator[tuple[str, str]]:
    """Where cancellation is caught, and as what."""
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and node.type and "Cancelled" in ast.unparse(node.type):
            yield f"{source.name}:{node.lineno}", ast.unparse(node.type)


def conditional_asserts(source: Source) -> Iterator[str]:
    """Asserts that compare in one branch alone: `assert a == b if c else d` only asks whether d is true."""
    if not _MAY_BE_CONDITIONAL.search(source.text):
        return
    for node in source.nodes:
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.IfExp):
            yield f"{source.name}:{node.lineno} {ast.unparse(node)}"


def left_to_do(source: Source) -> Iterator[str]:
    """Stubs, and marks of work put off."""
    if not any(word in source.text for word in (*MARKS, "NotImplementedError")):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        marked = token.type == tokenize.COMMENT and any(mark in token.string for mark in MARKS)
        if marked or (token.type == tokenize.NAME and token.string == "NotImplementedError"):
            yield f"{source.name}:{token.start[0]} {token.string}"


def rare_words(source: Source) -> Iterator[str]:
    """Where a text of any kind has one of RARE_WORDS, and what to write: docs, docstrings, comments, error texts."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for word in _RARE_WORD.findall(line):
            yield f"{source.name}:{number} {word}: {RARE_WORDS[word.lower()]}"


def uncollected(source: Source) -> Iterator[str]:
    """Tests where pytest does not look for any."""
    if COLLECTED.fullmatch(source.name) or "def test_" not in source.text:
        return
    for node in source.tree.body:
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                yield f"{source.name}:{one.lineno} {one.name}"


def told(markers: Iterable[str]) -> dict[str, list[str]]:
    """What each mark of pyproject.toml is told: `alone(why): ...` a reason, `slow: ...` nothing."""
    found = {}
    for marker in markers:
        name, _, told = marker.partition(":")[0].strip().rstrip(")").partition("(")
        found[name] = [each.strip() for each in told.split(",") if each]
    return found


def marks_told_wrongly(source: Source, marks: Mapping[str, list[str]]) -> Iterator[str]:
    """Marks without the reason that they take, or with one that nobody reads."""
    if "mark." not in source.text:
        return
    calls = {id(node.func): node for node in source.nodes if isinstance(node, ast.Call)}
    for node in source.nodes:
        if not (isinstance(node, ast.Attribute) and node.attr in marks and _is_mark(node.value)):
            continue
        call, wanted = calls.get(id(node)), marks[node.attr]
        given = [*call.args, *(keyword.value for keyword in call.keywords)] if call else []
        if len(given) != len(wanted) or bool(call) != bool(wanted) or not all(map(_says_something, given)):
            taken = f"takes ({', '.join(wanted)})" if wanted else "takes nothing"
            yield f"{source.name}:{node.lineno} {ast.unparse(call or node)}: it {taken}"


def _is_mark(node: ast.expr) -> bool:
    return ast.unparse(node) in {"pytest.mark", "mark"}


def _says_something(node: ast.expr) -> bool:
    """False for a text that is none; what is no literal has one somewhere else."""
    return not isinstance(node, ast.Constant) or (isinstance(node.value, str) and bool(node.value.strip()))
