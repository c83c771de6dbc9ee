"""The order in which the tests of a line run: the servers that are idle the longest should start as late as they can.

What is started for this folder runs until the end of its tests. A broker of Apache's that has nothing to do takes a
tenth of a core, so files whose tests want none come first, then those on the shared cluster, then those on the mixed
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.interop.apache import LINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

HERE = "tests/interop/"
APART = f"{HERE}stores/"
"""It runs in processes of its own."""


def late_starters_last(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The same tests: those of a line together, file by file, as they were otherwise, and those of other folders too.

    A test without a line stays beside those of its file, which share fixtures.
    """
    places = [at for at, item in enumerate(items) if item.nodeid.startswith(HERE) and not item.nodeid.startswith(APART)]
    mine = [items[at] for at in places]
    first_line: dict[str, int] = {}
    for item in mine:
        first_line[_file(item)] = min(first_line.get(_file(item), len(LINES)), _line(item))
    latest: dict[tuple[str, int], int] = {}

    def line(item: pytest.Item) -> int:
        own = _line(item)
        return own if own < len(LINES) else first_line[_file(item)]

    for item in mine:
        place = _file(item), line(item)
        latest[place] = max(latest.get(place, 0), _begins(item))
    files = {file: at for at, file in enumerate(dict.fromkeys(map(_file, mine)))}
    mine.sort(key=lambda item: (line(item), latest[_file(item), line(item)], files[_file(item)]))
    ordered = list(items)
    for at, item in zip(places, mine, strict=True):
        ordered[at] = item
    return ordered


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _line(item: pytest.Item) -> int:
    """The place of the release whose servers it uses, behind all of them if it uses none."""
    version = _parameters(item).get("apache")
    return LINES.index(str(version)) if version in LINES else len(LINES)


def _begins(item: pytest.Item) -> int:
    """Which servers have to be up: none of Apache's, the shared ones, the mixed ones."""
    wants = set(_wanted(item))
    return 2 if "mixed" in wants else 1 if "apache_cluster" in wants else 0


def _wanted(item: pytest.Item) -> Iterator[str]:
    """Its fixtures, and those that its parameters name."""
    yield from getattr(item, "fixturenames", ())
    for value in _parameters(item).values():
        yield "apache_cluster" if "apache" in str(value).lower() else str(value)


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else dict(callspec.params)
