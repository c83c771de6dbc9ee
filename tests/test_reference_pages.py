"""The reference of each surface says what every call takes, what it raises, and shows an example that could run."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import rocketpy
import rocketpy.aio
import rocketpy.sync

ROOT = Path(__file__).resolve().parent.parent
CLASSES = (
    "Producer",
    "TransactionProducer",
    "PushConsumer",
    "LitePullConsumer",
    "PullConsumer",
    "Admin",
    "MQClientInstance",
)
OF_LIVES = {"start", "close", "aclose", "reopen", "run"}
"""What the classes have for their own life: told in the guides, and in one sentence each."""


def loaded(name: str) -> ModuleType:
    """An extension of the documentation, which is no part of a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


surface_docs = loaded("surface_docs")


def calls() -> Iterator[tuple[str, str, str, Any]]:
    """Every documented method of the blocking and the asyncio surface, and its namesake on trio."""
    for surface in (rocketpy.sync, rocketpy.aio):
        for kind in CLASSES:
            for name in dir(getattr(surface, kind)):
                found = inspect.getattr_static(getattr(surface, kind), name)
                if inspect.isfunction(found) and not name.startswith("_") and name not in OF_LIVES:
                    yield surface.__name__, kind, name, found
                    trio = getattr(getattr(rocketpy, kind), name, None)
                    if trio is not None:
                        yield "rocketpy", kind, name, trio


CALLS = {f"{surface}.{kind}.{name}": found for surface, kind, name, found in calls()}


def page(name: str) -> str:
    """The docstring as the page has it."""
    return "\n".join(surface_docs.completed(name, CALLS[name], (inspect.getdoc(CALLS[name]) or "").splitlines()))


def test_each_call_says_what_it_takes() -> None:
    missing = []
    for name, found in CALLS.items():
        said = surface_docs.sections_of(page(name)).get("Args:", [])
        parameters = list(inspect.signature(found).parameters)[1:]
        missing += [f"{name}: {each}" for each in parameters if not any(s.startswith(f"    {each}:") for s in said)]
    assert missing == [], "describe them under Args: in the docstring of the trio class, or of the surface's own"


def test_each_call_says_what_it_raises_as_on_trio() -> None:
    missing = []
    for name in CALLS:
        _, kind, call = surface_docs.parts_of(name)
        trio = inspect.getdoc(getattr(getattr(rocketpy, kind), call, None)) or ""
        if "Raises:" in surface_docs.sections_of(trio) and "Raises:" not in page(name):
            missing.append(name)
    assert missing == []


def test_each_call_has_an_example_that_fits_it() -> None:
    wrong = [f"{name}: {why}" for name in CALLS if (why := what_is_wrong_with_the_example_of(name))]
    assert wrong == [], "see docs/_ext/surface_docs.py"


def what_is_wrong_with_the_example_of(name: str) -> str | None:
    found, call = CALLS[name], name.rpartition(".")[2]
    example = surface_docs.example_of(*surface_docs.parts_of(name)[1:], found)
    if example is None:
        return "there is none"
    tree = ast.parse(f"async def main():\n    {example}")
    made = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and called(each) == call]
    if len(made) != 1:
        return f"it makes {len(made)} calls"
    try:
        inspect.signature(found).bind(None, *made[0].args, **{each.arg: None for each in made[0].keywords if each.arg})
    except TypeError as error:
        return str(error)
    awaited = any(isinstance(each, ast.Await) and each.value is made[0] for each in ast.walk(tree))
    return None if awaited == inspect.iscoroutinefunction(found) else "it is awaited and should not be, or the reverse"


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def test_no_example_is_for_a_call_that_is_gone() -> None:
    there = {name.split(".", 1)[1] for name in CALLS} | {".".join(name.split(".")[-2:]) for name in CALLS}
    assert surface_docs.EXAMPLES.keys() - there == set()
