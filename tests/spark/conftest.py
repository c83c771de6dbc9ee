"""One Spark session and one cluster of ours for all tests of a run; every test of this folder is marked `spark`.

What needs neither PySpark nor Java is in tests/sink, and part of every run. Without PySpark or Java the tests here skip
and say what is missing; with CI set the same is a failure.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop import jvm
from tests.interop.apache import LINES, Apache, Cluster, unavailable
from tests.interop.requirement import require
from tests.spark.connect import server_comes_along
from tests.spark.local_spark import LOG, local_session, missing_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent

# Where there is no server of Connect there is nothing to try, which is not the same as skipping it.
collect_ignore = [] if server_comes_along() else ["test_connect.py"]

# PySpark 3.5 leaves the sockets that it reads results from to the garbage collector.
NOT_OURS = ("ignore:unclosed <socket:ResourceWarning",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder, so that no test is left out of, or let into, the wrong run."""
    here = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):  # there are tens of thousands: to look through `parents` takes seconds
            item.add_marker(pytest.mark.spark)
            for warning in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared session keeps its log and its temporary files."""
    return tmp_path_factory.mktemp("spark") / "home"


@pytest.fixture(scope="session")
def spark(spark_home: Path) -> Iterator[SparkSession]:
    """The session that all tests share: eight tasks at a time, each tried up to four times."""
    require(missing_for_spark())
    with local_session(spark_home) as session:
        yield session


@pytest.fixture
def spark_log(spark: SparkSession, spark_home: Path) -> Path:
    """What driver and executor have logged so far, warnings and errors."""
    return spark_home / LOG


@pytest.fixture(scope="session")
def servers() -> Iterator[BlockingLocalCluster]:
    """A name server and a broker in a thread of this process, shared: use topics of your own."""
    with BlockingLocalCluster() as cluster:
        yield cluster


class Theirs(NamedTuple):
    """A line of Apache's releases, and its servers."""

    apache: Apache
    cluster: Cluster


@pytest.fixture(scope="package", params=LINES)  # idle, they would take a tenth of a core
def theirs(request: pytest.FixtureRequest) -> Iterator[Theirs]:
    """Apache's servers, of one line after the other, shared: use topics and groups of your own."""
    version: str = request.param
    require(unavailable(version))
    apache = Apache.resolve(version, options=jvm.QUICK)
    with apache.cluster() as cluster:
        yield Theirs(apache, cluster)


@pytest.fixture
def topic(servers: BlockingLocalCluster) -> str:
    """A topic with four queues that no other test uses."""
    name = f"rows-{uuid.uuid4().hex[:8]}"
    servers.create_topic(name, queues=4)
    return name
