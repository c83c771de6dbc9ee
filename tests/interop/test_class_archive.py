"""The archive of a release: its classes, made once for one JVM and one class path, and passed over if there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop import cache, class_archive

JARS = (Path("/jars/one.jar"), Path("/jars/two.jar"))
NEVER = -1


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A JVM that makes archives, or does not: its exit status, which a test may change; NEVER for one that hangs."""
    status = [0]

    def run(command: list[str], *, timeout: float, check: bool, **_: object) -> subprocess.CompletedProcess[bytes]:
        (file,) = [word.partition("=")[2] for word in command if word.startswith("-XX:SharedArchiveFile=")]
        if status[0] == NEVER:
            raise subprocess.TimeoutExpired(command, timeout)
        if not status[0]:
            Path(file).write_bytes(b"classes")
        done = subprocess.CompletedProcess[bytes](command, status[0])
        if check:
            done.check_returncode()
        return done

    monkeypatch.setenv(cache.ENVIRONMENT_KEY, str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "tool", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(class_archive, "java_build", lambda _: 'openjdk version "17.0.15"')
    monkeypatch.setattr(class_archive, "java_version", lambda _: 17)
    monkeypatch.setattr(class_archive.subprocess, "run", run)
    return status


def load(lists: Path) -> None:
    (lists / "a.lst").write_text("A id: 0\n", "utf-8")


def test_an_archive_is_made_once_and_named_for_its_jars_with_what_follows_them() -> None:
    assert class_archive.options(JARS) == []
    class_archive.made(JARS, load)
    (named, quiet) = class_archive.options([*JARS, Path("/drivers")])
    assert named == f"-XX:SharedArchiveFile={class_archive.archive_of(JARS)}"
    assert quiet == "-Xlog:cds*=off"
    assert class_archive.options(JARS[:1]) == []
    class_archive.made(JARS, lambda _: pytest.fail("it is there"))


@pytest.mark.parametrize("status", [1, NEVER])
def test_a_jvm_that_makes_none_is_asked_once(java: list[int], status: int) -> None:
    java[0] = status
    class_archive.made(JARS, load)
    assert class_archive.options(JARS) == []
    class_archive.made(JARS, lambda _: pytest.fail("it was asked"))


def test_an_older_jvm_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "java_version", lambda _: 11)
    class_archive.made(JARS, lambda _: pytest.fail("it was asked"))
    assert class_archive.archive_of(JARS) is None


def test_another_build_of_java_has_another_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    before = class_archive.archive_of(JARS)
    monkeypatch.setattr(class_archive, "java_build", lambda _: 'openjdk version "17.0.16"')
    monkeypatch.setattr(class_archive, "java_version", lambda _: 17)
    assert class_archive.archive_of(JARS) != before


def test_lists_of_several_jvms_are_one_without_numbers_and_other_loaders() -> None:
    one = "# comment\njava/lang/Object id: 0\nA id: 1\n@lambda-proxy A run\n"
    other = "A id: 0\nB id: 1 super: 0 source: /some.jar\nC id: 2\n"
    assert class_archive.merged([one, other]) == ["java/lang/Object", "A", "@lambda-proxy A run", "C"]
