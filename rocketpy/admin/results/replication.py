"""What `Admin.brokers.replication` returns. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import attrs

from rocketpy.reprs import Short

__all__ = ["BrokerReplication", "SlaveReplication"]


@attrs.frozen(kw_only=True, repr=False)
class SlaveReplication(Short):
    """A slave, as its master sees it."""

    address: str
    """Host and port from which the slave is connected."""
    acknowledged: int
    """Position, in bytes, up to which the slave has the commit log."""
    behind: int
    """Bytes of the commit log that the slave does not have yet."""
    is_in_sync: bool
    """Whether the master counts it as in step."""
    byte_rate: int
    """Bytes a second that the master sends to it."""
    sent_from: int
    """Position, in bytes, of what is sent to it now."""


@attrs.frozen(kw_only=True, repr=False)
class BrokerReplication(Short):
    """How a master and its slaves keep up with each other, as one of them sees it."""

    _shown_first: ClassVar[tuple[str, ...]] = ("broker", "is_master", "commit_log_end", "slaves")

    broker: str
    """The broker as it was passed to the call, by name or address."""
    is_master: bool
    commit_log_end: int
    """Position, in bytes, of the end of its commit log."""
    slaves: tuple[SlaveReplication, ...] = ()
    """The slaves that are connected to it, sorted by address, if it is a master."""
    master: str | None = None
    """Host and port of its master, if it is a slave that has one."""
    master_flushed: int | None = None
    """Position, in bytes, up to which its master has flushed the commit log, if it is a slave."""
    byte_rate: int | None = None
    """Bytes a second that it receives, if it is a slave."""
    last_read_at: datetime | None = None
    """When it last received something from its master, if it is a slave."""
    last_written_at: datetime | None = None
    """When it last sent something to its master, if it is a slave."""

    @property
    def in_sync(self) -> int:
        """The number of slaves that the master counts as in step."""
        return sum(each.is_in_sync for each in self.slaves)
