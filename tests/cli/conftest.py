"""Clusters for all tests of a file, and `rocketpy` beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy_broker_sim import BlockingLocalCluster
from tests.cli.kit import Cli


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingLocalCluster]:
    with BlockingLocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[BlockingLocalCluster]:
    with BlockingLocalCluster(2) as running:
        yield running


@pytest.fixture
def cli(cluster: BlockingLocalCluster) -> Cli:
    return Cli(cluster)
