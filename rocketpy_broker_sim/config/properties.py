"""The text of java.util.Properties as files have it: the same as on the wire, with errors of a setting. Pure."""

from __future__ import annotations

from rocketpy.errors import ConfigError, RemoteProtocolError
from rocketpy.wire.properties_text import Entry, format_properties, read_entries

__all__ = ["Entry", "format_properties", "parse_entries", "parse_properties"]


def parse_entries(text: str) -> dict[str, Entry]:
    """Every key with its value and its line; the last of a doubled key wins.

    Raises:
        ConfigError: a character is escaped in a way that is none.
    """
    try:
        return read_entries(text)
    except RemoteProtocolError as exc:
        raise ConfigError(str(exc)) from exc


def parse_properties(text: str) -> dict[str, str]:
    """Every key with its value.

    Raises:
        ConfigError: a character is escaped in a way that is none.
    """
    return {key: entry.text for key, entry in parse_entries(text).items()}
