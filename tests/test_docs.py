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

DOCS = Path(__file__).resolve().parent.parent / "docs"
APART = {"_build", "newsfragments"}
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in APART)
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXECUTED = {"{doctest}"}
INCLUDED = re.compile(r"^```{literalinclude} (\S+)\n(?::pyobject: (\S+)\n)?", re.MULTILINE)
"""Parts of examples/, which tests/examples runs."""
NOT_PYTHON = {"text", "console", "{toctree}", "{include}", "{literalinclude}", "{eval-rst}", "toml", "ini", "json"}


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Examples may silence the log; the tests that come after them may not find it so."""
    logger = logging.getLogger("rocketpy")
    before = logger.level
    yield
    logger.setLevel(before)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in FENCE.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_fence_is_executed_or_not_python(page: Path) -> None:
    assert {kind for kind, _ in blocks(page)} <= EXECUTED | NOT_PYTHON


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_includes_is_run_as_an_example(page: Path) -> None:
    for path, name in INCLUDED.findall(page.read_text("utf-8")):
        included = (page.parent / path).resolve()
        assert included.is_relative_to(DOCS.parent / "examples"), path
        assert not name or re.search(rf"^(async )?(def|class) {name}\b", included.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page(page: Path) -> None:
    source = "\n".join(body for kind, body in blocks(page) if kind in EXECUTED)
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted == len(test.examples)
