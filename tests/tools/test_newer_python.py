"""The newest Python that works is found on PATH and among pyenv's versions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import newer_python
from tools.newer_python import Python, ask, choose, newer_pythons, split
from tools.trouble import Trouble


def pretend(path: Path, version: tuple[int, int, int] | None, *, usual: bool = True) -> str:
    """Put a program there that answers as such a Python does, or as a shim without one where there is no version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = "exit 127" if version is None else f"echo '{json.dumps([version, usual])}'"
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return str(path)


def test_the_newest_of_both_kinds_comes_first(tmp_path: Path) -> None:
    shims, usr, pyenv = tmp_path / "shims", tmp_path / "usr", tmp_path / "pyenv"
    pretend(shims / "python3.14", None)
    pretend(usr / "python3", (3, 11, 9))
    on_path = pretend(usr / "python3.12", (3, 12, 7))
    pretend(pyenv / "versions" / "3.12.1" / "bin" / "python3", (3, 12, 1))
    of_pyenv = pretend(pyenv / "versions" / "3.13.0" / "bin" / "python3", (3, 13, 0))
    variables = {"PATH": f"{shims}:{usr}:/no/such/folder:", "PYENV_ROOT": str(pyenv)}
    assert newer_pythons(variables) == [Python((3, 13, 0), of_pyenv), Python((3, 12, 7), on_path)]


def test_one_without_a_version_in_its_name_is_asked_too(tmp_path: Path) -> None:
    path = pretend(tmp_path / "python3", (3, 14, 2))
    variables = {"PATH": str(tmp_path), "PYENV_ROOT": "/no/such/folder"}
    assert newer_pythons(variables) == [Python((3, 14, 2), path)]


@pytest.mark.parametrize("name", ["python3.11", "python3.12-config", "python3.13t", "python2.7", "pythonw3.13"])
def test_other_names_are_not_even_asked(tmp_path: Path, name: str) -> None:
    pretend(tmp_path / name, (3, 13, 0))
    assert newer_pythons({"PATH": str(tmp_path), "PYENV_ROOT": "/no/such/folder"}) == []


def test_one_that_packages_are_not_built_for_does_not_count(tmp_path: Path) -> None:
    assert ask(Path(pretend(tmp_path / "python3", (3, 14, 0), usual=False))) is None
    assert ask(Path(pretend(tmp_path / "python3", (3, 11, 9)))) is None
    assert ask(Path(pretend(tmp_path / "python3", None))) is None


@pytest.mark.parametrize(
    "answer", ["[1]", "{}", "7", "[[3, 13], true]", '[["3", "13", "0"], true]', '["3.13.0", true]', "null"]
)
def test_another_answer_is_none(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "python3.14"
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    assert ask(path) is None


def test_this_one_knows_who_it_is() -> None:
    said = subprocess.run([sys.executable, "-I", "-c", newer_python.WHO], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == [list(sys.version_info[:3]), True]


def test_a_version_may_come_first() -> None:
    assert split(["3.12", "-x", "3.13"]) == ("3.12", ["-x", "3.13"])
    assert split(["3.12.1", "-x"]) == ("3.12.1", ["-x"])
    assert split(["-x", "3.13"]) == (None, ["-x", "3.13"])
    assert split([]) == (None, [])


@pytest.mark.parametrize("version", ["2.7", "3", "3.11", "3.11.9", "3.12.1.0"])
def test_a_version_that_is_none_of_a_newer_python_is_refused(version: str) -> None:
    with pytest.raises(Trouble, match=rf"for Python 3\.12 or newer, .* given {version}$"):
        split([version, "-x"])


def test_the_newest_is_chosen_unless_another_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer_python, "newer_pythons", lambda: [Python((3, 98, 0), "/a"), Python((3, 12, 1), "/b")])
    newest, other = choose(tmp_path), choose(tmp_path, "3.12")
    assert newest is not None
    assert other is not None
    assert (newest.place, newest.maker, newest.version) == (tmp_path / ".cache" / "python-3.98", "/a", "3.98")
    assert (other.place, other.maker, other.version) == (tmp_path / ".cache" / "python-3.12", "/b", "3.12")
    assert choose(tmp_path, "3.12.1") == other
    with pytest.raises(Trouble, match=r"no Python 3\.12\.7 "):
        choose(tmp_path, "3.12.7")
    with pytest.raises(Trouble, match=r"no Python 3\.13 .* there is: 3\.98\.0 \(/a\), 3\.12\.1 \(/b\)"):
        choose(tmp_path, "3.13")


@pytest.mark.parametrize("found", [[], [Python((*sys.version_info[:2], 99), "/the/same")]])
def test_none_is_newer_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: list[Python]
) -> None:
    monkeypatch.setattr(newer_python, "newer_pythons", lambda: found)
    assert choose(tmp_path) is None
    assert capsys.readouterr().out.count("\n") == 1
