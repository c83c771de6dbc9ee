"""The settings of all clients: name servers, the client id, intervals and timeouts. Pure.

Plays the part of ClientConfig, and of NettyClientConfig for the connections.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import attrs

from rocketpy.config.checks import by_name, flag, member, no_separator, seconds
from rocketpy.durations import duration
from rocketpy.errors import ConfigError
from rocketpy.reprs import Short
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.hosts import format_address, parse_address

if TYPE_CHECKING:
    from rocketpy.security.credentials import Credentials

__all__ = ["ClientConfig", "check_names", "parse_addresses"]


def parse_addresses(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """Parse addresses from "a:9876;b:9876" or from a list; IPv6 in brackets. Duplicates are removed.

    Raises:
        ConfigError: an address is not "host:port".
    """
    parts = value.split(";") if isinstance(value, str) else [] if value is None else _texts(value)
    stripped = [part.strip() for part in parts]
    return tuple(dict.fromkeys(format_address(*parse_address(part)) for part in stripped if part))


def _namesrv(value: str | Iterable[str] | None) -> tuple[str, ...]:
    return parse_addresses(os.environ.get("NAMESRV_ADDR") if value is None else value)


def _texts(value: object) -> list[str]:
    parts = list(value) if isinstance(value, Iterable) else []
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts) or not isinstance(value, Iterable):
        raise ConfigError(f"namesrv must be like 'a:9876;b:9876', or a list of 'host:9876', not {value!r:.100}")
    return texts


def _maps_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _address_map(value: Mapping[str, str] | None) -> dict[str, str]:
    if value is None:
        return {}
    if not _maps_texts(value):
        example = {"10.0.0.5:10911": "localhost:10911"}
        raise ConfigError(f"address_map must be a dict such as {example}, not {value!r:.100}")
    return dict(value)


def _serialize_type(value: SerializeType | str) -> SerializeType:
    return by_name(SerializeType, value)


def _needs_access_key(config: ClientConfig, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(f"{field.name} must be non-empty text")
    if value is not None and config.access_key is None:
        raise ConfigError(f"{field.name} needs the access_key that it belongs to")


def _needs_secret_key(config: ClientConfig, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(f"{field.name} must be non-empty text, not {value!r:.100}")
    if value is not None and config.secret_key is None:
        raise ConfigError(f"{field.name} needs the secret_key that belongs to it")


def check_names(kind: type[ClientConfig], names: Iterable[str]) -> set[str]:
    """Check that names are settings of a config class. Returns the names of all its settings.

    Raises:
        ConfigError: a name is not a setting; the text says what it is called here.
    """
    known = {field.name for field in attrs.fields(kind)}
    if unknown := set(names) - known:
        raise ConfigError(f"{kind.__name__} has no setting {_with_advice(unknown, kind)}")
    return known


def _with_advice(unknown: Iterable[str], kind: type[ClientConfig]) -> str:
    from rocketpy.config.advice import advice  # only needed after a mistake

    said = {name: advice(name, kind) for name in sorted(unknown)}
    return "; ".join(f"{name}: {text}" if text else name for name, text in said.items())


@attrs.frozen(kw_only=True, repr=False)
class ClientConfig(Short):
    """How a client finds brokers, and keeps its connections and registrations."""

    namesrv: tuple[str, ...] = attrs.field(default=None, converter=_namesrv, metadata={"java": "namesrvAddr"})
    """Name servers: "a:9876;b:9876" or a list. Default, also for None: the environment variable NAMESRV_ADDR."""
    client_ip: str | None = attrs.field(default=None, validator=no_separator, metadata={"java": "clientIP"})
    """Address of this host in the client id. Default: the address from which this host reaches others."""
    instance_name: str | None = attrs.field(default=None, validator=no_separator, metadata={"java": "instanceName"})
    """Makes the client id "ip@instance_name", which must be unique among all clients. By default, the id contains the
    process id, the time and a random number, and is unique by itself."""
    unit_name: str | None = attrs.field(default=None, validator=no_separator, metadata={"java": "unitName"})
    """Last part of the client id, in an installation of several units."""
    unit_mode: bool = attrs.field(default=False, validator=flag, metadata={"java": "unitMode"})
    """Whether sends and heartbeats carry the flag of an installation of several units. Brokers mark the topics that
    they create for such clients."""
    address_map: dict[str, str] = attrs.field(factory=dict, converter=_address_map, hash=False, metadata={"java": None})
    """Rewrites broker addresses that this host cannot reach, as behind Docker or a tunnel: "host:port" to "host:port",
    or "host" to "host"."""
    serialize_type: SerializeType = attrs.field(
        default=SerializeType.JSON,
        converter=_serialize_type,
        validator=member(SerializeType, "json", "rocketmq"),
        metadata={"java": None},
    )
    """How headers of requests are encoded: "json", or "rocketmq" for the binary form (in Java the system property
    rocketmq.serialize.type). Answers may be in either form."""
    access_key: str | None = attrs.field(default=None, validator=_needs_secret_key, metadata={"java": None})
    """With this and `secret_key`, every request is signed, for servers with access control. (In Java both are passed to
    the constructors, as AclClientRPCHook.)"""
    secret_key: str | None = attrs.field(default=None, validator=_needs_access_key, repr=False, metadata={"java": None})
    """The secret that belongs to `access_key`. Requests are signed with it, and it is never sent."""
    security_token: str | None = attrs.field(
        default=None, validator=_needs_access_key, repr=False, metadata={"java": None}
    )
    """The token that belongs to a temporary access key; it is sent with every request."""
    poll_name_server_interval: float = attrs.field(
        default=30.0,
        converter=duration,
        validator=seconds(0.01, 3600),
        metadata={"java": "pollNameServerInterval", "scale": 1000},
    )
    """Seconds between two refreshes of the routes of the topics in use."""
    heartbeat_broker_interval: float = attrs.field(
        default=30.0,
        converter=duration,
        validator=seconds(0.01, 110),
        metadata={"java": "heartbeatBrokerInterval", "scale": 1000},
    )
    """Seconds between heartbeats. A broker removes a client after 120 s without one."""
    persist_consumer_offset_interval: float = attrs.field(
        default=5.0,
        converter=duration,
        validator=seconds(0.01, 3600),
        metadata={"java": "persistConsumerOffsetInterval", "scale": 1000},
    )
    """Seconds between two commits of consumed offsets."""
    connect_timeout: float = attrs.field(
        default=3.0,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "connectTimeoutMillis", "scale": 1000},
    )
    """Seconds that opening a connection may take."""
    request_timeout: float = attrs.field(
        default=3.0,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "mqClientApiTimeout", "scale": 1000},
    )
    """Seconds that a request of the client's own may take: routes, heartbeats, offsets."""
    idle_timeout: float = attrs.field(
        default=120.0,
        converter=duration,
        validator=seconds(1, 3600),
        metadata={"java": "clientChannelMaxIdleTimeSeconds"},
    )
    """Seconds after which an unused connection is closed."""
    close_timeout: float = attrs.field(
        default=3.0, converter=duration, validator=seconds(0.001, 600), metadata={"java": None}
    )
    """Seconds that leaving the groups at the brokers may take when a client closes."""

    @property
    def credentials(self) -> Credentials | None:
        """The keys that requests are signed with; None if they are not signed."""
        if self.access_key is None or self.secret_key is None:
            return None
        from rocketpy.security.credentials import Credentials

        return Credentials(self.access_key, self.secret_key, self.security_token)

    @classmethod
    def of(cls, config: ClientConfig | None = None, **fields: Any) -> Self:
        """A config of this class from another one, with some fields changed or added.

        Fields that this class does not have, which belong to another role, are left out.

        Raises:
            ConfigError: a field does not exist, is missing or has a value that cannot be used.
        """
        if config is not None and not isinstance(config, ClientConfig):
            raise ConfigError(f"config must be a config such as {cls.__name__}, not {config!r:.100}")
        known = check_names(cls, fields)
        for name in ("namesrv", "group"):  # not given, as from a command line, or from `config`
            if fields.get(name, ()) is None:
                del fields[name]
        base = {} if config is None else attrs.asdict(config, recurse=False)
        values = {name: value for name, value in base.items() if name in known} | fields
        if missing := {field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING} - set(values):
            raise ConfigError(f"{cls.__name__} needs {', '.join(sorted(missing))}")
        return cls(**values)
