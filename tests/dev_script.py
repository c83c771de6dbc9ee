"""The script `dev` as a module, for tests of it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def load_dev(tree: Path) -> ModuleType:
    """Return a copy of it that is at work in a tree of its own, which holds nothing else."""
    script = shutil.copy(ROOT / "dev", tree)
    shutil.copy(ROOT / "pyproject.toml", tree)
    loader = importlib.machinery.SourceFileLoader("dev_under_test", script)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
