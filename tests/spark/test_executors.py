"""Executors without rocketpy: a Spark of two worker processes, and a Python that has nothing but what a job brings.

Each test submits a job, with a JVM for the driver, two for the executors, and none left at the end.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rocketpy.spark
from rocketpy.serialization import serializer
from rocketpy.spark.archive import PACKAGES
from rocketpy.spark.settings import MARKER_TOPIC
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require
from tests.spark.class_archive import furnish
from tests.spark.local_spark import missing_for_spark, quick_jvm

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = Path(__file__).with_name("executors_job.py")
ROWS = 500
JOB_ENDS_WITHIN = 300.0
QUIET = "rootLogger.level = warn\nrootLogger.appenderRef.err.ref = err\nappender.err.type = Console\n"
QUIET += "appender.err.name = err\nappender.err.target = SYSTEM_ERR\nappender.err.layout.type = PatternLayout\n"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task before both are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


class Home(NamedTuple):
    """A SPARK_HOME of the imported PySpark: executors work below it, and what they write is gone with the test."""

    folder: Path
    settings: dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home, and Spark's settings there."""
    require(missing_for_spark())
    home = tmp_path / "home"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "log4j2.properties").write_text(QUIET, "utf-8")
    (home / "python").symlink_to(installed("pyspark") / "python")
    options = quick_jvm()
    java = {f"spark.{who}.extraJavaOptions": options for who in ("driver", "executor")}
    return Home(home, {**SETTINGS, **java, **furnish(home)})


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python with nothing installed."""
    return environment(tmp_path / "bare")


def environment(folder: Path, packages: Iterable[str] = ()) -> Path:
    """A Python that has some of the packages that are installed here, and no others."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        (site / package).symlink_to(installed(package))
    return folder


def installed(package: str) -> Path:
    """The folder of a package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def has(environment: Path, module: str) -> bool:
    """Tell whether a module is installed in an environment."""
    command = [environment / "bin" / "python", "-I", "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def submit(
    home: Home, executors: Path, *options: str, topic: str, namesrv: str, driver: Path | None = None
) -> dict[str, Any]:
    """Run the job with `spark-submit`; a driver without an environment of its own has that of the executors."""
    python = str(executors / "bin" / "python")
    without = {"PYTHONPATH", "VIRTUAL_ENV", "SPARK_CONF_DIR"}
    env = {name: value for name, value in os.environ.items() if name not in without}
    env |= {"SPARK_HOME": str(home.folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    env["PYSPARK_DRIVER_PYTHON"] = str((driver or executors) / "bin" / "python")
    settings = [f"--conf={name}={value}" for name, value in home.settings.items()]
    command = [str(home.folder / "bin" / "spark-submit"), "--master=local-cluster[2,1,1024]", *settings, *options]
    ran = subprocess.run(
        [*command, str(JOB), topic, namesrv, str(ROWS)],
        cwd=home.folder, env=env, capture_output=True, text=True, timeout=JOB_ENDS_WITHIN,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def check(answer: dict[str, Any], cluster: BlockingLocalCluster, topic: str, executors: Path, package: str) -> None:
    """Both executors took part, each with rocketpy from `package`; every row is a message, and was read again."""
    assert len({folder for folder, *_ in answer["seen"]}) == 2
    for folder, python, module, _packer in answer["seen"]:
        assert python == str(executors / "bin" / "python")
        assert package in Path(module).parts, (folder, module)
    messages = cluster.wait_messages(topic, ROWS)
    read = [serializer("msgpack").decode(message.body) for message in messages]
    assert sorted(row["number"] for row in read) == list(range(ROWS))
    assert [list(message.keys) for message in messages] == [[row["keys"]] for row in read]
    for reading in answer["read"].values():
        assert len({folder for folder, _ in reading}) == 2
        assert sorted(key for _, keys in reading for key in keys) == sorted(f"key-{number}" for number in range(ROWS))
    assert answer["sent"] == ROWS
    assert answer["bytes"] == sum(len(message.body) for message in messages)


@pytest.mark.one_spark("that executors use an archive is asked on both lines; here the driver has made it")
def test_a_driver_sends_what_it_has_installed(
    home: Home, bare: Path, tmp_path: Path, servers: BlockingLocalCluster, topic: str
) -> None:
    assert not has(bare, "rocketpy")
    assert not has(bare, "trio")
    (bare_site,) = bare.glob("lib/python*/site-packages")
    (bare_site / "pyarrow").symlink_to(installed("pyarrow"))  # which no archive could bring
    driver = environment(tmp_path / "driver", {*PACKAGES, "pyarrow"})
    by_format = f"{topic}-by-format"
    servers.create_topic(by_format, queues=4)
    answer = submit(home, bare, topic=topic, namesrv=servers.name_server_addresses, driver=driver)
    assert Path(answer["driver"]).is_relative_to(driver)
    assert set(answer["read"]) == {"rdd", "format"}
    check(answer, servers, topic, bare, "rocketpy.zip")

    written = servers.wait_messages(by_format, ROWS)
    assert {each.body.decode() for each in written} == {folder for folder, *_ in answer["seen"]}, "both took part"
    assert sorted(each.keys[0] for each in written) == sorted(f"key-{number}" for number in range(ROWS))
    markers = [each for each in servers.messages(MARKER_TOPIC) if each.properties["SPARK_QID"] == by_format]
    assert [each.tags for each in markers] == ["begin"] * 4 + ["commit"]


def test_an_archive_reaches_driver_and_executors_that_have_nothing(
    home: Home, bare: Path, tmp_path: Path, servers: BlockingLocalCluster, topic: str
) -> None:
    made = rocketpy.spark.archive(tmp_path / "packages.zip")
    answer = submit(home, bare, "--py-files", made, topic=topic, namesrv=servers.name_server_addresses)
    assert "packages.zip" in Path(answer["driver"]).parts
    check(answer, servers, topic, bare, "packages.zip")
    assert set(answer["read"]) == {"rdd"}
    assert {packer for *_, packer in answer["seen"]} == {"msgpack.fallback"}  # the one without compiled parts


@pytest.mark.wheel
@pytest.mark.nightly  # by day the archive goes the same way
@pytest.mark.one_spark("it goes the way of the archive, which is asked on both lines")
def test_a_wheel_reaches_executors_that_have_what_it_needs(
    home: Home, tmp_path: Path, wheel: Path, servers: BlockingLocalCluster, topic: str
) -> None:
    executors = environment(tmp_path / "equipped", set(PACKAGES) - {"rocketpy"})
    assert has(executors, "trio")
    assert not has(executors, "rocketpy")
    shutil.copy(wheel, tmp_path / "rocketpy.zip")  # Spark passes over files that end in .whl
    carried = str(tmp_path / "rocketpy.zip")
    answer = submit(home, executors, "--py-files", carried, topic=topic, namesrv=servers.name_server_addresses)
    check(answer, servers, topic, executors, "rocketpy.zip")
