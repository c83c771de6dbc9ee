"""What `dev` says of its tasks, and of arguments that they do not take."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.dev_script import ROOT, load_dev


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module, at work in a tree of its own that holds nothing else."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return load_dev(tmp_path)


@pytest.mark.parametrize(
    ("task", "usage"),
    [
        (["build", "now"], "./dev build"),
        (["docs", "--fast"], "./dev docs"),
        (["doctor", "--frob"], "./dev doctor"),
        (["check", "--fxi"], "./dev check [--fix] [--static]"),
        (["nightly", "--seed"], "./dev nightly [--seed S]"),
        (["nightly", "--seed", "x"], "./dev nightly [--seed S]"),
        (["nightly", "7"], "./dev nightly [--seed S]"),
    ],
    ids=" ".join,
)
def test_arguments_that_a_task_does_not_take_are_refused(
    dev: ModuleType, capsys: pytest.CaptureFixture[str], task: list[str], usage: str
) -> None:
    assert dev.main(task) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"dev: {task[0]} does not take {' '.join(task[1:])}."
    assert said[1] == f"usage: {usage}"


@pytest.mark.parametrize("asked", ["help {}", "{} --help", "{} -h"])
def test_the_help_of_one_task_is_what_the_list_says_of_it(
    dev: ModuleType, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    dev.main([])
    listed = capsys.readouterr().out
    for name in [name for name in dev.TASKS if name not in dev.HAS_ITS_OWN_HELP]:
        assert dev.main(asked.format(name).split()) == 0
        usage, meaning = capsys.readouterr().out.splitlines()
        assert usage.startswith(f"usage: ./dev {name}")
        assert meaning.strip() in listed
    assert dev.main(["help", "no-such-task"]) == 2


def test_run_leaves_the_help_of_a_command_to_the_command(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(dev, "ensure", lambda _groups: None)
    monkeypatch.setattr(dev, "become", became.append)
    dev.main(["run", "rocketpy-broker-sim", "--help"])
    assert became == [["rocketpy-broker-sim", "--help"]]


def test_nobody_who_reads_on_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run([sys.executable, str(ROOT / "dev"), "help"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert ran.returncode == 128 + signal.SIGPIPE
    assert ran.stderr == b""


def test_an_older_python_can_read_it_and_is_told_which_one_it_needs() -> None:
    """Syntax that it does not know would be a traceback in place of that sentence."""
    ast.parse((ROOT / "dev").read_text("utf-8"), feature_version=(3, 7))
