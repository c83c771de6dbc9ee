"""A process ends with what waits for it, and with more than one word where it does not listen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tools import ending
from tools.ending import end, raised

READY = "print('ready', flush=True); import time; time.sleep(600)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"


def started(code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_process_is_asked_to_end_first() -> None:
    with started(READY) as process:
        end(process)
        assert process.returncode == -signal.SIGTERM


def test_one_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "PATIENCE", 0.01)
    with started(DEAF) as process:
        end(process)
        assert process.returncode == -signal.SIGKILL


def test_one_that_has_ended_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        monkeypatch.setattr(process, "send_signal", lambda number: pytest.fail(f"{number}"))
        end(process)


def test_a_signal_leaves_the_block_with_its_status_and_is_as_before_then() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left, raised(signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


@contextlib.contextmanager
def cleaning(steps: list[str]) -> Iterator[None]:
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        steps.append("cleaned")


def test_a_second_signal_does_not_disturb_the_cleaning() -> None:
    steps: list[str] = []
    with pytest.raises(SystemExit), raised(signal.SIGTERM), cleaning(steps):
        os.kill(os.getpid(), signal.SIGTERM)
    assert steps == ["cleaned"]
