"""How far a command has come, where somebody watches."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from rocketpy.cli.traffic import progress as module
from rocketpy.cli.traffic.progress import progress


class Screen(StringIO):
    """A terminal, or a file."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def shown(monkeypatch: pytest.MonkeyPatch, total: int | None, *, terminal: bool = True, rich: bool = False) -> str:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(module, "find_spec", lambda name: object() if rich else None)
    with progress("sending to Orders", total) as show:
        show(100, 1_000)
        show(23, 500)
    return screen.getvalue()


def test_a_terminal_without_rich_has_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 2_000)
    first, second, blank, end = text.removeprefix("\r").split("\r")
    assert (first.rstrip(), second) == (
        "sending to Orders: 100 messages, 50 %",
        "sending to Orders: 123 messages, 75 %",
    )
    assert (blank.strip(), len(blank), end) == ("", len(second), "")
    assert "sending to Orders: 123 messages" in shown(monkeypatch, None)
    assert "%" not in shown(monkeypatch, None)


def test_a_terminal_with_rich_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sending to Orders" in shown(monkeypatch, 2_000, rich=True)


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 2_000, terminal=False) == shown(monkeypatch, None, terminal=False, rich=True) == ""
