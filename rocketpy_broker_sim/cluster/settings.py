"""Settings of embedded servers: small files, checksums over whole records, listening on this machine only.

A keyword is passed to the servers that have a setting of that name: brokers, name servers, or both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rocketpy.errors import ConfigError
from rocketpy.wire.names import check_topic
from rocketpy_broker_sim.config import (
    BrokerConfig,
    MessageStoreConfig,
    MetricsConfig,
    MetricsExporterType,
    NamesrvConfig,
    NettyServerConfig,
    broker_config,
    fields_by_key,
    namesrv_config,
)

if TYPE_CHECKING:
    from attrs import AttrsInstance

__all__ = [
    "EMBEDDED",
    "OWN",
    "broker_names",
    "broker_settings",
    "name_server_settings",
    "refuse_exposure",
    "show_metrics",
]

EMBEDDED: Mapping[str, Any] = {
    "mapped_file_size_commit_log": 16 * 1024 * 1024,
    "mapped_file_size_consume_queue": 600_000,
    "mapped_file_size_timer_log": 1024 * 1024,
    "recall_message_enable": True,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
    "enabled_append_prop_crc": True,
    "enable_property_filter": True,
    "filter_support_retry": True,
    "enable_calc_filter_bit_map": True,
    "enable_consume_queue_ext": True,
    "mapped_file_size_consume_queue_ext": 1024 * 1024,
    "disk_space_clean_forcibly_ratio": 100,
    "disk_space_warning_level_ratio": 100,
    "wait_time_mills_in_send_queue": 30_000,
}
"""Where the defaults of embedded brokers differ. Small files make a start fast. Every record has a checksum. SQL92
filters with bit maps, and recalls, are on. The disk limits are off, because other programs may have filled the disk.
Sends may wait for longer than 200 ms before they are answered SYSTEM_BUSY, because the program around the broker may
keep the interpreter busy for that long."""

OWN = {
    "listen_port": "each server listens on a free port",
    "namesrv_addr": "the brokers register with the name servers of the cluster",
    "store_path_root_dir": "data= sets the directory of the cluster",
    "store_path_commit_log": "data= sets the directory of the cluster",
    "kv_config_path": "data= sets the directory of the cluster",
    "metrics_exporter_type": "metrics_port= shows the metrics of the servers",
    "metrics_prom_exporter_port": "metrics_port= shows the metrics of the servers",
    "broker_id": "every broker of the cluster is a master",
}
"""Settings of servers that cannot be set for a cluster, and why."""


_LAST_PORT = 65_535


def _names(*kinds: type[AttrsInstance]) -> set[str]:
    return {name for kind in kinds for name, _ in fields_by_key(kind).values()}


_OF_BROKERS = _names(BrokerConfig, MessageStoreConfig)
_OF_NAME_SERVERS = _names(NamesrvConfig)
_OF_BOTH = _names(NettyServerConfig, MetricsConfig)


def broker_settings(settings: Mapping[str, Any], name: str, port: int) -> BrokerConfig:
    """The settings of one broker of a cluster.

    Raises:
        ConfigError: there is no such setting, the cluster sets it itself, or its value is not usable.
    """
    _refuse_own(settings)
    check_topic(settings.get("broker_cluster_name", "DefaultCluster"), what="broker_cluster_name")
    given = {key: value for key, value in settings.items() if key in _OF_BROKERS or key not in _OF_NAME_SERVERS}
    return broker_config(**{**EMBEDDED, **given, "broker_name": name, "listen_port": port})


def name_server_settings(settings: Mapping[str, Any], port: int) -> NamesrvConfig:
    """The settings of one name server of a cluster.

    Raises:
        ConfigError: a value is not usable.
    """
    _refuse_own(settings)
    given = {key: value for key, value in settings.items() if key in _OF_NAME_SERVERS or key in _OF_BOTH}
    return namesrv_config(**{**given, "listen_port": port})


def _refuse_own(settings: Iterable[str]) -> None:
    for name in settings:
        if name in OWN:
            raise ConfigError(f"{name} cannot be set for a cluster: {OWN[name]}")


def broker_names(count: int, settings: Mapping[str, Any]) -> list[str]:
    """broker-a, broker-b, and so on; for a single broker, the setting `broker_name` if there is one.

    Raises:
        ConfigError: `broker_name` is set for several brokers, or is not usable.
    """
    if "broker_name" in settings:
        if count != 1:
            raise ConfigError(f"broker_name is for a cluster of one broker, and this one has {count}")
        check_topic(settings["broker_name"], what="broker_name")  # it is also the name of a topic and of a directory
        return [settings["broker_name"]]
    return [f"broker-{chr(ord('a') + number) if number < 26 else number}" for number in range(count)]


def show_metrics(configs: Iterable[BrokerConfig | NamesrvConfig], port: int) -> None:
    """Have servers show their metrics: the first one at a port, the others at those that follow; 0 is any free one.

    Raises:
        ConfigError: there is no such port.
    """
    for number, config in enumerate(configs):
        at = port + number if port else 0
        if not 0 <= at <= _LAST_PORT:
            raise ConfigError(f"the port for metrics must be 0 to {_LAST_PORT}, also for the last server, not {at}")
        config.metrics.metrics_exporter_type = MetricsExporterType.PROM
        config.metrics.metrics_prom_exporter_port = at


def refuse_exposure(host: str, *, insecure: bool) -> None:
    """Refuse an address that other machines can reach, unless `insecure` is set.

    The servers check no credentials: anyone who reaches the port can read, write and delete everything.

    Raises:
        ConfigError: the address is not a loopback address, and `insecure` is False.
    """
    if not isinstance(insecure, bool):
        raise ConfigError(f"insecure must be True or False, not {insecure!r:.100}")
    if not insecure and not _is_loopback(host):
        raise ConfigError(
            f"{host or 'every interface'} is open to other machines, which may then read, write and delete everything "
            "without credentials: accept that with insecure (the option --insecure), or listen on 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
