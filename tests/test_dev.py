"""`dev` says what is wrong in words, runs its tasks, and lets commands keep their own pid and status."""

from __future__ import annotations

import contextlib
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

from tests.dev_script import ROOT, load_dev
from tools import newer_python, second_spark, whole
from tools.environment import Environment
from tools.trouble import Trouble


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module, at work in a tree of its own that holds nothing else."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return load_dev(tmp_path)


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
    code = "import os, sys; print(os.getpid(), os.environ['VIRTUAL_ENV'], os.getcwd(), sep='\\n'); sys.exit(7)"
    command = [sys.executable, str(dev.ROOT / "dev"), "run", "python", "-c", code]
    with subprocess.Popen(command, env=env, cwd="/", stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    assert process.returncode == 7
    assert said.splitlines() == [str(process.pid), str(dev.VENV.place), "/"]


def test_run_passes_signals_on(dev: ModuleType) -> None:
    env = ready_tree(dev)
    command = [sys.executable, str(dev.ROOT / "dev"), "run", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(timeout=10) == -signal.SIGTERM


def ends_with(status: int, more: dict[str, str]) -> int:
    """What pytest does at its end."""
    Path(more[whole.VARIABLE]).touch()
    return status


def ends_with_each(statuses: list[int]) -> Callable[..., int]:
    """Pretend to be runs of pytest that end with one status after the other."""
    return lambda *_command, more: ends_with(statuses.pop(0), more)


@pytest.fixture
def ran(dev: ModuleType, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What `dev` would have run after what all runs of pytest begin with; the line of Spark to expect stands last."""
    commands: list[tuple[str, ...]] = []

    def run(*command: str, more: dict[str, str]) -> int:
        assert command[: len(dev.PYTEST) + 1] == ("python", *dev.PYTEST)
        commands.append((*command[len(dev.PYTEST) + 1 :], more[second_spark.EXPECTED]))
        return ends_with(0, more)

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
    """Which environment ran what after what they begin with, on a machine that has two newer Pythons."""
    commands: list[tuple[str, tuple[str, ...]]] = []
    pythons = [newer_python.Python((3, minor, 1), f"/python3.{minor}") for minor in (97, 12)]
    monkeypatch.setattr(newer_python, "newer_pythons", lambda: pythons)

    def run(place: Environment, *command: str, more: dict[str, str]) -> int:
        assert command[: len(dev.PYTEST) + 1] == ("python", *dev.PYTEST)
        commands.append((str(place.place.relative_to(dev.ROOT)), command[len(dev.PYTEST) + 1 :]))
        return ends_with(0, more)

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


def shared(dev: ModuleType) -> tuple[str, ...]:
    """How the tests that share the machine are asked for, of all tests."""
    return ("-m", f"({dev.ALL}) and not alone and not quiet and not ({dev.APACHE})", "-n", dev.workers())


def test_all_tests_run_side_by_side_but_those_that_want_a_quiet_machine_or_all_of_it(
    dev: ModuleType, ran: list[tuple[str, ...]]
) -> None:
    assert dev.main(["test", "--all"]) == 0
    together, older, apache, quiet, alone = ran
    assert together == (*shared(dev), "4")
    assert older == ("-m", "(not nightly) and spark and not one_spark", "3.5")
    assert apache == ("-m", f"({dev.ALL}) and not alone and not quiet and {dev.APACHE}", "-n", dev.INTEROP_WORKERS, "4")
    assert quiet == ("-m", f"({dev.ALL}) and quiet and not alone", *dev.QUIET, "4")
    assert alone == ("-m", f"({dev.ALL}) and alone", *dev.ALONE, "4")
    ran.clear()
    assert dev.main(["test", "--durations"]) == 0
    together, alone = ran
    options = (dev.FEW_EXAMPLES, "--durations-of-files")
    assert together == ("-m", f"({dev.QUICK}) and not alone", "-n", dev.workers(), *options, "4")
    assert alone == ("-m", f"({dev.QUICK}) and alone", *options, *dev.ALONE, "4")


def test_all_that_runs_beside_hears_of_options_that_choose_no_tests(
    dev: ModuleType, ran: list[tuple[str, ...]]
) -> None:
    options = ("--durations-of-files", "-x", "--tb", "short")
    assert dev.main(["test", "--all", "--durations", "-x", "--tb", "short"]) == 0
    together, older, apache, quiet, alone = ran
    assert together == (*shared(dev), *options, "4")
    assert older == ("-m", "(not nightly) and spark and not one_spark", *options, "3.5")
    assert apache[2:] == ("-n", dev.INTEROP_WORKERS, *options, "4")
    assert quiet == ("-m", f"({dev.ALL}) and quiet and not alone", *options, *dev.QUIET, "4")
    assert alone == ("-m", f"({dev.ALL}) and alone", *options, *dev.ALONE, "4")


def test_a_few_tests_are_collected_where_they_are(dev: ModuleType, ran: list[tuple[str, ...]]) -> None:
    for name, marker in zip("abcd", ("alone", "spark", "interop", "quiet"), strict=True):
        (dev.ROOT / "tests").mkdir(exist_ok=True)
        (dev.ROOT / "tests" / f"test_{name}.py").write_text(f"pytest.mark.{marker}", "utf-8")
    dev.main(["test", "--all"])
    places = [f"tests/test_{name}.py" for name in "bcda"]
    assert [command[-2] for command in ran] == [dev.workers(), *places]
    dev.main(["interop"])
    assert ran[-1] == ("-m", "interop", "tests/test_c.py", "4")
    dev.main(["spark", "--older", "-k", "name"])
    assert ran[-1] == ("-m", "(not nightly) and spark and not one_spark", "-k", "name", "3.5")


def test_what_wants_the_machine_alone_has_it_whatever_is_asked_for_the_others(
    dev: ModuleType, ran: list[tuple[str, ...]]
) -> None:
    dev.main(["test", "-n", "4"])
    together, alone = ran
    assert together[-3:] == ("-n", "4", "4")
    assert alone[-3:] == ("-n", "0", "4")


def test_a_test_that_ends_its_process_ends_the_run(dev: ModuleType) -> None:
    """Otherwise another process takes its place, in which the same test does the same."""
    assert "--max-worker-restart=0" in dev.PYTEST


def test_a_run_that_was_broken_off_is_no_success(
    dev: ModuleType, ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "run", lambda *_command, more: 0)
    assert dev.main(["test", "tests/aio"]) == 1
    assert "did not come to its end" in capsys.readouterr().out
    assert dev.main(["test", "--version"]) == 0, "that is no run"


@pytest.mark.parametrize(("cores", "processes"), [(1, "2"), (2, "3"), (7, "8"), (64, "8")])
def test_one_more_process_than_there_are_cores_shares_the_tests(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, cores: int, processes: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)), raising=False)
    assert dev.workers() == processes
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert dev.workers() == processes


@pytest.mark.parametrize(
    "arguments",
    [
        ["-x", "tests/aio"],
        ["tests"],
        ["tests/no/such/place"],
        ["test_dev.py::test_it"],
        ["-k", "sends"],
        ["-ksends"],
        ["--lf"],
        ["--pdb"],
        ["--capture=no"],
        ["-sv"],
    ],
    ids=" ".join,
)
def test_what_is_asked_for_by_name_runs_in_one_process_alone_or_not(
    dev: ModuleType, ran: list[tuple[str, ...]], arguments: list[str]
) -> None:
    (dev.ROOT / "tests").mkdir()
    assert dev.main(["test", *arguments]) == 0
    assert ran == [("-m", dev.OWN, *arguments, "4")]


def test_markers_of_ones_own_take_the_place_of_the_usual_ones(dev: ModuleType, ran: list[tuple[str, ...]]) -> None:
    assert dev.main(["test", "-m", "slow"]) == 0
    assert ran == [("-m", "slow", "4")]


PARTS = ["side by side", "spark, beside the others", "interop, beside the others", "quiet", "alone"]


@pytest.mark.parametrize("failing", range(5), ids=PARTS)
def test_one_failure_among_the_parts_of_a_run_is_a_failure(
    dev: ModuleType,
    ran: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: int,
) -> None:
    statuses = [int(part == failing) for part in range(len(PARTS))]
    monkeypatch.setattr(dev, "run", ends_with_each(statuses))
    assert dev.main(["test", "--all"]) == 1
    assert statuses == []
    assert capsys.readouterr().out.splitlines()[-1] == f"test: FAILED: {PARTS[failing]}"


@pytest.mark.parametrize("task", [["test"], ["test", "tests/aio"], ["newer"], ["spark"], ["interop"], ["hostile"]])
def test_the_last_line_says_whether_all_passed(
    dev: ModuleType,
    ran: list[tuple[str, ...]],
    newer: list[tuple[str, tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    task: list[str],
) -> None:
    for status, says in ((0, "all passed"), (1, "FAILED")):
        run = lambda *_command, more=None, status=status: ends_with(status, more) if more else status  # noqa: E731
        monkeypatch.setattr(dev, "run", run)
        monkeypatch.setattr(Environment, "run", run)
        assert dev.main(task) == status
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"{task[0]}: {says}")


@pytest.mark.parametrize(("failing", "last"), [(0, "FAILED"), (1, "FAILED: report")])
def test_coverage_is_reported_where_the_tests_passed(
    dev: ModuleType,
    ran: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: int,
    last: str,
) -> None:
    statuses = [int(part == failing) for part in range(2)]
    run = lambda *_command, more=None: ends_with(statuses.pop(0), more) if more else statuses.pop(0)  # noqa: E731
    monkeypatch.setattr(dev, "run", run)
    assert dev.main(["test", "--coverage"]) == 1
    assert len(statuses) == 1 - failing
    assert capsys.readouterr().out.splitlines()[-1] == f"test: {last}"


@pytest.mark.parametrize("flags", [[], ["--all"]])
def test_what_pytest_does_not_know_is_told_once_with_the_flags_of_the_task(
    dev: ModuleType,
    ran: list[tuple[str, ...]],
    newer: list[tuple[str, tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
) -> None:
    statuses = [dev.USAGE]
    monkeypatch.setattr(dev, "run", ends_with_each(statuses))
    assert dev.main(["test", "--al", *flags]) == dev.USAGE
    assert statuses == []
    assert newer == []
    told = "itself has --all, --durations, --coverage; all else goes to pytest, which says above what is wrong"
    assert told in capsys.readouterr().out


def test_each_part_of_a_night_runs_with_one_seed_whatever_became_of_the_one_before(
    dev: ModuleType,
    newer: list[tuple[str, tuple[str, ...]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands: list[tuple[str, ...]] = []

    def run(*command: str, more: dict[str, str] | None = None) -> int:
        commands.append(command)
        if more is not None:
            return ends_with(0, more)
        return int(command[2] in {"tests.crash", "tests.schedules", "tools.mutants"})

    monkeypatch.setattr(dev, "run", run)
    older, needed = list[tuple[list[str], str]](), set[str]()
    monkeypatch.setattr(dev, "older_spark", lambda *asked: older.append(asked) or 0)
    monkeypatch.setattr(dev, "ensure", needed.update)
    assert dev.main(["nightly", "--seed", "7"]) == 1
    assert needed >= {"build", "spark"}  # some of what waits for the night installs a wheel
    assert older == [([], "nightly")]
    assert len(newer) == 2
    assert commands.pop()[-4:] == ("-m", "nightly", "-n", dev.workers())
    assert commands == [
        ("python", "-m", "tests.crash", "--points", "200000", "--seed", "7"),
        ("python", "-m", "tests.kill", "--cycles", "1000", "--seed", "7"),
        ("python", "-m", "tests.chaos", "--seconds", "600", "--seed", "7"),
        ("python", "-m", "tests.schedules", "--count", "2000", "--seed", "7"),
        ("python", "-m", "tests.schedules", "--producers", "--count", "2000", "--seed", "7"),
        ("python", "-m", "tools.mutants", "--marks", dev.OWN, "--count", "300", "--seed", "7"),
    ]
    assert capsys.readouterr().out.splitlines()[-1] == "nightly: FAILED: crash, schedules, producers"
    commands.clear()
    monkeypatch.setattr(dev.time, "strftime", lambda form: {"%Y%m%d": "20300102"}[form])
    dev.main(["nightly"])
    assert {command[-1] for command in commands[:-1]} == {"20300102"}


def test_a_selection_without_tests_for_the_machine_alone_is_no_failure(
    dev: ModuleType,
    ran: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statuses = [0, dev.NO_TESTS]
    monkeypatch.setattr(dev, "run", ends_with_each(statuses))
    assert dev.main(["test"]) == 0
    assert statuses == []
    statuses += [0, dev.NO_TESTS, dev.NO_TESTS]
    monkeypatch.setattr(dev, "beside", lambda *_arguments: contextlib.nullcontext(lambda: 0))
    assert dev.main(["test", "--all"]) == 0
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
        (place, ("-m", f"({dev.QUICK}) and not alone", "-n", dev.workers(), dev.FEW_EXAMPLES)),
        (place, ("-m", f"({dev.QUICK}) and alone", dev.FEW_EXAMPLES, *dev.ALONE)),
    ]
    assert any(requirement.startswith("pytest-trio") for requirement in installed[0])


@pytest.mark.parametrize("failing", range(2))
def test_one_failure_on_a_newer_python_is_a_failure(
    dev: ModuleType, newer: list[tuple[str, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    statuses = [int(part == failing) for part in range(2)]
    monkeypatch.setattr(Environment, "run", ends_with_each(statuses))
    assert dev.main(["newer"]) == 1
    assert statuses == []


def test_what_is_asked_for_by_name_runs_on_a_newer_python_too(
    dev: ModuleType, newer: list[tuple[str, tuple[str, ...]]]
) -> None:
    dev.main(["newer", "3.12", "-x", "tests/aio"])
    dev.main(["newer", "-m", "slow"])
    assert newer == [
        (".cache/python-3.12", ("-m", dev.OWN, "-x", "tests/aio")),
        (".cache/python-3.97", ("-m", "slow")),
    ]


def test_a_machine_without_a_newer_python_is_no_failure(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(newer_python, "newer_pythons", list)
    assert dev.main(["newer"]) == 0
    (said,) = capsys.readouterr().out.splitlines()
    assert "no Python here is newer" in said


def test_a_python_that_is_not_there_is_trouble(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer_python, "newer_pythons", list)
    with pytest.raises(Trouble, match=r"no Python 3\.12"):
        dev.newer_python_tests(["3.12"])


@pytest.mark.slow
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


@pytest.mark.slow
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
