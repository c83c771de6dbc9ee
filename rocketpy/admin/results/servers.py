"""What the calls of Admin about brokers and name servers return. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

import attrs

from rocketpy.reprs import Short

__all__ = ["BrokerEntry", "BrokerRuntime", "BrokerStats", "ServerConfig", "StatsSpan"]


@attrs.frozen(kw_only=True, repr=False)
class BrokerEntry(Short):
    """A broker that is registered with the name servers."""

    name: str
    """The name, which a master and its slaves share."""
    cluster: str
    broker_id: int
    """0 for a master; slaves count from 1."""
    address: str
    """Host and port of the broker."""

    @property
    def is_master(self) -> bool:
        """Whether it is a master, which stores messages."""
        return self.broker_id == 0


@attrs.frozen(kw_only=True, repr=False)
class ServerConfig(Short):
    """The settings of a broker or a name server: ``config["flushDiskType"]``."""

    server: str
    """The broker as it was passed to the call, by name or address, or the address of the name server."""
    settings: Mapping[str, str]
    """Values as text, by Java's keys."""

    def __getitem__(self, key: str) -> str:
        """One setting.

        Raises:
            KeyError: the server has no such setting.
        """
        return self.settings[key]


@attrs.frozen(kw_only=True, repr=False)
class BrokerRuntime(Short):
    """The state of a broker. Figures that the answer lacks, or that are not numbers, are None."""

    _shown_first: ClassVar[tuple[str, ...]] = ("broker", "version", "put_rate", "get_rate", "disk_used")

    broker: str
    """The broker as it was passed to the call, by name or address."""
    version: str
    """Its version, such as "V5_3_3"."""
    started_at: datetime | None
    put_rate: float | None
    """Messages a second that were stored, over the last ten seconds."""
    get_rate: float | None
    """Messages a second that consumers received, over the last ten seconds."""
    puts_today: int | None
    """Messages that were stored since midnight, by the clock of the broker."""
    gets_today: int | None
    """Messages that consumers received since midnight, by the clock of the broker."""
    disk_used: float | None
    """How full the disk of its commit log is, from 0.0 to 1.0."""
    commit_log_begin: int | None
    """Position, in bytes, of the beginning of its commit log."""
    commit_log_end: int | None
    """Position, in bytes, of the end of its commit log."""
    dispatch_behind: int | None
    """Bytes of the commit log that consumers cannot read yet."""
    oldest_message_at: datetime | None
    """When its oldest message was stored."""
    values: Mapping[str, str]
    """The whole answer as text, by Java's keys."""


@attrs.frozen(kw_only=True, repr=False)
class StatsSpan(Short):
    """A statistic over a span of time."""

    sum: int = 0
    rate: float = 0.0
    """The sum per second."""
    average: float = 0.0
    """The sum divided by how many times something was counted."""


@attrs.frozen(kw_only=True, repr=False)
class BrokerStats(Short):
    """A statistic of a broker."""

    broker: str
    """The broker as it was passed to the call, by name or address."""
    name: str
    """Which statistic, such as TOPIC_PUT_NUMS."""
    key: str
    """A topic, or "topic@group"."""
    minute: StatsSpan
    """Over the last minute."""
    hour: StatsSpan
    """Over the last hour."""
    day: StatsSpan
    """Over the last day."""
