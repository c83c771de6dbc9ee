"""One cluster for all tests of the sink that need no Spark; every test takes a topic of its own."""

from __future__ import annotations

import itertools

import pytest

from rocketpy.spark import counts, task
from rocketpy_broker_sim import BlockingLocalCluster

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    """Whatever other tests run in this process: a Spark of theirs is none of these."""
    for module in (counts, task):
        monkeypatch.setattr(module, "active_context", lambda: None)


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
