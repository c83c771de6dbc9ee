"""Other programs are asked who they are; those that cannot say are no trouble."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools import asking
from tools.asking import json_of, version_of


def test_a_version_is_the_first_line_that_looks_like_one() -> None:
    assert version_of("sh", "-c", r"printf 'hello\n\033[1mtool 1.2\033[m\ntool 3.4\n'") == "tool 1.2"
    assert version_of("sh", "-c", "echo tool 1.2 >&2") == "tool 1.2"
    assert version_of("sh", "-c", "echo nothing") == "?"


def test_no_version_of_what_is_missing_or_fails() -> None:
    assert version_of("no-such-program") is None
    assert version_of("sh", "-c", "echo 1.2; exit 1") is None


def test_an_interpreter_answers_in_json(tmp_path: Path) -> None:
    code = "import json, os, sys; print(json.dumps([os.getcwd(), sys.flags.isolated]))"
    assert json_of(sys.executable, code, cwd=tmp_path) == [str(tmp_path), 0]
    assert json_of(sys.executable, code, cwd=tmp_path, options=["-I"]) == [str(tmp_path), 1]


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "print('no json')"])
def test_no_answer_is_none(code: str) -> None:
    assert json_of(sys.executable, code) is None
    assert json_of("/no/such/python", code) is None


def test_one_that_hangs_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PATIENCE", 0.01)
    assert json_of(sys.executable, "import threading; threading.Event().wait()") is None


def test_one_that_reads_takes_nothing_from_the_one_who_types() -> None:
    before = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, b"typed")
    os.close(writer)
    os.dup2(reader, 0)
    try:
        assert json_of(sys.executable, "import sys; print(len(sys.stdin.read()))") == 0
        assert os.read(0, 5) == b"typed"
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)
