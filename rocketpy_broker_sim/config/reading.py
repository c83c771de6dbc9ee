"""Settings from the files that `mqbroker -c` and `mqnamesrv -c` take, and from keywords.

What a file may ask for and this broker cannot do is refused by name at the start, never ignored: somebody relies on
it. Keys without a meaning here are accepted; keys that no release knows are reported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config.broker import BROKER_PORT, BrokerConfig
from rocketpy_broker_sim.config.keys import fields_by_key, parse_properties, read_value, set_value
from rocketpy_broker_sim.config.known_keys import KNOWN_BROKER_KEYS, KNOWN_NAMESRV_KEYS
from rocketpy_broker_sim.config.namesrv import NAMESRV_PORT, NamesrvConfig
from rocketpy_broker_sim.config.server import NettyServerConfig

__all__ = [
    "broker_config",
    "namesrv_config",
    "read_broker_properties",
    "read_namesrv_properties",
    "refuse_what_is_missing",
]

_EVERYWHERE = "0.0.0.0"  # Java's default, kept for Java's files and warned about
_Config = TypeVar("_Config", BrokerConfig, NamesrvConfig)


# --- from a file ---------------------------------------------------------------------------------------


def read_broker_properties(text: str) -> tuple[BrokerConfig, list[str]]:
    """A broker's settings from a properties text, with what an operator should be told.

    Raises:
        ConfigError: a value is not usable, or the file asks for what this broker cannot do.
    """
    properties = parse_properties(text)
    refuse_what_is_missing(properties)
    server = NettyServerConfig(bind_address=_EVERYWHERE, listen_port=BROKER_PORT)
    config = BrokerConfig(broker_name=_host_name(), server=server)
    return config, _fill(config, [config, config.store, config.server], properties, KNOWN_BROKER_KEYS)


def read_namesrv_properties(text: str) -> tuple[NamesrvConfig, list[str]]:
    """A name server's settings from a properties text, with what an operator should be told.

    Raises:
        ConfigError: a value is not usable, or the file asks for what this name server cannot do.
    """
    properties = parse_properties(text)
    refuse_what_is_missing(properties)
    server = NettyServerConfig(bind_address=_EVERYWHERE, listen_port=NAMESRV_PORT)
    config = NamesrvConfig(server=server)
    return config, _fill(config, [config, config.server], properties, KNOWN_NAMESRV_KEYS)


def _host_name() -> str:
    """The machine's name, which names a broker that its file does not name."""
    name = os.uname().nodename.partition(".")[0]
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else "DEFAULT_BROKER"


def _fill(
    config: BrokerConfig | NamesrvConfig, parts: list[Any], properties: Mapping[str, str], known: frozenset[str]
) -> list[str]:
    """Put every key where it belongs. Returns the warnings."""
    owners = {key: (part, *field) for part in parts for key, field in fields_by_key(type(part)).items()}
    warnings = []
    for key, text in properties.items():
        if key in owners:
            part, name, kind = owners[key]
            set_value(part, name, key, read_value(key, text, kind))
        elif key not in known:
            warnings.append(f"unknown key {key!r} is ignored: is it misspelt?")
    if config.server.bind_address in (_EVERYWHERE, "::"):
        warnings.append(
            "listening on every interface without credentials: set bindAddress=127.0.0.1 to serve this machine only"
        )
    return warnings


# --- from keywords -------------------------------------------------------------------------------------


def broker_config(**settings: Any) -> BrokerConfig:
    """A broker's settings from flat keywords: ``broker_config(broker_name="b", flush_disk_type="SYNC_FLUSH")``.

    Raises:
        ConfigError: there is no such setting, or its value is not usable.
    """
    config = BrokerConfig()
    return _spread(config, [config, config.store, config.server], settings)


def namesrv_config(**settings: Any) -> NamesrvConfig:
    """A name server's settings from flat keywords.

    Raises:
        ConfigError: there is no such setting, or its value is not usable.
    """
    config = NamesrvConfig()
    return _spread(config, [config, config.server], settings)


def _spread(config: _Config, parts: list[Any], settings: Mapping[str, Any]) -> _Config:
    owners = {name: (part, key, kind) for part in parts for key, (name, kind) in fields_by_key(type(part)).items()}
    for name, value in settings.items():
        if name not in owners:
            raise ConfigError(f"there is no setting {name!r}")
        part, key, kind = owners[name]
        set_value(part, name, key, read_value(key, value, kind) if isinstance(value, str) else value)
    return config


# --- what is not here ----------------------------------------------------------------------------------

_NOT_HERE: dict[str, tuple[str, str]] = {
    "enableDLegerCommitLog": ("true", "replication by DLedger"),
    "enableControllerMode": ("true", "controller mode"),
    "enableControllerInNamesrv": ("true", "a controller inside the name server"),
    "aclEnable": ("true", "access control"),
    "authenticationEnabled": ("true", "authentication"),
    "authorizationEnabled": ("true", "authorization"),
}
_STORE_TYPES = ("default", "")
_PROXY_KEYS = ("proxyMode", "rocketMQClusterName", "grpcServerPort", "enableProxy")


def refuse_what_is_missing(properties: Mapping[str, str]) -> None:
    """Refuse, by the name of its key, what a file asks for and this project does not have.

    Raises:
        ConfigError: names the key and what it would have switched on.
    """
    for key, (refused, what) in _NOT_HERE.items():
        if properties.get(key, "").lower() == refused:
            raise ConfigError(f"{key}={properties[key]}: {what} is not available here; remove the key to start without")
    for key in _PROXY_KEYS:
        if key in properties:
            raise ConfigError(f"{key}: the gRPC proxy is not available here; clients speak the remoting protocol")
    store_type = properties.get("storeType", "default")
    if store_type not in _STORE_TYPES:
        raise ConfigError(f"storeType={store_type}: only the default store (files) is available here")
    if properties.get("messageStorePlugIn"):
        raise ConfigError("messageStorePlugIn: plug-ins are Java classes and cannot be loaded here")
    if properties.get("brokerRole", "").upper() == "SLAVE" or properties.get("brokerId", "0").strip() not in ("0", ""):
        raise ConfigError("brokerRole=SLAVE or brokerId over 0: replicas are not available here; start a master")
