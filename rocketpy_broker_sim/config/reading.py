"""Settings from the files that `mqbroker -c` and `mqnamesrv -c` read, and from keywords. Pure.

If a file asks for something that this project does not have, the start fails with an error that names the key, because
somebody may rely on it. Keys that have no effect here are accepted; keys that no release knows lead to a warning.
Errors name file, line and key.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config.broker import BROKER_PORT, BrokerConfig
from rocketpy_broker_sim.config.keys import fields_by_key, read_value, set_value, text_of
from rocketpy_broker_sim.config.metrics import MetricsConfig, MetricsExporterType
from rocketpy_broker_sim.config.namesrv import NAMESRV_PORT, NamesrvConfig
from rocketpy_broker_sim.config.properties import Entry, parse_entries
from rocketpy_broker_sim.config.refused import BROKER_REFUSED, NAMESRV_REFUSED, NOT_OF_SERVERS, Refusal, refuse
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.table import KeyRow, broker_keys, closest_key, namesrv_keys

__all__ = ["broker_config", "namesrv_config", "read_broker_properties", "read_namesrv_properties"]

_MOST_UNKNOWN = 20  # more warnings would not help, and each key is compared with all known ones
_EVERYWHERE = "0.0.0.0"  # Java's default, kept for Java's files and warned about


# --- from a file ---------------------------------------------------------------------------------------


def read_broker_properties(text: str, source: str = "", *, serves: bool = True) -> tuple[BrokerConfig, list[str]]:
    """A broker's settings from a properties text, and warnings for the operator.

    Args:
        text: the text.
        source: name of the file, for errors and warnings.
        serves: whether a broker will listen. If not, as in tools that only read its store, there is no warning about
            the address.

    Raises:
        ConfigError: a value is not usable, or the file asks for something that this broker does not have.
    """
    server = NettyServerConfig(bind_address=_EVERYWHERE, listen_port=BROKER_PORT)
    config = BrokerConfig(broker_name=_host_name(), server=server)
    reader = _Reader(
        source, [config, config.store, config.metrics, config.server], {**BROKER_REFUSED, **NOT_OF_SERVERS}
    )
    reader.read(text, broker_keys())
    return config, reader.warnings + (_exposure(config.server) + _metrics(config.metrics) if serves else [])


def read_namesrv_properties(text: str, source: str = "") -> tuple[NamesrvConfig, list[str]]:
    """A name server's settings from a properties text, and warnings for the operator.

    Args:
        text: the text.
        source: name of the file, for errors and warnings.

    Raises:
        ConfigError: a value is not usable, or the file asks for something that this name server does not have.
    """
    server = NettyServerConfig(bind_address=_EVERYWHERE, listen_port=NAMESRV_PORT)
    config = NamesrvConfig(server=server)
    reader = _Reader(source, [config, config.metrics, config.server], {**NAMESRV_REFUSED, **NOT_OF_SERVERS})
    reader.read(text, namesrv_keys())
    return config, reader.warnings + _exposure(config.server) + _metrics(config.metrics)


def _host_name() -> str:
    """The host name, which is the broker's name if its file has none."""
    name = platform.node().partition(".")[0]
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else "DEFAULT_BROKER"


def _exposure(server: NettyServerConfig) -> list[str]:
    if server.bind_address not in (_EVERYWHERE, "::"):
        return []
    return ["listening on every interface without credentials: set bindAddress=127.0.0.1 to serve this machine only"]


def _metrics(metrics: MetricsConfig) -> list[str]:
    """What an operator should know of the metrics."""
    kind = metrics.metrics_exporter_type
    if kind in (MetricsExporterType.OTLP_GRPC, MetricsExporterType.LOG):
        return [f"metricsExporterType={kind.name} exports nothing here: with PROM, Prometheus can fetch the metrics"]
    if kind is MetricsExporterType.PROM and metrics.metrics_prom_exporter_host in (_EVERYWHERE, "::"):
        return ["metrics are open to every machine that can connect: set metricsPromExporterHost=127.0.0.1"]
    return []


class _Reader:
    """Sets the fields for the entries of one file, and collects warnings for the operator."""

    def __init__(self, source: str, parts: list[Any], refused: Mapping[str, Refusal]) -> None:
        self.warnings: list[str] = []
        self._source = source
        self._refused = refused
        self._owners = {key: (part, *field) for part in parts for key, field in fields_by_key(type(part)).items()}

    def read(self, text: str, known: Mapping[str, object]) -> None:
        """Read a text.

        Raises:
            ConfigError: a value is refused; the error names the file, the line and the key.
        """
        try:
            entries = parse_entries(text)
        except ConfigError as exc:
            raise ConfigError(f"{self._source}: {exc}" if self._source else str(exc)) from exc
        for key, entry in entries.items():
            try:
                self._take(key, entry.text)
            except ConfigError as exc:
                raise ConfigError(f"{self._place(entry)}{exc}") from exc
        self._note_unknown([(key, entry) for key, entry in entries.items() if key not in known], known)

    def _note_unknown(self, unknown: list[tuple[str, Entry]], known: Mapping[str, object]) -> None:
        for key, entry in unknown[:_MOST_UNKNOWN]:
            self.warnings.append(f"{self._place(entry)}unknown key {key[:64]!r} is ignored{_meant(key, known)}")
        if len(unknown) > _MOST_UNKNOWN:
            self.warnings.append(
                f"{len(unknown) - _MOST_UNKNOWN} more unknown keys are ignored: is this a configuration file?"
            )

    def _take(self, key: str, text: str) -> None:
        refuse(key, text, self._refused)
        if key in self._owners and (text or key not in self._refused):
            part, name, kind = self._owners[key]
            set_value(part, name, key, read_value(key, text, kind))

    def _place(self, entry: Entry) -> str:
        return f"{self._source}, line {entry.line}: " if self._source else f"line {entry.line}: "


def _meant(key: str, known: Mapping[str, object]) -> str:
    meant = closest_key(key, known)
    return f": did you mean {meant}?" if meant else ": no release from 4.9.7 to 5.3.3 has it"


# --- from keywords -------------------------------------------------------------------------------------


def broker_config(**settings: Any) -> BrokerConfig:
    """A broker's settings from flat keywords: ``broker_config(broker_name="b", flush_disk_type="SYNC_FLUSH")``.

    Raises:
        ConfigError: there is no such setting, or its value is not usable.
    """
    config = BrokerConfig()
    _spread([config, config.store, config.metrics, config.server], settings, broker_keys(), BROKER_REFUSED)
    return config


def namesrv_config(**settings: Any) -> NamesrvConfig:
    """A name server's settings from flat keywords.

    Raises:
        ConfigError: there is no such setting, or its value is not usable.
    """
    config = NamesrvConfig()
    _spread([config, config.metrics, config.server], settings, namesrv_keys(), NAMESRV_REFUSED)
    return config


def _spread(
    parts: list[Any], settings: Mapping[str, Any], rows: Mapping[str, KeyRow], refused: Mapping[str, Refusal]
) -> None:
    owners = {name: (part, key, kind) for part in parts for key, (name, kind) in fields_by_key(type(part)).items()}
    for name, value in settings.items():
        if name not in owners:
            raise ConfigError(f"there is no setting {name!r}{_why_not(name, owners, rows)}")
        part, key, kind = owners[name]
        refuse(key, value if isinstance(value, str) else text_of(value), refused)
        set_value(part, name, key, read_value(key, value, kind) if isinstance(value, str) else value)


def _why_not(name: str, names: Iterable[str], rows: Mapping[str, KeyRow]) -> str:
    """Advice about a name that is not a setting: it may be a key of a file, or one that has no effect here."""
    folded = name.replace("_", "").lower()
    row = next((row for key, row in rows.items() if key.lower() == folded), None)
    if row is None:
        meant = closest_key(name, names)
        return f": did you mean {meant}?" if meant else ""
    return f": it is called {row.field.name}" if row.field is not None else f": {row.reason}"
