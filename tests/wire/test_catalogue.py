"""What `rocketpy.wire.catalogue` says is declared and used by no code yet is just that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import rocketpy
import rocketpy_broker_sim
from rocketpy.wire.catalogue import UNUSED

WIRE = Path(rocketpy.__file__).parent / "wire"
CATALOGUE = WIRE / "catalogue"
DECLARING = [WIRE / "headers", WIRE / "bodies"]


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of both packages."""
    for package in (rocketpy, rocketpy_broker_sim):
        for path in sorted(Path(package.__file__).parent.rglob("*.py")):
            yield path, ast.parse(path.read_text("utf-8"))


def names_in(node: ast.AST) -> set[str]:
    """The names that code refers to; annotations are text in these modules, and have their names in the tree."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    found |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return found | {text for text in texts if text.isidentifier()}


@cache
def unused_declarations() -> dict[str, tuple[str, ...]]:
    """By module: the classes of headers and bodies that no code outside the catalogue leads to."""
    declared: dict[str, tuple[str, set[str]]] = {}
    used: set[str] = set()
    for path, tree in sources():
        if CATALOGUE in path.parents:
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and path.parent in DECLARING:
                declared[node.name] = f"{path.parent.name}.{path.stem}", names_in(node)
            elif not isinstance(node, ast.Import | ast.ImportFrom) and not is_list_of_exports(node):
                used |= names_in(node)
    waiting = used & declared.keys()
    while waiting:
        reached = {name for each in waiting for name in declared[each][1]} & declared.keys()
        waiting = reached - used
        used |= reached
    unused: dict[str, list[str]] = {}
    for name in sorted(declared.keys() - used):
        unused.setdefault(declared[name][0], []).append(name)
    return {module: tuple(names) for module, names in sorted(unused.items())}


def is_list_of_exports(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)


@pytest.mark.slow
def test_what_is_declared_and_not_used_is_listed() -> None:
    assert unused_declarations() == UNUSED, "see rocketpy/wire/catalogue/__init__.py: take out what is used now"


@pytest.mark.slow
def test_no_code_uses_the_catalogue() -> None:
    """What is used stands among the others. `wire.catalogue` itself is for tools, tests and the documentation."""
    users = [
        path
        for path, tree in sources()
        if CATALOGUE not in path.parents
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rocketpy.wire.catalogue")
    ]
    assert users == []
