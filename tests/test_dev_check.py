"""`./dev check`: its steps, of which the longest runs beside the others, and each of which can fail it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.dev_script import ROOT, load_dev
from tools.beside import command_beside


class Checking:
    """What a check would have run, and what of it is pretended to fail."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.failing = ""

    def run(self, *command: str, more: Mapping[str, str] | None = None) -> int:
        words = " ".join(command)
        self.began.append(words)
        return int(bool(self.failing) and self.failing in words)

    @contextlib.contextmanager
    def beside(
        self, _root: Path, command: Sequence[str], *, title: str, environment: Mapping[str, str]
    ) -> Iterator[Callable[[], int]]:
        self.began.append(f"beside: {command[0]}")
        yield lambda: self.run(*command)


@pytest.fixture
def checking(monkeypatch: pytest.MonkeyPatch) -> Checking:
    return Checking()


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checking: Checking) -> ModuleType:
    """The script as a module, which installs nothing."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    dev = load_dev(tmp_path)
    monkeypatch.setattr(dev, "ensure", lambda _groups: None)
    monkeypatch.setattr(dev, "run", checking.run)
    monkeypatch.setattr(dev, "run_tests", checking.run)
    monkeypatch.setattr(dev, "command_beside", checking.beside)
    return dev


RULES = "tests/test_layout.py"


def test_types_are_checked_beside_what_changes_no_file(dev: ModuleType, checking: Checking) -> None:
    assert dev.main(["check", "--fix"]) == 0
    kinds = [words.split()[0] for words in checking.began]
    assert kinds == ["ruff", "ruff", "beside:", "lint-imports", "sphinx-build", "python", "python", "mypy"]
    assert RULES in checking.began[5]


def test_the_rules_may_be_left_to_the_tests(dev: ModuleType, checking: Checking) -> None:
    assert dev.main(["check", "--static"]) == 0
    assert not [words for words in checking.began if RULES in words]
    assert "python -m tests.conformance_report" in checking.began
    assert "./dev check --static" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize(
    "failing", ["ruff format", "ruff check", "mypy", "lint-imports", "sphinx-build", RULES, "report"]
)
def test_a_check_fails_with_each_of_its_steps_and_takes_the_others(
    dev: ModuleType, checking: Checking, failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checking.failing = failing
    assert dev.main(["check"]) == 1
    assert len(checking.began) == 8
    assert "check: FAILED" in capsys.readouterr().out


def test_a_command_beside_others_is_heard_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import os, sys; print(os.environ['WORD']); sys.exit(3)"
    command = [sys.executable, "-c", code]
    with command_beside(tmp_path, command, title="it says", environment={"WORD": "something"}) as end:
        assert end() == 3
    assert capsys.readouterr().out.splitlines()[:2] == ["== it says", "something"]
