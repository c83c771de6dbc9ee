"""The text of java.util.Properties in files: the same format as on the wire, but errors are ConfigErrors. Pure."""

from __future__ import annotations

from rocketpy.errors import ConfigError, RemoteProtocolError
from rocketpy.wire.properties_text import Entry, format_properties, read_entries

__all__ = ["Entry", "format_properties", "parse_entries", "parse_properties"]


def parse_entries(text: str) -> dict[str, Entry]:
    """All keys with their values and lines. If a key occurs twice, the last one wins.

    Raises:
        ConfigError: the text has an invalid escape sequence.
    """
    try:
        return read_entries(text)
    except RemoteProtocolError as exc:
        raise ConfigError(str(exc)) from exc


def parse_properties(text: str) -> dict[str, str]:
    """All keys with their values.

    Raises:
        ConfigError: the text has an invalid escape sequence.
    """
    return {key: entry.text for key, entry in parse_entries(text).items()}
