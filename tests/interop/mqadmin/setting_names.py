"""Settings that one side alone lists: Apache's those that ours has no use for, ours those that came later. Pure.

A setting that both have, with another value, is of neither kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocketpy_broker_sim.config import as_properties, broker_config, namesrv_config
from rocketpy_broker_sim.config.refused import BROKER_REFUSED, NAMESRV_REFUSED
from rocketpy_broker_sim.config.without_effect import BROKER_WITHOUT_EFFECT, NAMESRV_WITHOUT_EFFECT
from tests.interop.config_keys import RELEASES, read_golden

__all__ = ["only_apaches", "only_ours"]


def only_apaches(*, broker: bool) -> str:
    """A form of lines with settings that ours refuses, or takes without effect."""
    tables = (BROKER_REFUSED, BROKER_WITHOUT_EFFECT) if broker else (NAMESRV_REFUSED, NAMESRV_WITHOUT_EFFECT)
    return _lines({name for table in tables for name in table})


def only_ours(version: str, *, broker: bool) -> str:
    """A form of lines with settings of ours that a release does not have."""
    own = as_properties(broker_config() if broker else namesrv_config())
    at = RELEASES.index(version)
    return _lines(own.keys() - {key.key for key in read_golden() if key.defaults[at]})


def _lines(names: Iterable[str]) -> str:
    """What a getter isX belongs to has that name where Java prints it."""
    spelled = {form for name in names for form in (name, f"is{name[:1].upper()}{name[1:]}")}
    return rf"(?:{'|'.join(map(re.escape, sorted(spelled)))}) =.*"
