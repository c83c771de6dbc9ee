"""`dev` says what is wrong in words, runs its tasks, and lets commands keep their own pid and status."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tools import newer_python, second_spark
from tools.environment import Environment
from tools.trouble import Trouble

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module, at work in a tree of its own that holds nothing else."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    script = shutil.copy(ROOT / "dev", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    loader = importlib.machinery.SourceFileLoader("dev_under_test", script)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What pip was asked to install; environments are pretended to be made."""
    asked: list[tuple[str, ...]] = []

    def make(environment: Environment) -> None:
        environment.bin.mkdir(parents=True, exist_ok=True)
        environment.python.touch()

    monkeypatch.setattr(Environment, "make", make)
    monkeypatch.setattr(Environment, "pip", lambda _environment, *arguments: asked.append(arguments))
    return asked


def test_trouble_is_told_in_words(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    false = shutil.which("false")
    assert false is not None
    monkeypatch.setattr(dev, "ensure", Environment(dev.ROOT, dev.ROOT / ".venv", maker=false).ensure)
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
    shutil.copytree(ROOT / "tools", dev.ROOT / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    dev.VENV.bin.mkdir(parents=True)
    dev.VENV.python.symlink_to(sys.executable)
    dev.VENV.stamp.write_text(json.dumps({"fingerprint": dev.VENV.fingerprint(), "groups": ["test"]}))
    return {"PATH": os.environ["PATH"]}


def test_run_becomes_the_command(dev: ModuleType) -> None:
    """Its pid, its status and its signals are the command's own, and it stands where it was called."""
    env = ready_tree(dev)
    code = "import os, sys; print(os.getpid(), os.environ['VIRTUAL_ENV'], os.getcwd()); sys.stdout.flush(); sys.exit(7)"
    command = [sys.executable, str(dev.ROOT / "dev"), "run", "python", "-c", code]
    with subprocess.Popen(command, env=env, cwd="/", stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    assert process.returncode == 7
    assert said.split() == [str(process.pid), str(dev.VENV.place), "/"]


def test_run_passes_signals_on(dev: ModuleType) -> None:
    env = ready_tree(dev)
    command = [sys.executable, str(dev.ROOT / "dev"), "run", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(timeout=10) == -signal.SIGTERM


@pytest.fixture
def ran(dev: ModuleType, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What `dev` would have run, each followed by the line of Spark that it is told to expect; nothing is run."""
    commands: list[tuple[str, ...]] = []

    def run(*command: str, more: dict[str, str]) -> int:
        commands.append((*command, more[second_spark.EXPECTED]))
        return 0

    @contextlib.contextmanager
    def beside(_root: Path, *task: str) -> Iterator[Callable[[], int]]:
        yield lambda: dev.main(list(task))

    monkeypatch.setattr(dev, "require_java", lambda *, hard: None)
    monkeypatch.setattr(dev, "require_java_for_spark", lambda: None)
    monkeypatch.setattr(dev.second_spark, "install", lambda *_arguments: None)
    monkeypatch.setattr(dev, "run", run)
    monkeypatch.setattr(dev, "beside", beside)
    monkeypatch.delenv("CI", raising=False)
    return commands


@pytest.fixture
def newer(
    dev: ModuleType, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, tuple[str, ...]]]:
    """Which environment ran what after `python -m pytest`, on a machine that has two newer Pythons."""
    commands: list[tuple[str, tuple[str, ...]]] = []
    pythons = [newer_python.Python((3, minor, 1), f"/python3.{minor}") for minor in (97, 12)]
    monkeypatch.setattr(newer_python, "newer_pythons", lambda: pythons)

    def run(place: Environment, *command: str, more: dict[str, str]) -> int:
        assert command[:3] == ("python", "-m", "pytest")
        commands.append((str(place.place.relative_to(dev.ROOT)), command[3:]))
        return 0

    monkeypatch.setattr(Environment, "run", run)
    monkeypatch.delenv("CI", raising=False)
    return commands


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (["spark"], ["4", "3.5"]),
        (["spark", "--older"], ["3.5"]),
        (["test"], ["4", "4"]),
        (["test", "tests/aio"], ["4"]),
    ],
)
def test_each_line_of_spark_is_tried_where_it_should_be(
    dev: ModuleType, ran: list[tuple[str, ...]], task: list[str], lines: list[str]
) -> None:
    assert dev.main(task) == 0
    assert [command[-1] for command in ran] == lines


def test_all_tests_run_side_by_side_but_those_that_want_the_machine_alone(
    dev: ModuleType, ran: list[tuple[str, ...]], newer: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert dev.main(["test", "--all"]) == 0
    together, older, alone = ran
    assert newer == [
        (".cache/python-3.97", ("-m", f"({dev.QUICK}) and not alone")),
        (".cache/python-3.97", ("-m", f"({dev.QUICK}) and alone")),
    ]
    assert together[3:] == ("-m", "not alone", "-n", dev.workers(), "4")
    assert older[3:] == ("-m", "spark and not one_spark", "3.5")
    assert alone[3:] == ("-m", "alone", "4")
    ran.clear()
    assert dev.main(["test", "--durations"]) == 0
    together, alone = ran
    assert together[3:] == ("-m", f"({dev.QUICK}) and not alone", "-n", dev.workers(), "--durations-of-files", "4")
    assert alone[3:] == ("-m", f"({dev.QUICK}) and alone", "--durations-of-files", "4")


@pytest.mark.parametrize(("cores", "processes"), [(1, "2"), (2, "3"), (7, "8"), (64, "8")])
def test_one_process_more_than_there_are_cores_shares_the_tests(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, cores: int, processes: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)), raising=False)
    assert dev.workers() == processes
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert dev.workers() == processes


def test_what_is_asked_for_by_name_runs_in_one_process_alone_or_not(
    dev: ModuleType, ran: list[tuple[str, ...]]
) -> None:
    assert dev.main(["test", "-x", "tests/aio"]) == 0
    assert [command[3:] for command in ran] == [("-m", dev.QUICK, "-x", "tests/aio", "4")]


@pytest.mark.parametrize("failing", range(5))
def test_one_failure_among_the_parts_of_a_run_is_a_failure(
    dev: ModuleType,
    ran: list[tuple[str, ...]],
    newer: list[tuple[str, tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    failing: int,
) -> None:
    statuses = [int(part == failing) for part in range(5)]
    monkeypatch.setattr(dev, "run", lambda *_command, more: statuses.pop(0))
    monkeypatch.setattr(Environment, "run", lambda *_command, more: statuses.pop(0))
    assert dev.main(["test", "--all"]) == 1
    assert statuses == []


def test_a_selection_without_tests_for_the_machine_alone_is_no_failure(
    dev: ModuleType, ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = [0, dev.NO_TESTS]
    monkeypatch.setattr(dev, "run", lambda *_command, more: statuses.pop(0))
    assert dev.main(["test"]) == 0
    assert statuses == []


@pytest.mark.parametrize(("arguments", "place"), [([], ".cache/python-3.97"), (["3.12"], ".cache/python-3.12")])
def test_the_quick_tests_run_on_a_newer_python_as_on_this_one(
    dev: ModuleType,
    newer: list[tuple[str, tuple[str, ...]]],
    installed: list[tuple[str, ...]],
    arguments: list[str],
    place: str,
) -> None:
    assert dev.main(["newer", *arguments]) == 0
    assert newer == [
        (place, ("-m", f"({dev.QUICK}) and not alone", "-n", dev.workers())),
        (place, ("-m", f"({dev.QUICK}) and alone")),
    ]
    assert any(requirement.startswith("pytest-trio") for requirement in installed[0])


@pytest.mark.parametrize("failing", range(2))
def test_one_failure_on_a_newer_python_is_a_failure(
    dev: ModuleType, newer: list[tuple[str, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    statuses = [int(part == failing) for part in range(2)]
    monkeypatch.setattr(Environment, "run", lambda *_command, more: statuses.pop(0))
    assert dev.main(["newer"]) == 1
    assert statuses == []


def test_what_is_asked_for_by_name_runs_on_a_newer_python_too(
    dev: ModuleType, newer: list[tuple[str, tuple[str, ...]]]
) -> None:
    dev.main(["newer", "3.12", "-x", "tests/aio"])
    dev.main(["newer", "-m", "slow"])
    assert newer == [
        (".cache/python-3.12", ("-m", dev.QUICK, "-x", "tests/aio")),
        (".cache/python-3.97", ("-m", "slow")),
    ]


def test_a_machine_without_a_newer_python_is_no_failure(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(newer_python, "newer_pythons", list)
    assert dev.main(["newer"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_python_that_is_not_there_is_trouble(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer_python, "newer_pythons", list)
    with pytest.raises(Trouble, match=r"no Python 3\.12"):
        dev.newer_python_tests(["3.12"])


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
