"""The rules of this tree that no linter knows: short files, counted shields, one clock."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rocketpy", "rocketpy_broker_sim")
FOLDERS = (*PACKAGES, "examples", "benchmarks", "tools", "tests", "docs")
SOURCES = [ROOT / "dev", *sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
LIBRARY = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in PACKAGES]

MAX_LINES = 500
MAX_FUNCTION_LINES = 50

# A shield keeps closing code alive under cancellation, always with a deadline. Files that have one are listed
# here with their number, so that a new one is a decision.
SHIELDS: dict[str, int] = {
    "rocketpy/aio/bridge.py": 1,
    "rocketpy/aio/listeners.py": 1,
    "rocketpy/client/instance.py": 2,
    "rocketpy/consumer/running.py": 2,
    "rocketpy/producer/producer.py": 1,
    "rocketpy/remoting/server.py": 1,
    "rocketpy/services.py": 1,
    "rocketpy/sync/listeners.py": 1,
    "rocketpy_broker_sim/broker/opening.py": 1,
    "rocketpy_broker_sim/broker/subsystems/naming.py": 1,
    "rocketpy_broker_sim/broker/subsystems/port.py": 1,
}

# Waiting for the end of what was cancelled already; telling a listener's own cancellation from that of its task.
ASYNCIO_CANCELLED: dict[str, int] = {
    "rocketpy/aio/bridge.py": 1,
    "rocketpy/aio/listeners.py": 1,
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=name(path))


def test_no_other_code_stands_at_the_top() -> None:
    """Whoever looks at the tree sees first what it is; code that is new goes into one of its folders."""
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(FOLDERS) - {"docs"}
    assert not list(ROOT.glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_file_is_longer_than_500_lines(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= MAX_LINES, f"{name(path)} has {lines} lines: split it by ideas, one a file"


@pytest.mark.parametrize("path", LIBRARY, ids=name)
def test_functions_are_short(path: Path) -> None:
    long = [
        f"{name(path)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", LIBRARY, ids=name)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(parse(path)), f"{name(path)} has no docstring"


def sets_shield(node: ast.AST) -> bool:
    """True for the argument `shield=...` of a call and for an assignment to `.shield`."""
    if isinstance(node, ast.keyword):
        return node.arg == "shield"
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Attribute) and target.attr == "shield" for target in targets)


def shields(path: Path) -> int:
    return sum(map(sets_shield, ast.walk(parse(path))))


def test_shields_are_counted() -> None:
    assert {name(path): shields(path) for path in LIBRARY if shields(path)} == SHIELDS


def test_trio_cancelled_is_never_caught() -> None:
    caught = [
        f"{name(path)}:{handler.lineno}"
        for path in LIBRARY
        for handler in ast.walk(parse(path))
        if isinstance(handler, ast.ExceptHandler) and handler.type and "Cancelled" in ast.unparse(handler.type)
        if not (name(path) in ASYNCIO_CANCELLED and ast.unparse(handler.type) == "asyncio.CancelledError")
    ]
    assert not caught, "cancellation belongs to whoever asked for it: " + ", ".join(caught)


def test_where_asyncio_cancellation_is_caught_is_counted() -> None:
    counted = {
        each: (ROOT / each).read_text("utf-8").count("except asyncio.CancelledError") for each in ASYNCIO_CANCELLED
    }
    assert counted == ASYNCIO_CANCELLED


def test_nothing_is_left_to_do() -> None:
    """No stub, and no mark of work put off, stands in the library."""
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    left = []
    for path in LIBRARY:
        with tokenize.open(path) as source:
            for token in tokenize.generate_tokens(source.readline):
                if token.type == tokenize.COMMENT and any(mark in token.string for mark in marks):
                    left.append(f"{name(path)}:{token.start[0]} {token.string}")
                if token.type == tokenize.NAME and token.string == "NotImplementedError":
                    left.append(f"{name(path)}:{token.start[0]} {token.string}")
    assert not left, "\n".join(left)


def test_packages_are_typed() -> None:
    assert all((ROOT / package / "py.typed").exists() for package in PACKAGES)
