"""The page on the log lists the lines of the log: each of them exists, and none of level INFO is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules import listed

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "howto" / "logging.md"
ROW = re.compile(r"^\| `(?P<logger>rocketpy\.[\w.]+)` \| `(?P<line>[^`]+)` \| .+ \|$", re.MULTILINE)


def calls(source: str) -> Iterator[tuple[str, str]]:
    """The level and the text of every line that a module logs, by a logger or once a second by a `Seldom`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        level, owner = node.func.attr, ast.unparse(node.func.value)
        is_seldom = owner.endswith("seldom")  # which takes the cause first
        if level in ("info", "warning", "error") and (is_seldom or owner.endswith(("log", "logger"))):
            text = node.args[1 if is_seldom else 0]
            if isinstance(text, ast.Constant):
                yield level, text.value


def in_source() -> set[tuple[str, str, str]]:
    """Logger, level and text of every line of the client."""
    found = set()
    for path in sorted((ROOT / "rocketpy").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found |= {(name, level, text) for level, text in calls(path.read_text(encoding="utf-8"))}
    return found


def on_page(text: str) -> list[tuple[str, str]]:
    return [(row["logger"], row["line"]) for row in ROW.finditer(text)]


def wrong(page: str) -> Iterator[str]:
    source, rows = in_source(), on_page(page)
    known = {(logger, text) for logger, _, text in source}
    yield from (f"{logger} never logs {text!r}" for logger, text in rows if (logger, text) not in known)
    yield from (f"{text!r} of {logger} stands twice" for logger, text in set(rows) if rows.count((logger, text)) > 1)
    missing = {(logger, text) for logger, level, text in source if level == "info"} - set(rows)
    yield from (f"{text!r} of {logger} is not on the page" for logger, text in sorted(missing))


@pytest.mark.slow
def test_the_page_lists_every_line_of_a_change_of_state() -> None:
    assert len(on_page(PAGE.read_text(encoding="utf-8"))) >= 20
    listed(wrong(PAGE.read_text(encoding="utf-8")), "correct the table in docs/howto/logging.md")


@pytest.mark.slow
def test_what_is_wrong_with_the_page_is_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    row = "| `rocketpy.client.lifecycle` | `%s is open` | a client, producer or consumer has started |"
    assert row in page
    assert list(wrong(page.replace(row, ""))) == ["'%s is open' of rocketpy.client.lifecycle is not on the page"]
    other = page.replace(row, row + "\n| `rocketpy.client.lifecycle` | `%s is ajar` | never |")
    assert list(wrong(other)) == ["rocketpy.client.lifecycle never logs '%s is ajar'"]
    assert list(wrong(page.replace(row, row + "\n" + row))) == [
        "'%s is open' of rocketpy.client.lifecycle stands twice"
    ]
