"""One cluster for all tests of the blocking surface; every test takes a topic of its own."""

from __future__ import annotations

import itertools

import pytest

from rocketpy_broker_sim import BlockingLocalCluster

_numbers = itertools.count()


@pytest.fixture(scope="session")
def cluster():
    # Retries come at level 3: after a second here, not after ten.
    with BlockingLocalCluster(message_delay_level="1s 1s 1s 2s 2s") as running:
        yield running


@pytest.fixture
def namesrv(cluster):
    return cluster.name_server_addresses


@pytest.fixture
def topic():
    return f"Topic{next(_numbers)}"
