"""The name server: which brokers live and which queues they hold."""

from __future__ import annotations

from rocketpy_broker_sim.namesrv.name_server import NameServer
from rocketpy_broker_sim.namesrv.server import open_name_server

__all__ = ["NameServer", "open_name_server"]
