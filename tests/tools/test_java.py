"""A missing Java is told before anything is installed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.java import require_java, require_java_for_spark
from tools.trouble import Trouble


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "java", "echo openjdk version 17.0.1 >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Trouble, match=r"^javac, mvn not found(?s:.*)apt-get install"):
        require_java(hard=True)
    require_java(hard=False)
    assert capsys.readouterr().out.startswith("note: javac, mvn not found")


def test_a_machine_that_has_all_of_it_hears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("java", "javac", "mvn"):
        program(tmp_path, name, "echo version 17.0.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    require_java(hard=True)
    assert capsys.readouterr().out == ""


def test_spark_without_java_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Trouble, match="Spark needs Java"):
        require_java_for_spark()
