"""Finds the brokers for a change that is restricted to a cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from rocketpy.sync import Admin

__all__ = ["in_cluster"]


def in_cluster(
    admin: Admin, cluster: str, brokers: Collection[str], holders: Collection[str], what: str
) -> tuple[str, ...]:
    """The masters of a cluster that hold something.

    Args:
        admin: An open Admin.
        cluster: The cluster.
        brokers: The brokers that were given too; there must be none.
        holders: The names of the brokers that hold it, in any cluster.
        what: What they hold, for errors.

    Raises:
        ConfigError: Brokers were given too, or the cluster does not hold it.
        RocketMQError: There is no such cluster, or no name server answered.
    """
    if brokers:
        raise ConfigError("pass --broker or --cluster, not both")
    found = tuple(each.name for each in admin.brokers.list(cluster=cluster) if each.is_master and each.name in holders)
    if not found:
        raise ConfigError(f"no broker of the cluster {cluster} holds {what}: nothing was changed")
    return found
