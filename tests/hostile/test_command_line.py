"""`./dev hostile` attacks what it is told to, or says why it does not; nothing is attacked here."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.hostile.__main__ as command_line
from tests.hostile.__main__ import main, options_of
from tests.hostile.routed import NOT_SUPPORTED, routed


def refused(*arguments: str | Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    assert ended.value.code == 2


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(command_line, "running")
    monkeypatch.delattr(command_line, "floods")


def test_a_code_that_nobody_answers_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refused("broker-HEART_BEAT", "99999")
    assert "no code '99999'; `./dev hostile --list` names all of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("send_message", "broker-SEND_MESSAGE"),
        ("HEART_BEAT", "broker-HEART_BEAT"),
        ("broker-heart_beat", "broker-HEART_BEAT"),
        ("HEARTBEAT", "broker-HEART_BEAT"),
    ],
)
def test_codes_of_similar_names_are_suggested(capsys: pytest.CaptureFixture[str], said: str, meant: str) -> None:
    refused(said)
    refusal, _, suggested = capsys.readouterr().err.partition("; did you mean ")
    assert refusal.endswith(f"no code {said!r}")
    assert meant in suggested.partition("?")[0].split(", ")


def test_what_is_named_is_attacked_and_without_a_name_everything() -> None:
    assert list(map(str, options_of(["broker-HEART_BEAT", "floods"]).chosen)) == ["broker-HEART_BEAT"]
    assert options_of(["floods"]).chosen == []
    assert options_of([]).chosen == [*routed(), NOT_SUPPORTED]


def test_all_codes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == [*map(str, routed()), str(NOT_SUPPORTED)]


def test_a_page_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    refused("--page", tmp_path / "none" / "page.md")
    refused("--known", tmp_path / "known.py")
    page, known = capsys.readouterr().err.split("usage:")[1:]
    assert f"there is no folder {tmp_path / 'none'}" in page
    assert f"{tmp_path / 'known.py'} is none" in known
