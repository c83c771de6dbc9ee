"""One cluster for all tests of the sink that need no Spark; every test takes a topic of its own."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from rocketpy.spark import counts, sink, task
from rocketpy.spark.delivery import batches, tasks
from rocketpy.spark.producers import producers
from rocketpy_broker_sim import BlockingLocalCluster
from tests.sink.spark_stand_in import Spark

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    """Whatever other tests run in this process: a Spark of theirs is none of these."""
    for module in (counts, task):
        monkeypatch.setattr(module, "active_context", lambda: None)


@pytest.fixture(autouse=True)
def no_producers_left():
    """A producer that is kept for the next task would be found by a test that counts them."""
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
    name = f"Rows{next(_numbers)}"
    cluster.create_topic(name, queues=2)
    return name


# --- each row once, with a Spark of a few lines ------------------------------------------------------------


@pytest.fixture
def spark(monkeypatch):
    """It waits for nothing: what is sent in its tests is stored before the next attempt begins."""
    monkeypatch.setattr(tasks, "GRACE", 0.0)
    made = Spark(monkeypatch)
    yield made
    made.restart()
    batches._last.clear()


@pytest.fixture
def to(namesrv, topic):
    """Makes sinks for the topic."""

    def make(delivery="effectively-once", **settings):
        given = {"columns": {"value": 0, "keys": 1}, "marker_topic": f"Markers-{topic}", "batch_size": 5} | settings
        given.setdefault("back_pressure_for_async_send_num", 10)
        return sink(given.pop("topic", topic), namesrv=namesrv, delivery=delivery, **given)

    return make


@pytest.fixture
def times(cluster, topic):
    """How often each body is stored."""
    return lambda: Counter(message.body for message in cluster.messages(topic))
