"""The page of the command says everything that its commands say."""

from __future__ import annotations

import re

import pytest

from tests.cli.kit import Cli
from tests.cli.test_frame import ALL
from tests.pages import DOCS, extension

EXTENSION = extension("command_help")


@pytest.fixture(scope="module")
def page() -> str:
    text = EXTENSION.page()
    assert isinstance(text, str)
    return text


def words(text: str) -> list[str]:
    """The words of a text; where its lines end does not matter."""
    return re.sub(r"```(text)?", "", text).split()


@pytest.mark.parametrize("name", [name for name, _ in ALL], ids=lambda name: name or "rocketpy")
def test_the_help_of_every_command_is_on_the_page(page: str, name: str) -> None:
    title = f"## rocketpy {name}".rstrip()
    section = page.partition(f"{title}\n")[2].partition("\n## ")[0]
    own, _, common = Cli().ok(*name.split(), "--help").partition("Common options:\n")
    epilog = common.partition("\n\n")[2]
    assert words(section) == words(own) + words(epilog)
    assert words(section)


def test_the_page_holds_the_marker() -> None:
    assert EXTENSION.MARKER in (DOCS / f"{EXTENSION.PAGE}.md").read_text("utf-8")
