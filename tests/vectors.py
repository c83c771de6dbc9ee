"""Results of Apache's own classes that tests compare with, from tests/golden."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent / "golden"


@cache
def _document(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name).read_text("utf-8"))


def vector(name: str) -> Any:
    """One entry of the table of test vectors."""
    return _document("vectors.json")[name]


def java_cases(name: str) -> list[tuple[Any, Any]]:
    """Input and output of every case of that name; an exception is {"error": class name}."""
    cases = [
        (case["input"], case["output"]) for case in _document("vectors_java.json")["cases"] if case["case"] == name
    ]
    assert cases, f"no case is called {name}"
    return cases


def sql92_property_sets() -> list[dict[str, str]]:
    """The messages that the expressions of the cases "sql92" were asked about."""
    found: list[dict[str, str]] = _document("vectors_java.json")["sql92_property_sets"]
    return found


def raises(output: Any) -> bool:
    """Whether Java threw an exception."""
    return isinstance(output, dict) and set(output) == {"error"}
