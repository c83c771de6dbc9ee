"""Processes that are forked from one that has imported their program: where they run, what they say, how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.zygote import Forked, Zygote

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="waits for processes by descriptors of them")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote("tests.hostile.told")
    yield made
    made.close()


def start(zygote: Zygote, home: Path, *arguments: str) -> Forked:
    with (home / "errors").open("wb") as errors:
        return zygote.run([*arguments], home=home, environment={"ONLY": "this"}, errors=errors.fileno())


def test_it_has_its_own_arguments_folder_environment_and_streams(zygote: Zygote, tmp_path: Path) -> None:
    process = start(zygote, tmp_path, "3", "x")
    with process.stdout as said:
        assert said.read().decode().splitlines() == ["['3', 'x']", str(tmp_path), "{'ONLY': 'this'}"]
    assert (process.wait(10), process.poll()) == (3, 3)
    assert (tmp_path / "errors").read_text("utf-8") == "on standard error\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_signals_reach_it(zygote: Zygote, tmp_path: Path, number: signal.Signals) -> None:
    process = start(zygote, tmp_path, "until a signal")
    with process.stdout as said:
        said.readline()
        assert process.poll() is None
        process.send_signal(number)
        # Ctrl-C is an exception, which the program of this test turns into a status.
        assert process.wait(10) == (130 if number == signal.SIGINT else -number)
    process.kill()  # it has ended, and nobody else gets the signal


def test_who_waits_for_one_that_goes_on_hears_that_it_does(zygote: Zygote, tmp_path: Path) -> None:
    process = start(zygote, tmp_path, "until a signal")
    with process.stdout, pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL


def test_what_still_runs_ends_with_its_zygote(tmp_path: Path) -> None:
    zygote = Zygote("tests.hostile.told")
    process = start(zygote, tmp_path, "until a signal")
    with process.stdout as said:
        said.readline()
        zygote.close()
        said.read()  # until the last one that could write has ended
    assert not os.path.exists(f"/proc/{process.pid}/cwd")
