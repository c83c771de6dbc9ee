"""The names of options of ``format("rocketmq")``, as users write them, and advice about unknown ones. Pure.

Spark gives option names in lower case, and those of Python are often written with underscores: both are ignored, so
that `startingOffsets`, `startingoffsets` and `starting_offsets` are one option. `rocketmq.access_key` is refused,
because plans of Spark would show its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

import attrs

from rocketpy.errors import ConfigError

__all__ = ["CLIENT_PREFIX", "SECRETS", "OptionNames", "as_option", "folded"]

CLIENT_PREFIX: Final = "rocketmq."
"""Options with this prefix are settings of the client."""

_HIDDEN_BY_SPARK: Final = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Spark hides the values of options in whose names this is found: the default of spark.sql.redaction.options.regex
and of spark.redaction.regex."""


def folded(name: str) -> str:
    """An option name for comparing."""
    return name.replace("_", "").lower()


def as_option(setting: str) -> str:
    """The name of the option for a setting of the client, as the documentation writes it."""
    first, *others = setting.split("_")
    return CLIENT_PREFIX + first + "".join(map(str.capitalize, others))


SECRETS: Final[Mapping[str, str]] = {folded(name): name for name in ("access_key", "secret_key", "security_token")}
"""Client settings whose values are never shown, by folded names."""


def _by_folded_name(names: tuple[str, ...]) -> dict[str, str]:
    return {folded(name): name for name in names}


@attrs.frozen
class OptionNames:
    """The options of the source, or of the writer.

    Attributes:
        owner: Whose options they are, for errors.
        known: Every option by its folded name, as the documentation writes it.
        elsewhere: What stands for other names, by folded names.
    """

    owner: str
    known: Mapping[str, str] = attrs.field(converter=_by_folded_name)
    elsewhere: Mapping[str, str]

    def sorted_out(self, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The options by their documented names, and the client's settings by folded names, without their prefix.

        Raises:
            ConfigError: a name is no option, two names are the same one, or Spark would show the value of a secret.
        """
        own: dict[str, str] = {}
        client: dict[str, str] = {}
        for written, value in options.items():
            key = folded(written)
            if key.startswith(CLIENT_PREFIX):
                into, name = client, key.removeprefix(CLIENT_PREFIX)
                _check_hidden(written, name)
            elif key in self.known:
                into, name = own, self.known[key]
            else:
                raise ConfigError(f"the {self.owner} has no option {written!r:.100}{self._advice(key)}")
            if name in into:
                raise ConfigError(f"the option {written!r:.100} is given twice, in two spellings")
            into[name] = str(value)
        return own, client

    def _advice(self, key: str) -> str:
        if key in self.elsewhere:
            return f": {self.elsewhere[key]}"
        if key in SECRETS:
            return f": use {as_option(SECRETS[key])}"
        if key.startswith("kafka."):
            return ": settings of the client have the prefix rocketmq., such as rocketmq.accessKey"
        near = get_close_matches(key, self.known, n=3, cutoff=0.6)
        return f": did you mean {' or '.join(self.known[each] for each in near)}?" if near else ""


def _check_hidden(written: str, name: str) -> None:
    """Refuse a spelling by which Spark does not recognize a secret."""
    if name in SECRETS and not _HIDDEN_BY_SPARK.search(written):
        raise ConfigError(
            f"give the option {written!r:.100} as {as_option(SECRETS[name])}: plans and logs of Spark would show its "
            "value, because Spark does not recognize a secret by this spelling"
        )
