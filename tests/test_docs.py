"""Runs every example of the documentation, page by page, with the standard library's doctest.

`./dev docs` runs them again through Sphinx; this is the quick way that needs no extra package.
"""

from __future__ import annotations

import doctest
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules import listed

DOCS = Path(__file__).resolve().parent.parent / "docs"
APART = {"_build", "newsfragments"}
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in APART)
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXECUTED = {"{doctest}"}
INCLUDED = re.compile(r"^```{literalinclude} (\S+)\n(?::pyobject: (\S+)\n)?", re.MULTILINE)
"""Parts of examples/, which tests/examples runs."""
NOT_PYTHON = {"text", "console", "{toctree}", "{include}", "{literalinclude}", "{eval-rst}", "toml", "ini", "json"}

WITH_EXAMPLES = [page for page in PAGES if "```{doctest}" in page.read_text("utf-8")]


def loggers() -> list[logging.Logger]:
    """The root, and those of these packages."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("rocketpy")]
    return [logging.root, *map(logging.getLogger, names)]


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Examples may configure the log; the tests that come after them may not find it so."""
    handlers = [*logging.root.handlers]
    levels = {each: each.level for each in loggers()}
    yield
    logging.root.handlers[:] = handlers
    for each in loggers():
        each.setLevel(levels.get(each, logging.NOTSET))


COMPILED = {"web-frameworks.md"}
"""Pages whose Python needs what is not installed here: tests/test_web_frameworks_page.py runs it with stand-ins."""


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in FENCE.findall(page.read_text("utf-8"))]


def other_fences(where: str, text: str) -> Iterator[str]:
    """Fences that are neither executed nor known to hold something else than Python."""
    for found in FENCE.finditer(text):
        if found[1] not in EXECUTED | NOT_PYTHON and (found[1], where) not in {("python", page) for page in COMPILED}:
            line = text.count("\n", 0, found.start()) + 1
            yield f"{where}:{line} {found[1] or 'a fence without a kind'}"


def other_includes(page: Path, text: str) -> Iterator[str]:
    """What a page takes from outside examples/, or by a name that is not there."""
    for path, name in INCLUDED.findall(text):
        included = (page.parent / path).resolve()
        if not included.is_relative_to(DOCS.parent / "examples"):
            yield f"{page.name}: {path} is no example"
        elif name and not re.search(rf"^(async )?(def|class) {name}\b", included.read_text("utf-8"), re.MULTILINE):
            yield f"{page.name}: {path} has no {name}"


def test_every_fence_is_executed_or_not_python() -> None:
    assert len(PAGES) > 20
    listed(
        (each for page in PAGES for each in other_fences(page.name, page.read_text("utf-8"))),
        "write Python as {doctest}, so that it is run, or add the kind to NOT_PYTHON",
    )


def test_what_a_page_includes_is_run_as_an_example() -> None:
    listed(
        (each for page in PAGES for each in other_includes(page, page.read_text("utf-8"))),
        "include parts of examples/, which tests/examples runs",
    )


def test_other_fences_and_includes_are_found() -> None:
    text = "# A\n\n```python\na\n```\n```{doctest}\n>>> 1\n```\n```\nb\n```\n"
    assert list(other_fences("a.md", text)) == ["a.md:3 python", "a.md:9 a fence without a kind"]
    spark = "../../examples/spark_demo/java.py"
    includes = "".join(
        f"```{{literalinclude}} {path}\n:pyobject: {name}\n```\n"
        for path, name in ((spark, "nothing_of_this"), ("../../dev", "main"), (spark, "check_java"))
    )
    page = DOCS / "howto" / "a.md"
    assert list(other_includes(page, includes)) == [
        f"a.md: {spark} has no nothing_of_this",
        "a.md: ../../dev is no example",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_of_a_page(page: Path) -> None:
    source = "\n".join(body for kind, body in blocks(page) if kind in EXECUTED)
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted == len(test.examples) > 0
