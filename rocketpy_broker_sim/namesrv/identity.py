"""Who a broker says it is."""

from __future__ import annotations

import attrs

__all__ = ["BrokerKey", "Identity"]

BrokerKey = tuple[str, str]
"""Cluster and address: one broker process."""


@attrs.frozen(kw_only=True)
class Identity:
    """Who a broker says it is."""

    cluster: str
    broker_name: str
    address: str
    broker_id: int

    def __str__(self) -> str:
        """Short form for logs; names from the network are escaped."""
        return f"broker {self.broker_name!r:.256} {self.broker_id} of {self.cluster!r:.256} at {self.address!r:.256}"

    @property
    def key(self) -> BrokerKey:
        """What its liveness is kept under."""
        return (self.cluster, self.address)

    @property
    def own_topics(self) -> frozenset[str]:
        """Topics of the system that are named after the broker and its cluster, whose names may be host names."""
        return frozenset(
            (
                self.cluster,
                self.broker_name,
                f"{self.cluster}_REPLY_TOPIC",
                f"rmq_sys_REVIVE_LOG_{self.cluster}",
                f"rmq_sys_SYNC_BROKER_MEMBER_{self.broker_name}",
            )
        )
