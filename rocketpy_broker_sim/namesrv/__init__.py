"""The name server: which brokers live and which queues they hold."""

from __future__ import annotations

from rocketpy_broker_sim.namesrv.server import NameServer, open_name_server

__all__ = ["NameServer", "open_name_server"]
