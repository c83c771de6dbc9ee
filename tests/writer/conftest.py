"""One cluster for all tests of the writer that need no Spark; every test takes a topic of its own."""

from __future__ import annotations

import importlib.util
import itertools

import pytest

from rocketpy.spark.producers import producers
from rocketpy.spark.writer.entry import checked_write
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def no_producers_left():
    """A producer that is kept for the next task would look for servers that a test has stopped."""
    yield
    producers().close()


@pytest.fixture(scope="session")
def cluster():
    with BlockingLocalCluster() as running:
        yield running


@pytest.fixture
def namesrv(cluster):
    return cluster.name_server_addresses


@pytest.fixture
def topic(cluster):
    name = f"Written{next(_numbers)}"
    cluster.create_topic(name, queues=2)
    return name


@pytest.fixture
def pyarrow():
    """pyarrow, where it is installed."""
    require(None if importlib.util.find_spec("pyarrow") else "no pyarrow in this environment: it is in the group test")
    import pyarrow

    return pyarrow


def schema(**kinds):
    """A schema in Spark's JSON."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return {"type": "struct", "fields": fields}


@pytest.fixture
def write():
    """Makes a write of a frame with some columns to a topic."""

    def make(kinds=None, /, *, streamed=False, **options):
        given = {"namesrv": "127.0.0.1:9876", "topic": "Orders", **options}
        given = {name: value for name, value in given.items() if value is not None}
        return checked_write(given, schema(**(kinds or {"value": "binary"})), streamed=streamed)

    return make
