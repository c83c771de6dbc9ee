"""Tables of the documentation fit on a page: no words so long that their columns are wider than the text together.

What a browser shows was measured in windows of 1,280 pixels, where the column of text has 832 of them. A character of
a table takes at most 8 pixels, and a cell 18 beside its text. A word that is longer than its column allows would be
broken somewhere in its middle, or cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.pages import DOCS, extension
from tests.rules import listed

WIDTH = 832
CHARACTER = 8
BESIDE = 18
GENERATED = {"reference/settings": "settings_tables", "reference/request-codes": "request_codes"}

ROWS = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
CELLS = re.compile(r"(?<!\\)\|")
SPANS = re.compile(r"`([^`]*)`|([^`]+)")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
breaks = extension("table_breaks")


def tables(text: str) -> Iterator[list[list[str]]]:
    """Rows of cells of each table in a page, without the line below the head."""
    for found in ROWS.finditer(text + "\n"):
        rows = [[cell.strip() for cell in CELLS.split(line.strip()[1:-1])] for line in found[0].splitlines()]
        yield [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]


def longest(cell: str) -> int:
    """Characters of the longest word of a cell that a browser has no place to break."""
    found = [0]
    for code, text in SPANS.findall(LINK.sub(r"\1", cell)):
        for word in (code or text).split():
            found += map(len, breaks.pieces(word, code=bool(code)))
    return max(found)


def width(rows: list[list[str]]) -> int:
    """Pixels that a table takes at least."""
    columns = zip(*rows, strict=True)
    return sum(CHARACTER * max(map(longest, column)) + BESIDE for column in columns)


def too_wide(name: str, text: str) -> Iterator[str]:
    for rows in tables(text):
        if (needed := width(rows)) > WIDTH:
            yield f"{name}: {needed} pixels for the table with the head {' | '.join(rows[0])}"


def pages() -> Iterator[tuple[str, str]]:
    for path in sorted(DOCS.rglob("*.md")):
        name = str(path.relative_to(DOCS).with_suffix(""))
        source = [path.read_text("utf-8")]
        if name in GENERATED:
            extension(GENERATED[name]).fill_page(None, name, source)
        yield name, source[0]


@pytest.mark.slow
def test_tables_fit_on_a_page() -> None:
    found = dict(pages())
    assert sum(len(list(tables(text))) for text in found.values()) > 200
    listed(
        (offence for name, text in found.items() for offence in too_wide(name, text)),
        "shorten the words, put fewer columns into the table, or write the texts below it",
    )


def test_a_table_that_is_too_wide_is_found() -> None:
    head = "| a | b |\n|---|---|\n"
    assert list(too_wide("p", f"{head}| {'x' * 40} | {'y' * 40} |\n")) == []
    assert list(too_wide("p", f"{head}| {'x' * 60} | {'y' * 60} |\n")) == [
        "p: 996 pixels for the table with the head a | b"
    ]


@pytest.mark.parametrize(
    ("cell", "characters"),
    [
        ("two words", 5),
        ("`a_long_name(of_one)`", 5),
        ("ALL_OF_IT", 4),
        ("`setCamelHumps`", 5),
        ("5.3.3", 5),
        ("`rocketpy.sync`", 9),
        ("[text](a/very/long/address.md)", 4),
        ("", 0),
    ],
)
def test_words_are_measured_between_the_places_to_break_them(cell: str, characters: int) -> None:
    assert longest(cell) == characters


def test_names_in_tables_get_places_to_break_them_and_nothing_else_does() -> None:
    page = '<p>a_b</p><table id="x_y"><td>c_d <span class="pre">e.f&lt;g_H</span> 5.3</td></table>'
    assert breaks.breakable(page) == (
        '<p>a_b</p><table id="x_y"><td>c_<wbr>d <span class="pre">e.<wbr>f&lt;g_<wbr>H</span> 5.3</td></table>'
    )
