"""The files by which `stop` finds servers."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from rocketpy_broker_sim.cli.run_files import run_directory, run_file, running


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "rocketpy"


def test_a_server_is_found_as_long_as_it_lives(directory: Path) -> None:
    assert running("broker") == []
    with run_file("broker", "broker-a", "127.0.0.1:10911"):
        (found,) = running("broker")
        assert (found.pid, found.name, found.address) == (os.getpid(), "broker-a", "127.0.0.1:10911")
        assert running("namesrv") == []
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert running("broker") == []
    assert list(directory.iterdir()) == []
    found.wait_ended()


def test_without_a_runtime_directory_the_temporary_files_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_directory() == tmp_path / f"rocketpy-{os.getuid()}"
    with run_file("sim", "broker-a", "127.0.0.1:9876"):
        assert len(running("sim")) == 1


def test_a_server_runs_where_no_file_can_be_made(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.write_text("a file in the way")
    with run_file("broker", "broker-a", "127.0.0.1:10911"):
        assert running("broker") == []
    assert "will not find this process" in caplog.text


def test_a_server_runs_where_there_is_no_place_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", none)
    with run_file("broker", "broker-a", "127.0.0.1:10911"):
        pass
    assert "will not find this process: No usable temporary directory found" in caplog.text


def test_a_directory_that_others_may_write_to_is_not_used(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir()
    directory.chmod(0o775)
    with run_file("broker", "broker-a", "127.0.0.1:10911"):
        assert list(directory.iterdir()) == []
    assert "belongs to this user alone" in caplog.text
