"""The table of all keys: what each key of Apache's 4.9.7 and 5.3.3 does in a broker and a name server. Pure.

The readers of files, the documentation and the tests all use this table. A key is honoured if it has a field and is not
refused. A key that is not in the table is not one of Apache's, and probably misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy_broker_sim.config.broker import BrokerConfig
from rocketpy_broker_sim.config.keys import key_of, text_of
from rocketpy_broker_sim.config.kinds import OWN
from rocketpy_broker_sim.config.metrics import MetricsConfig
from rocketpy_broker_sim.config.namesrv import NamesrvConfig
from rocketpy_broker_sim.config.refused import BROKER_REFUSED, NAMESRV_REFUSED, Refusal
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.store import MessageStoreConfig
from rocketpy_broker_sim.config.without_effect import BROKER_WITHOUT_EFFECT, NAMESRV_WITHOUT_EFFECT

if TYPE_CHECKING:
    from attrs import AttrsInstance

__all__ = ["OTHER_DEFAULTS", "KeyRow", "KeyStatus", "broker_keys", "closest_key", "namesrv_keys"]

OTHER_DEFAULTS: Mapping[str, str] = {
    "bindAddress": "this machine only; a file of Apache's without the key listens everywhere, as Java does",
    "brokerIP1": "empty stands for the address that the broker listens on",
    "brokerName": "with a file of Apache's without the key, the host name, as in Java",
    "flushCommitLogLeastPages": "no message waits for others: a power loss takes at most one interval and one flush",
    "kvConfigPath": "in memory; for a process, ~/namesrv/kvConfig.json, as in Java",
    "listenPort": "any free port inside a program; with a file, 10911 and 9876, as in Java",
    "metricsPromExporterHost": "empty stands for this machine only, where Java listens on every interface",
    "namesrvAddr": "if empty, the broker does not register; the environment variable NAMESRV_ADDR counts, as in Java",
    "shutdownWaitTimeSeconds": "so that a stop takes no longer than 5 s in all, whatever peers do",
    "storePathCommitLog": "empty stands for the directory commitlog in the root, as in Java",
}
"""Why a default is not Java's, by key."""


class KeyStatus(StrEnum):
    """How a key is treated."""

    HONOURED = "honoured"
    WITHOUT_EFFECT = "accepted without effect"
    REFUSED = "refused"


@attrs.frozen
class KeyRow:
    """The row of one key."""

    key: str
    status: KeyStatus
    reason: str = ""
    """Why it is refused or has no effect."""
    default: str | None = None
    """Our default as text in a file; None if the key has no field."""
    field: attrs.Attribute[Any] | None = None
    """The field that holds its value."""

    @property
    def own(self) -> bool:
        """Whether it is a setting of ours that Java does not have."""
        return self.field is not None and OWN in self.field.metadata


@cache  # every server that starts asks
def broker_keys() -> Mapping[str, KeyRow]:
    """The rows for a broker's file, by key."""
    kinds = (BrokerConfig, MessageStoreConfig, MetricsConfig, NettyServerConfig)
    return _rows(kinds, BROKER_REFUSED, BROKER_WITHOUT_EFFECT)


@cache
def namesrv_keys() -> Mapping[str, KeyRow]:
    """The rows for a name server's file, by key."""
    return _rows((NamesrvConfig, MetricsConfig, NettyServerConfig), NAMESRV_REFUSED, NAMESRV_WITHOUT_EFFECT)


def _rows(
    kinds: Iterable[type[AttrsInstance]], refused: Mapping[str, Refusal], without_effect: Mapping[str, str]
) -> Mapping[str, KeyRow]:
    rows = {key: KeyRow(key, KeyStatus.WITHOUT_EFFECT, reason) for key, reason in without_effect.items()}
    rows |= {key: KeyRow(key, KeyStatus.REFUSED, refusal.what) for key, refusal in refused.items()}
    for kind in kinds:
        fresh = kind()
        for field in attrs.fields(kind):
            value = getattr(fresh, field.name)
            if not attrs.has(type(value)):
                key = key_of(field)
                row = rows.get(key) or KeyRow(key, KeyStatus.HONOURED)
                rows[key] = attrs.evolve(row, default=None if value is None else text_of(value), field=field)
    return MappingProxyType(dict(sorted(rows.items())))


def closest_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that is most similar to a misspelt one; None if none is similar."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(key.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None
