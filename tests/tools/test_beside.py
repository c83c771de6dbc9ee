"""A task beside another one: its words and its status come at the end, and it does not outlive the block."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.beside import beside

pytestmark = pytest.mark.waits("for processes to begin and to end")

ROOT = Path(__file__).resolve().parents[2]


def tree(root: Path, script: str) -> Path:
    (root / "dev").write_text(script, "utf-8")
    return root


def test_what_it_said_comes_once_it_has_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import sys\nprint('said', *sys.argv[1:])\nprint('aloud', file=sys.stderr)\nsys.exit(3)\n"
    with beside(tree(tmp_path, script), "spark", "--older") as end:
        assert "said" not in capfd.readouterr().out
        assert end() == 3
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "== beside the others: ./dev spark --older"
    assert set(lines[1:]) >= {"said spark --older", "aloud"}


SLEEPS = """
import os, pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
found = pathlib.Path({place!r})
found.with_suffix(".new").write_text(f"{{os.getpid()}} {{child.pid}}")
found.with_suffix(".new").rename(found)
child.wait()
"""


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked for its status does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(found: Path) -> list[int]:
    """The task and its child, once both run."""
    while not found.exists():
        time.sleep(0.01)
    return [int(pid) for pid in found.read_text().split()]


def wait_gone(pids: list[int]) -> None:
    while any(is_there(pid) for pid in pids):
        time.sleep(0.01)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_it_ends_with_the_block_and_so_does_what_it_has_started(
    tmp_path: Path, error: type[BaseException] | None
) -> None:
    pids: list[int] = []
    with (
        contextlib.suppress(KeyboardInterrupt),
        beside(tree(tmp_path, SLEEPS.format(place=str(tmp_path / "pids"))), "newer"),
    ):
        pids = started(tmp_path / "pids")
        if error is not None:
            raise error
    wait_gone(pids)


def test_a_signal_ends_both(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from tools.beside import beside
with beside(pathlib.Path({str(tmp_path)!r}), "newer"):
    time.sleep(600)
"""
    tree(tmp_path, SLEEPS.format(place=str(tmp_path / "pids")))
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as process:
        pids = started(tmp_path / "pids")
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    wait_gone(pids)


def test_signals_are_as_before_when_it_has_ended(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with beside(tree(tmp_path, ""), "newer") as end:
        assert end() == 0
    assert signal.getsignal(signal.SIGTERM) is before
