"""The page of request codes says everything that is declared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy.wire.catalogue.bodies.pop import BatchAck
from rocketpy.wire.catalogue.exchanges import body_name, header_class
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.json_body import members_of
from tests.pages import DOCS, extension
from tests.rules import listed

EXTENSION = extension("request_codes")
SHARED = {"ns", "nsd", "bname", "oway", "lo"}
"""Fields of any request, which the page lists once."""


@pytest.fixture(scope="module")
def page() -> str:
    text = EXTENSION.page()
    assert isinstance(text, str)
    return text


def left_out(code: RequestCode, page: str) -> Iterator[str]:
    """What the page does not say of a code."""
    if f"| {int(code)} | {code.name} |" in page:
        if header_class(code) is not None:
            yield f"{code.name} is shown as unused"
        return
    section = page.partition(f"### {code.name} ({int(code)})\n")[2].partition("\n### ")[0]
    if not section.strip():
        yield f"{code.name} has no section"
    for answer in (False, True):
        kind = header_class(code, answer=answer)
        for field in kind.wire_fields if kind is not None else ():
            if f"`{field.name}`" not in section and field.name not in SHARED:
                yield f"{code.name} lacks the field {field.name}"
        name = body_name(code, answer=answer).strip("[]").rpartition(".")[2]
        if EXTENSION.WORDS.get(name, f"[{name}](#{name.lower()})" if name else "") not in section:
            yield f"{code.name} lacks the body {name}"


def test_every_code_with_its_headers_and_bodies(page: str) -> None:
    listed(
        (each for code in RequestCode for each in left_out(code, page)),
        "docs/_ext/request_codes.py leaves out what is declared",
    )


def test_what_is_left_out_is_found(page: str) -> None:
    field, body, code = (
        "| `defaultTopic` (`c`) | text | yes |\n",
        "Body: [BatchAckMessageRequestBody](#batchackmessagerequestbody)\n",
        RequestCode.BATCH_ACK_MESSAGE,
    )
    assert field in page
    assert body in page
    assert set(left_out(RequestCode.SEND_MESSAGE_V2, page.replace(field, ""))) == {
        "SEND_MESSAGE_V2 lacks the field defaultTopic"
    }
    assert list(left_out(code, page.replace(body, ""))) == [
        "BATCH_ACK_MESSAGE lacks the body BatchAckMessageRequestBody"
    ]
    assert "PULL_MESSAGE has no section" in list(
        left_out(RequestCode.PULL_MESSAGE, page.replace("### PULL_MESSAGE (", ""))
    )
    unused = page + "| 11 | PULL_MESSAGE | nobody knows |\n"
    assert list(left_out(RequestCode.PULL_MESSAGE, unused)) == ["PULL_MESSAGE is shown as unused"]


def test_required_fields_and_short_names(page: str) -> None:
    section = page.partition("### SEND_MESSAGE_V2 (310)")[2].partition("\n### ")[0]
    assert "| `queueId` (`e`) | 32 bits | yes |" in section
    assert "| `properties` (`i`) | text | no |" in section


def test_bodies_with_their_members(page: str) -> None:
    section = page.partition("### BatchAck\n")[2].partition("\n### ")[0]
    assert {member.names[0] for member in members_of(BatchAck)} == {
        line.split("`")[1] for line in section.splitlines() if line.startswith("| `")
    }


def test_the_marker_stands_in_the_page_once() -> None:
    source = [(DOCS / "reference/request-codes.md").read_text("utf-8")]
    assert source[0].count(EXTENSION.MARKER) == 1
    EXTENSION.fill_page(None, "reference/request-codes", source)
    assert "### PULL_MESSAGE (11)" in source[0]
    other = [EXTENSION.MARKER]
    EXTENSION.fill_page(None, "protocol", other)
    assert other == [EXTENSION.MARKER]
