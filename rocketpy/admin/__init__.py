"""Administration of topics, groups, offsets, messages, clients, brokers and name servers.

`Admin` is the trio surface; `rocketpy.sync.Admin` and `rocketpy.aio.Admin` have the same calls, which return the same
types.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketpy.admin.admin import Admin
    from rocketpy.admin.brokers import Brokers
    from rocketpy.admin.consumers import Consumers
    from rocketpy.admin.dead_letters import DeadLetterReplay
    from rocketpy.admin.groups import Groups
    from rocketpy.admin.messages import Messages
    from rocketpy.admin.name_servers import NameServers
    from rocketpy.admin.offsets import Offsets
    from rocketpy.admin.producers import Producers
    from rocketpy.admin.results.clients import (
        ConnectedClient,
        ConnectedConsumers,
        ConsumerState,
        DirectConsumption,
        DirectOutcome,
        GroupSubscription,
        MemberOffset,
        MessageTrack,
        QueueState,
        TopicState,
        TrackStatus,
    )
    from rocketpy.admin.results.entries import QueueEntries, QueueEntry
    from rocketpy.admin.results.groups import GroupLag, GroupSettings, QueueLag, QueueOffset
    from rocketpy.admin.results.replication import BrokerReplication, SlaveReplication
    from rocketpy.admin.results.servers import BrokerEntry, BrokerRuntime, BrokerStats, ServerConfig, StatsSpan
    from rocketpy.admin.results.topics import (
        GroupTraffic,
        QueueStats,
        TopicOnBroker,
        TopicRoute,
        TopicSettings,
        TopicStats,
        TopicTraffic,
    )
    from rocketpy.admin.topics import Topics

__all__ = [
    "Admin",
    "BrokerEntry",
    "BrokerReplication",
    "BrokerRuntime",
    "BrokerStats",
    "Brokers",
    "ConnectedClient",
    "ConnectedConsumers",
    "ConsumerState",
    "Consumers",
    "DeadLetterReplay",
    "DirectConsumption",
    "DirectOutcome",
    "GroupLag",
    "GroupSettings",
    "GroupSubscription",
    "GroupTraffic",
    "Groups",
    "MemberOffset",
    "MessageTrack",
    "Messages",
    "NameServers",
    "Offsets",
    "Producers",
    "QueueEntries",
    "QueueEntry",
    "QueueLag",
    "QueueOffset",
    "QueueState",
    "QueueStats",
    "ServerConfig",
    "SlaveReplication",
    "StatsSpan",
    "TopicOnBroker",
    "TopicRoute",
    "TopicSettings",
    "TopicState",
    "TopicStats",
    "TopicTraffic",
    "Topics",
    "TrackStatus",
]

_HOMES = {
    "admin": ("Admin",),
    "brokers": ("Brokers",),
    "consumers": ("Consumers",),
    "dead_letters": ("DeadLetterReplay",),
    "groups": ("Groups",),
    "messages": ("Messages",),
    "name_servers": ("NameServers",),
    "offsets": ("Offsets",),
    "producers": ("Producers",),
    "topics": ("Topics",),
    "results.clients": (
        "ConnectedClient",
        "ConnectedConsumers",
        "ConsumerState",
        "DirectConsumption",
        "DirectOutcome",
        "GroupSubscription",
        "MemberOffset",
        "MessageTrack",
        "QueueState",
        "TopicState",
        "TrackStatus",
    ),
    "results.entries": ("QueueEntries", "QueueEntry"),
    "results.groups": ("GroupLag", "GroupSettings", "QueueLag", "QueueOffset"),
    "results.replication": ("BrokerReplication", "SlaveReplication"),
    "results.servers": ("BrokerEntry", "BrokerRuntime", "BrokerStats", "ServerConfig", "StatsSpan"),
    "results.topics": (
        "GroupTraffic",
        "QueueStats",
        "TopicOnBroker",
        "TopicRoute",
        "TopicSettings",
        "TopicStats",
        "TopicTraffic",
    ),
}
"""Where the names live. They load on first use, so that one part does not load the others."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rocketpy.admin' has no attribute {name!r}")
    value = getattr(import_module(f"rocketpy.admin.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
