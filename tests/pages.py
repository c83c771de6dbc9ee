"""The extensions that write parts of the documentation, loaded as Sphinx would."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

__all__ = ["DOCS", "extension"]

DOCS = Path(__file__).resolve().parent.parent / "docs"


def extension(name: str) -> ModuleType:
    """One module of docs/_ext."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
