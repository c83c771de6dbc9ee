"""Settings of the servers, under Java's names in snake case, and their readers. Pure."""

from __future__ import annotations

from rocketpy_broker_sim.config.broker import BROKER_PORT, MASTER_ID, BrokerConfig
from rocketpy_broker_sim.config.keys import as_properties, fields_by_key, read_value
from rocketpy_broker_sim.config.metrics import METRICS_PORT, MetricsConfig, MetricsExporterType
from rocketpy_broker_sim.config.namesrv import NAMESRV_PORT, NamesrvConfig
from rocketpy_broker_sim.config.properties import format_properties, parse_properties
from rocketpy_broker_sim.config.reading import (
    broker_config,
    namesrv_config,
    read_broker_properties,
    read_namesrv_properties,
)
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.store import BrokerRole, FlushDiskType, MessageStoreConfig
from rocketpy_broker_sim.config.updates import BROKER_UPDATES, MAX_UPDATE, NAMESRV_UPDATES, update_settings

__all__ = [
    "BROKER_PORT",
    "BROKER_UPDATES",
    "MASTER_ID",
    "MAX_UPDATE",
    "METRICS_PORT",
    "NAMESRV_PORT",
    "NAMESRV_UPDATES",
    "BrokerConfig",
    "BrokerRole",
    "FlushDiskType",
    "MessageStoreConfig",
    "MetricsConfig",
    "MetricsExporterType",
    "NamesrvConfig",
    "NettyServerConfig",
    "as_properties",
    "broker_config",
    "fields_by_key",
    "format_properties",
    "namesrv_config",
    "parse_properties",
    "read_broker_properties",
    "read_namesrv_properties",
    "read_value",
    "update_settings",
]
