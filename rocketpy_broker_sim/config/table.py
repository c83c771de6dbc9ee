"""The table of all keys: what a broker and a name server make of each key of Apache's 4.9.7 and 5.3.3. Pure.

One place says it for the readers of files, for the documentation and for the tests: a key is honoured when there is a
field for it and no refusal; a key in no row is none of Apache's, probably misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy_broker_sim.config.broker import BrokerConfig
from rocketpy_broker_sim.config.keys import key_of, text_of
from rocketpy_broker_sim.config.kinds import OWN
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
    "brokerIP1": "empty stands for the address that is listened on",
    "brokerName": "a file of Apache's without the key takes the name of the machine, as Java does",
    "flushCommitLogLeastPages": "no message waits for others: the power takes what came in an interval and one flush",
    "kvConfigPath": "in memory; as a process in ~/namesrv/kvConfig.json, as Java does",
    "listenPort": "any free port inside a program; 10911 and 9876 under a file, as Java does",
    "namesrvAddr": "empty registers nowhere; the environment variable NAMESRV_ADDR counts, as with Java",
    "shutdownWaitTimeSeconds": "so that a stop takes no longer than 5 s in all, whatever peers do",
    "storePathCommitLog": "empty stands for the folder commitlog in the root, as Java's does",
}
"""Why a default is not Java's, by key."""


class KeyStatus(StrEnum):
    """What becomes of a key."""

    HONOURED = "honoured"
    WITHOUT_EFFECT = "accepted without effect"
    REFUSED = "refused"


@attrs.frozen
class KeyRow:
    """What is known of one key."""

    key: str
    status: KeyStatus
    reason: str = ""
    """Why it is refused or has no effect."""
    default: str | None = None
    """Our default as a file would say it; None where nothing is kept of the key."""
    field: attrs.Attribute[Any] | None = None
    """The field that holds its value."""

    @property
    def own(self) -> bool:
        """Whether it is one of ours, that Java does not have."""
        return self.field is not None and OWN in self.field.metadata


def broker_keys() -> dict[str, KeyRow]:
    """The rows of a broker's file, by key."""
    kinds = (BrokerConfig, MessageStoreConfig, NettyServerConfig)
    return _rows(kinds, BROKER_REFUSED, BROKER_WITHOUT_EFFECT)


def namesrv_keys() -> dict[str, KeyRow]:
    """The rows of a name server's file, by key."""
    return _rows((NamesrvConfig, NettyServerConfig), NAMESRV_REFUSED, NAMESRV_WITHOUT_EFFECT)


def _rows(
    kinds: Iterable[type[AttrsInstance]], refused: Mapping[str, Refusal], without_effect: Mapping[str, str]
) -> dict[str, KeyRow]:
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
    return dict(sorted(rows.items()))


def closest_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that somebody may have meant, None when none is near."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(key.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None
