"""Where tests with a marker are: a run of a few need not collect all, which takes longer than some of them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["marked"]

_TESTS = "tests"


def marked(root: Path, marker: str) -> list[str]:
    """Files of tests that name a marker, and folders whose conftest does; relative to the tree.

    No other file has the marker: a rule in `tests/test_layout.py` forbids it in modules that tests import.
    """
    word = f"mark.{marker}"
    files = [path for path in sorted((root / _TESTS).rglob("*.py")) if word in path.read_text("utf-8")]
    folders = [path.parent for path in files if path.name == "conftest.py"]
    alone = [path for path in files if path.name.startswith("test_") and not set(folders) & set(path.parents)]
    return [path.relative_to(root).as_posix() for path in (*folders, *alone)]
