"""Settings: what is sent to change those of a server, and what the server has made of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.wire.codes import ResponseCode

__all__ = ["check_taken", "texts"]

_NOT_IN_KEYS = "\r\n\\=: \t\f"
"""Characters that would end a key of a properties text."""
_COMMENT = "#!"
"""Characters that make a line of a properties text a comment, which a server skips."""


def texts(settings: object) -> dict[str, str]:
    """Return settings as text, as in a properties file.

    Raises:
        ConfigError: there are none, or a key or a value cannot be used.
    """
    if not isinstance(settings, Mapping):
        raise ConfigError(f"settings must be a mapping of keys to values, not {settings!r:.100}")
    found: dict[str, str] = {}
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        is_setting = isinstance(key, str) and isinstance(value, str | int | float)
        if not is_setting or not _is_key(key) or set(text) & set("\r\n"):
            raise ConfigError(
                f"a setting is a key with a string, number or bool on one line, not {key!r:.50}={value!r:.50}"
            )
        found[key] = text
    if not found:
        raise ConfigError("no setting is given: there is nothing to change")
    return found


def _is_key(key: str) -> bool:
    return key != "" and key[0] not in _COMMENT and key.isprintable() and not set(key) & set(_NOT_IN_KEYS)


def check_taken(wanted: Mapping[str, str], found: Mapping[str, str], address: str) -> None:
    """Compare settings that were changed with those that a server has afterwards.

    Raises:
        BrokerError: the server has no such setting, or still has another value.
    """
    ignored = [key for key, value in wanted.items() if not _is_same(value, found.get(key))]
    if ignored:
        key = ignored[0]
        now = f"it has {key}={found[key]:.200}" if key in found else "it has no such setting"
        more = f"; the same goes for {', '.join(ignored[1:6])}" if len(ignored) > 1 else ""
        remark = f"the server accepted {key}={wanted[key]:.200}, and ignored it: {now}{more}"
        raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, remark, address=address)


def _is_same(wanted: str, found: str | None) -> bool:
    """Whether two texts are the same value: servers write numbers and bools in their own way."""
    if found is None:
        return False
    one, other = wanted.strip().lower(), found.strip().lower()
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False
