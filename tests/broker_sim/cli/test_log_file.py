"""A log file that can be written no more does not end the server: warnings go to the screen, and come back."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpy_broker_sim.cli.logs import log, logging_of

other = logging.getLogger("rocketpy_broker_sim.broker")


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """As a command does."""
    with logging_of("rocketpy-broker"), logging_of("rocketpy-broker", str(file)):
        yield


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_file_that_was_moved_away_is_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with logging_to(file):
        other.info("before")
        file.rename(tmp_path / "log.1")
        other.info("after")
    assert "before" in (tmp_path / "log.1").read_text("utf-8")
    assert "after" in file.read_text("utf-8")


def test_a_directory_that_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "logs"
    home.mkdir()
    file = home / "log"
    with logging_to(file):
        other.info("before")
        shutil.rmtree(home)
        other.info("not for the screen")
        other.warning("the first")
        log.warning("what the command says is there once")
        assert lines(capsys) == [
            f"rocketpy-broker: warning: the log file {file} cannot be written: No such file or directory:"
            " warnings go here until it can be",
            "rocketpy-broker: warning: the first",
            "rocketpy-broker: warning: what the command says is there once",
        ]
        home.mkdir()
        other.warning("back in the file")
        assert lines(capsys) == []
        shutil.rmtree(home)
        other.warning("gone again")
        assert len(lines(capsys)) == 2
        home.mkdir()
        other.warning("once more")
    assert "once more" in file.read_text("utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(Path("/dev/full")):
        other.info("not for the screen")
        other.warning("for the screen")
    said = lines(capsys)
    assert "the log file /dev/full cannot be written: No space left on device" in said[0]
    assert said[1:] == ["rocketpy-broker: warning: for the screen"]


def test_a_faulty_log_call_is_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    with logging_to(tmp_path / "log"):
        record = logging.LogRecord("x", logging.INFO, __file__, 0, "%d", ("text",), None)
        for handler in root.handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handle(record)
    assert "--- Logging error ---" in capsys.readouterr().err
