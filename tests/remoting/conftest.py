"""Fixtures: each form of a connection, and a clock that jumps."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from tests.remoting.helpers import NETWORKS


@pytest.fixture(params=sorted(NETWORKS))
def network(request: pytest.FixtureRequest) -> Network:
    """TCP on loopback (the socket form) and memory (the stream form)."""
    return NETWORKS[request.param]()


@pytest.fixture
def memory() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
def clock() -> MockClock:
    """Virtual time: it jumps to the next deadline whenever nobody can go on."""
    return MockClock(autojump_threshold=0)
