"""Settings of embedded servers: small files, whole-record checksums, this machine only.

What is told as keywords goes to brokers, to name servers, or to both, by where a setting of that name is known.
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
    NamesrvConfig,
    NettyServerConfig,
    broker_config,
    fields_by_key,
    namesrv_config,
)

if TYPE_CHECKING:
    from attrs import AttrsInstance

__all__ = ["EMBEDDED", "OWN", "broker_names", "broker_settings", "name_server_settings", "refuse_exposure"]

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
"""How the settings of embedded brokers differ from those of brokers: they start at once, say of every record whether it
is whole, filter by SQL92 with bit maps, let messages be recalled, go on where others have filled the disk that they
share, and put up with a program that keeps the interpreter to itself for a while: the 200 ms in a queue after which a
broker calls itself busy soon pass there."""

OWN = {
    "listen_port": "each server takes a free port",
    "namesrv_addr": "the brokers register with the name servers of the cluster",
    "store_path_root_dir": "data= names the directory of the cluster",
    "store_path_commit_log": "data= names the directory of the cluster",
    "kv_config_path": "data= names the directory of the cluster",
    "broker_id": "every broker of the cluster is a master",
}
"""Settings of servers that a cluster is not told, and why."""


def _names(*kinds: type[AttrsInstance]) -> set[str]:
    return {name for kind in kinds for name, _ in fields_by_key(kind).values()}


_OF_BROKERS = _names(BrokerConfig, MessageStoreConfig)
_OF_NAME_SERVERS = _names(NamesrvConfig)
_OF_BOTH = _names(NettyServerConfig)


def broker_settings(settings: Mapping[str, Any], name: str, port: int) -> BrokerConfig:
    """The settings of one broker of a cluster.

    Raises:
        ConfigError: there is no such setting, it is the cluster's own, or its value is not usable.
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
            raise ConfigError(f"{name} is not for a cluster to be told: {OWN[name]}")


def broker_names(count: int, settings: Mapping[str, Any]) -> list[str]:
    """broker-a, broker-b, and so on; or the name of the settings, where there is one broker.

    Raises:
        ConfigError: several brokers were given one name, or it cannot be one.
    """
    if "broker_name" in settings:
        if count != 1:
            raise ConfigError(f"broker_name names one broker, and the cluster has {count}")
        check_topic(settings["broker_name"], what="broker_name")  # it is one too, and the name of a directory
        return [settings["broker_name"]]
    return [f"broker-{chr(ord('a') + number) if number < 26 else number}" for number in range(count)]


def refuse_exposure(host: str, *, insecure: bool) -> None:
    """Refuse to listen for other machines unless that was asked for in so many words.

    Anyone who reaches the port can read, write and delete everything: there are no credentials.

    Raises:
        ConfigError: the host is not this machine alone, and `insecure` was not said.
    """
    if not isinstance(insecure, bool):
        raise ConfigError(f"insecure is True or False, not {insecure!r:.100}")
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
