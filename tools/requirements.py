"""pyproject.toml, and the requirements that its dependency groups stand for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

EXTRAS = "cli,lz4,zstd"
"""The extras of the project that every environment holds."""

WITHOUT_DEPENDENCIES = {"data"}
"""Groups that are read for their files only; their own dependencies are large and unused."""


def read_pyproject(root: Path) -> dict[str, Any]:
    """Return the pyproject.toml of a tree, parsed."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


def group_requirements(group: str, groups: dict[str, list[Any]]) -> Iterator[str]:
    """Yield the requirements of a dependency group, included groups unfolded.

    Done here because the pip that comes with Python 3.11 does not know dependency groups.
    """
    for entry in groups[group]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from group_requirements(entry["include-group"], groups)


def split(names: Iterable[str], groups: dict[str, list[Any]]) -> tuple[list[str], list[str]]:
    """Return the requirements of several groups: those to resolve, and those to take without what they depend on."""
    full: list[str] = []
    bare: list[str] = []
    for name in names:
        (bare if name in WITHOUT_DEPENDENCIES else full).extend(group_requirements(name, groups))
    return full, bare
