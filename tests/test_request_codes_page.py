"""The page of request codes says everything that is declared."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rocketpy.wire.bodies.pop import BatchAck
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.exchanges import body_name, header_class
from rocketpy.wire.json_body import members_of

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def extension() -> ModuleType:
    spec = importlib.util.spec_from_file_location("request_codes", DOCS / "_ext" / "request_codes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(extension: ModuleType) -> str:
    text = extension.page()
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_every_code_with_its_headers_and_bodies(code: RequestCode, page: str, extension: ModuleType) -> None:
    unused = f"| {int(code)} | {code.name} |"
    if unused in page:
        assert header_class(code) is None
        return
    section = page.partition(f"### {code.name} ({int(code)})\n")[2].partition("\n### ")[0]
    assert section.strip(), code
    for answer in (False, True):
        kind = header_class(code, answer=answer)
        fields = kind.wire_fields if kind is not None else ()
        for field in fields:
            assert f"`{field.name}`" in section or field.name in {"ns", "nsd", "bname", "oway", "lo"}, field.name
        name = body_name(code, answer=answer).strip("[]").rpartition(".")[2]
        assert extension.WORDS.get(name, f"[{name}](#{name.lower()})" if name else "") in section


def test_required_fields_and_short_names(page: str) -> None:
    section = page.partition("### SEND_MESSAGE_V2 (310)")[2].partition("\n### ")[0]
    assert "| `queueId` (`e`) | 32 bits | yes |" in section
    assert "| `properties` (`i`) | text | no |" in section


def test_bodies_with_their_members(page: str) -> None:
    section = page.partition("### BatchAck\n")[2].partition("\n### ")[0]
    assert {member.names[0] for member in members_of(BatchAck)} == {
        line.split("`")[1] for line in section.splitlines() if line.startswith("| `")
    }


def test_the_marker_stands_in_the_page_once(extension: ModuleType) -> None:
    source = [(DOCS / "reference/request-codes.md").read_text("utf-8")]
    assert source[0].count(extension.MARKER) == 1
    extension.fill_page(None, "reference/request-codes", source)
    assert "### PULL_MESSAGE (11)" in source[0]
    other = [extension.MARKER]
    extension.fill_page(None, "protocol", other)
    assert other == [extension.MARKER]
