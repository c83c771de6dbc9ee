"""What the Spark demo says where Spark cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.spark_demo.java import NoSparkError, check_java


def fake_java(folder: Path, says: str, status: int = 0) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n", "utf-8")
    java.chmod(0o755)


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21"', 'java version "25-ea"']
)
def test_a_java_of_today_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize(
    ("says", "status", "reason"),
    [
        ('java version "1.8.0_392"', 0, "is Java 8."),
        ('openjdk version "11.0.2" 2019-01-15', 0, "is Java 11."),
        ("The operation could not be completed. Unable to locate a Java Runtime.", 1, "does not run"),
    ],
)
def test_another_java_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, status: int, reason: str
) -> None:
    fake_java(tmp_path, says, status)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSparkError, match="apt-get install openjdk-17-jre-headless") as caught:
        check_java()
    assert reason in str(caught.value)
    assert str(tmp_path / "bin" / "java") in str(caught.value)


@pytest.mark.parametrize("home", [True, False])
def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: bool) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path)) if home else monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NoSparkError, match="JAVA_HOME is" if home else "there is no java on PATH"):
        check_java()
