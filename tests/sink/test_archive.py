from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rocketpy.spark
from rocketpy.errors import ConfigError
from rocketpy.spark.archive import PACKAGES
from rocketpy_broker_sim import BlockingLocalCluster

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "packages.zip"
    assert rocketpy.spark.archive(path) == str(path)
    return path


def python(*arguments: str | Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def of_this_tree(code: str) -> str:
    return python("-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}")


@pytest.mark.slow
def test_all_of_rocketpy_works_from_the_archive_alone(made: Path) -> None:
    with BlockingLocalCluster() as cluster:
        script = Path(__file__).with_name("from_archive.py")
        said = python("-I", "-S", script, made, cluster.name_server_addresses)
        (message,) = cluster.wait_messages("Archived")
    assert message.body == b"one"
    assert f"rocketpy is already in an archive, {made}: pass that one to Spark" in said
    assert f"modules from {made}" in said


@pytest.mark.slow
def test_it_holds_modules_that_are_compiled_and_licences(made: Path) -> None:
    names = set(zipfile.ZipFile(made).namelist())
    for package in PACKAGES:
        assert f"{package}/__init__.pyc" in names
    assert {"rocketpy/spark/sink.pyc", "rocketpy/LICENSE", "rocketpy/NOTICE"} <= names
    for distribution in set(PACKAGES.values()) - {"rocketpy"}:
        assert [
            name for name in names if name.startswith(f"{distribution}-") and ("LICEN" in name or "COPYING" in name)
        ]
    assert not [name for name in names if name.startswith("rocketpy_broker_sim") or name.endswith((".so", ".py"))]


@pytest.mark.slow
def test_an_older_archive_is_replaced_and_nothing_is_left_beside(made: Path, tmp_path: Path) -> None:
    (tmp_path / "rocketpy.ZIP").write_bytes(b"old")
    rocketpy.spark.archive(tmp_path / "rocketpy.ZIP")
    assert zipfile.ZipFile(tmp_path / "rocketpy.ZIP").namelist() == zipfile.ZipFile(made).namelist()
    assert [path.name for path in tmp_path.iterdir()] == ["rocketpy.ZIP"]


@pytest.mark.parametrize("name", ["rocketpy.whl", "rocketpy", "rocketpy.tar.gz"])
def test_names_that_spark_would_ignore(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"would ignore '{name}'"):
        rocketpy.spark.archive(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_a_path_it_lives_as_long_as_the_process() -> None:
    made = of_this_tree(
        "import os, rocketpy.spark\n"
        "made = rocketpy.spark.archive()\n"
        "assert rocketpy.spark.archive() == made\n"
        "assert os.stat(os.path.dirname(made)).st_mode & 0o077 == 0  # nobody else can put another in its place\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(0 if rocketpy.spark.archive() != made else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert os.path.exists(made)\n"
        "print(made)"
    ).strip()
    assert made.endswith(".zip")
    assert not Path(made).parent.exists()


@pytest.mark.slow
def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tenacity" else find(name))
    with pytest.raises(ConfigError, match="tenacity cannot be put into an archive: it is not installed here"):
        rocketpy.spark.archive(tmp_path / "rocketpy.zip")
    assert not list(tmp_path.iterdir())
