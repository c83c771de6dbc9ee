"""Settings from the files that `mqbroker -c` and `mqnamesrv -c` take, and from keywords. Pure.

What a file may ask for and this project cannot do is refused by name at the start, never ignored: somebody relies on
it. Keys without a meaning here are accepted; keys that no release knows are reported. Errors name file, line and key.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config.broker import BROKER_PORT, BrokerConfig
from rocketpy_broker_sim.config.keys import fields_by_key, read_value, set_value, text_of
from rocketpy_broker_sim.config.namesrv import NAMESRV_PORT, NamesrvConfig
from rocketpy_broker_sim.config.properties import Entry, parse_entries
from rocketpy_broker_sim.config.refused import BROKER_REFUSED, NAMESRV_REFUSED, NOT_OF_SERVERS, Refusal, refuse
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.table import KeyRow, broker_keys, closest_key, namesrv_keys

__all__ = ["broker_config", "namesrv_config", "read_broker_properties", "read_namesrv_properties"]

_MOST_UNKNOWN = 20  # more of them say nothing new, and each is compared with all that are known
_EVERYWHERE = "0.0.0.0"  # Java's default, kept for Java's files and warned about


# --- from a file ---------------------------------------------------------------------------------------


def read_broker_properties(text: str, source: str = "", *, serves: bool = True) -> tuple[BrokerConfig, list[str]]:
    """A broker's settings from a properties text, with what an operator should be told.

    Args:
        text: the text.
        source: name of the file, for errors and warnings.
        serves: whether a broker will listen; who only looks into its store needs no word about that.

    Raises:
        ConfigError: a value is not usable, or the file asks for what this broker cannot do.
    """
    server = NettyServerConfig(bind_address=_EVERYWHERE, listen_port=BROKER_PORT)
    config = BrokerConfig(broker_name=_host_name(), server=server)
    reader = _Reader(source, [config, config.store, config.server], {**BROKER_REFUSED, **NOT_OF_SERVERS})
    reader.read(text, broker_keys())
    return config, reader.warnings + (_exposure(config.server) if serves else [])


def read_namesrv_properties(text: str, source: str = "") -> tuple[NamesrvConfig, list[str]]:
    """A name server's settings from a properties text, with what an operator should be told.

    Args:
        text: the text.
        source: name of the file, for errors and warnings.

    Raises:
        ConfigError: a value is not usable, or the file asks for what this name server cannot do.
    """
    server = NettyServerConfig(bind_address=_EVERYWHERE, listen_port=NAMESRV_PORT)
    config = NamesrvConfig(server=server)
    reader = _Reader(source, [config, config.server], {**NAMESRV_REFUSED, **NOT_OF_SERVERS})
    reader.read(text, namesrv_keys())
    return config, reader.warnings + _exposure(config.server)


def _host_name() -> str:
    """The machine's name, which names a broker that its file does not name."""
    name = platform.node().partition(".")[0]
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else "DEFAULT_BROKER"


def _exposure(server: NettyServerConfig) -> list[str]:
    if server.bind_address not in (_EVERYWHERE, "::"):
        return []
    return ["listening on every interface without credentials: set bindAddress=127.0.0.1 to serve this machine only"]


class _Reader:
    """Puts the entries of one file where they belong, and gathers what an operator should be told."""

    def __init__(self, source: str, parts: list[Any], refused: Mapping[str, Refusal]) -> None:
        self.warnings: list[str] = []
        self._source = source
        self._refused = refused
        self._owners = {key: (part, *field) for part in parts for key, field in fields_by_key(type(part)).items()}

    def read(self, text: str, known: Mapping[str, object]) -> None:
        """Take in a text.

        Raises:
            ConfigError: with the file, the line and the key.
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
            self.warnings.append(f"{len(unknown) - _MOST_UNKNOWN} more unknown keys are ignored: is this such a file?")

    def _take(self, key: str, text: str) -> None:
        refuse(key, text, self._refused)
        if key in self._owners and (text or key not in self._refused):
            part, name, kind = self._owners[key]
            set_value(part, name, key, read_value(key, text, kind))

    def _place(self, entry: Entry) -> str:
        return f"{self._source}, line {entry.line}: " if self._source else f"line {entry.line}: "


def _meant(key: str, known: Mapping[str, object]) -> str:
    meant = closest_key(key, known)
    return f": do you mean {meant}?" if meant else ": no release from 4.9.7 to 5.3.3 has it"


# --- from keywords -------------------------------------------------------------------------------------


def broker_config(**settings: Any) -> BrokerConfig:
    """A broker's settings from flat keywords: ``broker_config(broker_name="b", flush_disk_type="SYNC_FLUSH")``.

    Raises:
        ConfigError: there is no such setting, or its value is not usable.
    """
    config = BrokerConfig()
    _spread([config, config.store, config.server], settings, broker_keys(), BROKER_REFUSED)
    return config


def namesrv_config(**settings: Any) -> NamesrvConfig:
    """A name server's settings from flat keywords.

    Raises:
        ConfigError: there is no such setting, or its value is not usable.
    """
    config = NamesrvConfig()
    _spread([config, config.server], settings, namesrv_keys(), NAMESRV_REFUSED)
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
    """What is known of a name that is no setting: it may be a key of a file, or one that has no effect here."""
    folded = name.replace("_", "").lower()
    row = next((row for key, row in rows.items() if key.lower() == folded), None)
    if row is None:
        meant = closest_key(name, names)
        return f": do you mean {meant}?" if meant else ""
    return f": it is called {row.field.name}" if row.field is not None else f": {row.reason}"
