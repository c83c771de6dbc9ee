"""What is asked of Spark, with stand-ins for its modules."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType

import pytest

from rocketpy.spark import sink
from rocketpy.spark.task import Task, active_context, application_id

MODULES = ("pyspark", "pyspark.sql", "pyspark.sql.utils")


@pytest.fixture
def connect_alone(monkeypatch):
    """The package that is but the client of Spark Connect: it has no SparkContext."""
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["pyspark"].TaskContext = type("TaskContext", (), {"get": staticmethod(lambda: None)})
    sys.modules["pyspark.sql.utils"].is_remote = lambda: True


def test_without_spark_nothing_is_known(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    assert (active_context(), application_id()) == (None, None)
    assert Task.here(app="local-17") == Task(app="local-17")


def test_the_client_of_connect_alone_is_enough_to_make_a_sink(connect_alone):
    to = sink("Orders", namesrv="127.0.0.1:9876", provenance=True, job_id="nightly")
    assert pickle.loads(pickle.dumps(to)).config == to.config
    assert active_context() is None
    to([])
