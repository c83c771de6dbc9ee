"""Which broker names belong to which clusters, and the filter servers of brokers: what lives as long as a broker does.

A name belongs to a cluster while a live broker of that cluster has it. So there are never more of these pairs than live
brokers, whatever names and clusters one process goes through. Plays the part of clusterAddrTable and filterServerTable
in RouteInfoManager.
"""

from __future__ import annotations

from collections import Counter, UserDict
from collections.abc import Iterable

from rocketpy_broker_sim.namesrv.identity import BrokerKey

__all__ = ["Clusters", "FilterServers"]

_BYTES_A_FILTER_SERVER = 96


class Clusters:
    """The clusters.

    Attributes:
        names: Cluster -> the names of its brokers.
    """

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self._of: dict[str, set[str]] = {}
        self._live: Counter[tuple[str, str]] = Counter()

    def join(self, cluster: str, name: str, *, is_new: bool) -> None:
        """A broker of a cluster lives under a name.

        Args:
            cluster: the cluster.
            name: the name.
            is_new: whether it did not live before.
        """
        self.names.setdefault(cluster, set()).add(name)
        self._of.setdefault(name, set()).add(cluster)
        self._live[cluster, name] += is_new

    def leave(self, cluster: str, name: str) -> None:
        """A broker of a cluster that lived under a name is gone."""
        self._live[cluster, name] -= 1
        if not self._live[cluster, name]:
            del self._live[cluster, name]
            self._part(cluster, name)

    def forget(self, name: str) -> None:
        """No broker has a name any more, in any cluster."""
        for cluster in list(self._of.get(name, ())):
            self._part(cluster, name)

    def _part(self, cluster: str, name: str) -> None:
        for table, key, value in ((self.names, cluster, name), (self._of, name, cluster)):
            members = table.get(key, set())
            members.discard(value)
            if not members:
                table.pop(key, None)


class FilterServers(UserDict[BrokerKey, tuple[str, ...]]):
    """Addresses of the filter servers of each broker.

    Attributes:
        bytes: What they are reckoned to take.
    """

    def __init__(self) -> None:
        self.bytes = 0
        super().__init__()

    @staticmethod
    def weigh(addresses: Iterable[str]) -> int:
        """Bytes that the filter servers of a broker are reckoned to take."""
        return sum(_BYTES_A_FILTER_SERVER + len(address) for address in addresses)

    def __setitem__(self, key: BrokerKey, addresses: tuple[str, ...]) -> None:
        """Those of a broker are these."""
        self.bytes += self.weigh(addresses) - self.weigh(self.get(key, ()))
        super().__setitem__(key, addresses)

    def __delitem__(self, key: BrokerKey) -> None:
        """A broker has none any more."""
        self.bytes -= self.weigh(self[key])
        super().__delitem__(key)
