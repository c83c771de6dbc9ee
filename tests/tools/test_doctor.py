"""The look at this machine says what stands in the way of what."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tools import doctor
from tools.environment import Environment

ROOT = Path(__file__).resolve().parents[2]


def tree(tmp_path: Path) -> doctor.Tree:
    return doctor.Tree(tmp_path, tmp_path / "python", None, ("trio>=0.26",), tmp_path / "second")


@pytest.mark.parametrize(("origin", "state"), [(None, "ok"), ("/elsewhere/rocketpy/__init__.py", "FAIL")])
def test_doctor_knows_whose_name_it_is(tmp_path: Path, origin: str | None, state: str) -> None:
    assert doctor.check_import_name(tmp_path, "environment", origin)[1] == state


def test_doctor_names_other_packages_that_speak_rocketmq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "json_of", lambda *_a, **_k: [None, [["RocketMQ_Client", "1.0"], ["trio", "0.26"]]])
    rows = list(doctor.check_packages(tree(tmp_path)))
    assert ("RocketMQ packages", "warn", "this Python also holds rocketmq-client") in rows


def test_doctor_tells_both_lines_of_pyspark(tmp_path: Path) -> None:
    here = dataclasses.replace(tree(tmp_path), python=Path(sys.executable), groups=frozenset({"spark"}))
    assert [detail[:13] for _name, _state, detail in doctor.check_spark(tree(tmp_path))] == ["not installed"] * 2
    older = here.second_spark / "pyspark"
    older.mkdir(parents=True)
    (older / "__init__.py").touch()
    (older / "version.py").write_text('__version__: str = "3.5.8"\n')
    assert list(doctor.check_spark(here))[1] == ("PySpark 3.5", "ok", f"3.5.8 in {here.second_spark}")


def test_doctor_says_which_packages_are_missing() -> None:
    rows = list(doctor.check_requirements(["trio>=0.29", "attrs>=23.2"], {"trio": "0.30"}))
    assert rows == [("packages", "FAIL", "missing: attrs")]
    rows = list(doctor.check_requirements(["trio>=0.29"], {"trio": "0.30"}))
    assert rows == [("packages", "ok", "trio 0.30")]


def test_doctor_names_what_java_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert [(name, state) for name, state, _detail in doctor.check_java()] == [
        ("Java", "warn"),
        ("JDK", "warn"),
        ("Maven", "warn"),
    ]


def test_doctor_sees_ports_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two defaults are tried at ports of their own here, since someone's broker may run beside the tests."""
    real = socket.create_server
    with real(("127.0.0.1", 0)) as taken:
        ports = {9876: taken.getsockname()[1], 10911: 0}
        monkeypatch.setattr(
            doctor.socket, "create_server", lambda address: real((address[0], ports.get(address[1], address[1])))
        )
        rows = {name: state for name, state, _detail in doctor.check_network()}
    assert (rows["loopback"], rows["port 9876"], rows["port 10911"]) == ("ok", "warn", "ok")


def test_doctor_lists_newer_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "newer_pythons", list)
    assert "nothing to do" in list(doctor.check_python(tree(tmp_path)))[-1][2]


@pytest.mark.parametrize(("state", "status"), [("ok", 0), ("warn", 0), ("FAIL", 1)])
def test_the_report_fails_where_something_stands_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str, status: int
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(doctor, "examine", lambda _tree: [("loopback", state, "as it is"), ("disk", "ok", "big")])
    assert doctor.report(Environment(tmp_path, tmp_path / ".venv"), ("trio",), tmp_path / "second") == status
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"loopback  {state:<4}  as it is"
    assert ("FAILED: loopback" in said[-1]) == bool(status)
