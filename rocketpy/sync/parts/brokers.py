"""The brokers of a cluster: `admin.brokers`."""

from __future__ import annotations

from rocketpy.admin import brokers
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Brokers"]


class Brokers(Part[brokers.Brokers]):
    """The brokers of a cluster: ``admin.brokers``."""

    __slots__ = ()

    list = blocking(brokers.Brokers.list)
    config = blocking(brokers.Brokers.config)
    runtime = blocking(brokers.Brokers.runtime)
    runtimes = blocking(brokers.Brokers.runtimes)
    stats = blocking(brokers.Brokers.stats)
    replication = blocking(brokers.Brokers.replication)
    update_config = blocking(brokers.Brokers.update_config)
    set_writable = blocking(brokers.Brokers.set_writable)
    delete_expired_files = blocking(brokers.Brokers.delete_expired_files)
    delete_expired_queues = blocking(brokers.Brokers.delete_expired_queues)
    delete_unused_queues = blocking(brokers.Brokers.delete_unused_queues)
