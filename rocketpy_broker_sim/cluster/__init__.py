"""Several servers in one loop, embedded in whatever needs them."""

from __future__ import annotations

from rocketpy_broker_sim.cluster.asynchronous import AsyncioLocalCluster
from rocketpy_broker_sim.cluster.blocking import BlockingLocalCluster
from rocketpy_broker_sim.cluster.local import LocalCluster
from rocketpy_broker_sim.cluster.waiting import WaitTimeoutError

__all__ = ["AsyncioLocalCluster", "BlockingLocalCluster", "LocalCluster", "WaitTimeoutError"]
