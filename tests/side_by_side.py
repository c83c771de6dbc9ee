"""How tests are shared out among processes that run side by side: whole files, and some folders whole.

A file keeps its servers and its other fixtures to itself; what folders share, Apache's servers or a Spark session, is
started in one process; where Apache's servers are all that they share, those of its older line in another one. Long
ones begin first, so that no process is left with one at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["TOGETHER", "WholeFiles", "long_ones_first", "scope_of"]

BY_LINE = ("tests/interop/stores/", "tests/interop/")
"""Folders that run in one process for each line of Apache's servers."""
TOGETHER = (*BY_LINE, "tests/spark/")
"""Folders that run in one process each; one that stands within another comes first, and runs apart from it."""
OLDER_LINE = "4.9.7"
"""The older line of Apache's servers: its tests share none with the newer one, so they are folders of their own."""
_OF_OLDER_LINE = re.compile(rf"\[(?:.*-)?{re.escape(OLDER_LINE)}(?:-.*)?\]$")
_LONG = (
    *TOGETHER,
    *(
        f"tests/{name}/"
        for name in ("ways_out", "matrix", "schedules", "crash", "chaos", "kill", "hostile", "surfaces")
    ),
)


class WholeFiles(LoadScopeScheduling):
    """Hands out files and folders whole, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What a test is handed out with."""
    file = nodeid.partition("::")[0]
    scope = next((folder for folder in TOGETHER if file.startswith(folder)), file)
    return f"{scope}[{OLDER_LINE}]" if scope in BY_LINE and _OF_OLDER_LINE.search(nodeid) else scope


def long_ones_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The same tests: folders that take long, then the others as they were."""

    def place(item: pytest.Item) -> int:
        return next((at for at, folder in enumerate(_LONG) if item.nodeid.startswith(folder)), len(_LONG))

    return sorted(items, key=place)
