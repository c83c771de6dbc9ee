"""`./dev mutants` refuses what would try nothing before it measures, and leaves nothing behind when it is ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tools.mutants.__main__ as command_line
from tools.mutants.__main__ import main

ROOT = Path(__file__).resolve().parents[2]

TEXT = """\
def one():
    return 1
"""
TEST = """\
import os, socket
from lib.pkg.numbers import one

def test_one():
    if one() != {expected}:
        with socket.create_connection(("127.0.0.1", int(os.environ["REACHED"]))) as reached:
            reached.recv(1)
"""
PATIENT = """\
from tools.mutants import job
from tools.mutants.__main__ import main
job.LEAST = 600
raise SystemExit(main())
"""
"""`./dev mutants` with tests that may take their time."""
SETTINGS = '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = ["--import-mode=importlib"]\n'
NAMES = [f"lib/pkg/numbers.py:2:{place}" for place in ("5 nothing returned", "12 1 becomes 0", "12 1 becomes 2")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tree whose test waits for us when its function does not return what is expected."""
    for name, text in {
        "lib/__init__.py": "",
        "lib/pkg/__init__.py": "",
        "lib/pkg/numbers.py": TEXT,
        "tests/test_numbers.py": TEST.format(expected=1),
        "pyproject.toml": SETTINGS,
    }.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text, "utf-8")
    return tmp_path / "project"


@pytest.fixture
def said(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command line up to the place where it would measure; gives its status and what it said."""

    class Measured(Exception):
        pass

    def covering_of(*_: object) -> None:
        raise Measured

    monkeypatch.setattr(command_line, "covering_of", covering_of)

    def run(*arguments: str | Path) -> tuple[object, str]:
        status: object = None
        try:
            status = main(["--tree", str(project), "--packages", "lib/pkg", *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        except Measured:
            status = "measured"
        told = capsys.readouterr()
        return status, told.out + told.err

    return run


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--count", "0"], "'0' is not a whole number from 1 on"),
        (["--count=-3"], "'-3' is not a whole number from 1 on"),
        (["--jobs", "0"], "'0' is not a whole number from 1 on"),
        (["--budget=-1"], "'-1' is not a number of seconds above 0"),
        (["--tree", "/nonexistent"], "there is no Python in /nonexistent/lib/pkg"),
        (["--only", "nosuch"], "no package 'nosuch'; there are lib/pkg"),
        (["--survivors"], "name its file with --again"),
        (["--json", "/no/such/x.json"], "there is no folder /no/such"),
        (["--json", "/"], "/ cannot be written"),
        (["--again", "/no/such/x.json"], "/no/such/x.json cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_would_try_nothing_is_refused(said, arguments: list[str], why: str) -> None:
    status, text = said(*arguments)
    assert status == 2
    assert why in text


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "1", "no JSON", "", '{"mutants": 1}', '{"mutants": [1]}', '{"mutants": [{"name": "a"}]}', "\xff"],
)
def test_a_file_that_is_no_report_is_refused(said, tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text, "latin-1")
    status, told = said("--again", tmp_path / "report.json")
    assert status == 2
    assert f"--again: {tmp_path / 'report.json'} " in told
    assert "Traceback" not in told


@pytest.mark.parametrize("name", ["pkg", "lib/pkg", "lib/pkg/"])
def test_a_package_is_named_by_its_last_part_or_as_reports_do(said, name: str) -> None:
    status, text = said("--only", name, "--list")
    assert status == 0
    assert set(text.splitlines()) == set(NAMES)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The report of an earlier run: one mutant was killed, two were not, one is no longer there."""
    states = dict(zip([*NAMES, "lib/pkg/gone.py:1:1 1 becomes 2"], ["killed", *["survived"] * 3], strict=True))
    rows = [{"name": name, "state": state} for name, state in states.items()]
    (tmp_path / "earlier.json").write_text(json.dumps({"mutants": rows}), "utf-8")
    return tmp_path / "earlier.json"


def test_mutants_of_an_earlier_run(said, earlier: Path) -> None:
    gone = "no longer there: lib/pkg/gone.py:1:1 1 becomes 2"
    assert said("--again", earlier, "--list") == (0, "\n".join([gone, *NAMES, ""]))
    assert said("--again", earlier, "--survivors", "--list") == (0, "\n".join([gone, *NAMES[1:], ""]))
    assert said("--again", earlier)[0] == "measured"


def test_mutants_of_another_tree_are_no_success(said, earlier: Path) -> None:
    earlier.write_text(earlier.read_text("utf-8").replace("numbers", "figures"), "utf-8")
    status, text = said("--again", earlier)
    assert status == 2
    assert "this tree has none of these mutants" in text


def test_an_earlier_run_without_survivors_leaves_nothing_to_try(said, earlier: Path) -> None:
    earlier.write_text(earlier.read_text("utf-8").replace("survived", "killed"), "utf-8")
    assert said("--again", earlier, "--survivors") == (0, "there is no mutant to try\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expected", "by"), [(0, signal.SIGINT), (1, signal.SIGTERM)], ids=["measuring, Ctrl-C", "trying, SIGTERM"]
)
def test_a_run_that_is_ended_leaves_no_copy_and_no_process(
    project: Path, tmp_path: Path, expected: int, by: signal.Signals
) -> None:
    """Where the test expects something else than the code without a change gives, it waits when it is measured."""
    (project / "tests/test_numbers.py").write_text(TEST.format(expected=expected), "utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", PATIENT, "--tree", str(project), "--packages", "lib/pkg", "--jobs", "2"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        more = {"TMPDIR": str(scratch), "REACHED": str(listening.getsockname()[1])}
        with subprocess.Popen(command, cwd=ROOT, env=os.environ | more, stdout=subprocess.DEVNULL) as process:
            try:
                reached, _ = listening.accept()
                with reached:
                    assert list(scratch.iterdir()) != []
                    process.send_signal(by)
                    assert process.wait(60) == 128 + by
                    reached.settimeout(60)
                    assert reached.recv(1) == b""  # the process that waited has ended
            finally:
                process.kill()
    assert list(scratch.iterdir()) == []
