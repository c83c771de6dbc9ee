"""RouteInfo: which brokers live, which queues they hold, and when they are forgotten. Pure tables without a clock.

Every change goes through here: registration, unregistration, heartbeats, expiry, write permission. `route_query` reads
the same tables. Plays the part of RouteInfoManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from rocketpy.logs import get_logger
from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.route import BrokerData, QueueData
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicQueueMappingInfo
from rocketpy.wire.sysflag import Permission
from rocketpy_broker_sim.namesrv.min_broker import MinBrokerChange, change_after_joining, change_after_leaving

__all__ = ["DEFAULT_EXPIRY_MS", "BrokerKey", "Identity", "LiveBroker", "Registered", "Registration", "RouteInfo"]

logger = get_logger(__name__)

MAX_TOPICS = 100_000
MAX_BROKERS = 10_000
"""More topics or brokers than these are refused: nobody who can reach the port may fill our memory."""

DEFAULT_EXPIRY_MS = 120_000
"""A broker that names no heartbeat timeout of its own is forgotten after this silence."""

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


@attrs.define(kw_only=True)
class LiveBroker:
    """The liveness of one broker process."""

    identity: Identity
    last_update: float
    """When it was last heard of, seconds of the monotonic clock."""
    timeout: float
    """Seconds of silence after which it is forgotten."""
    data_version: DataVersion
    connection: object
    """The connection that it registered over: when that closes, the broker is gone."""
    ha_address: str


@attrs.frozen(kw_only=True)
class Registration:
    """One REGISTER_BROKER request, taken apart."""

    identity: Identity
    ha_address: str
    zone_name: str | None
    timeout_ms: int | None
    acting_master: bool | None
    """None: the broker is too old to know acting masters."""
    topics: TopicConfigAndMappingSerializeWrapper
    filter_servers: tuple[str, ...]
    connection: object
    now: float


@attrs.frozen
class Registered:
    """What a registered broker is told: where its master is (nothing for a master)."""

    master_address: str | None = None
    ha_address: str | None = None


class RouteInfo:
    """The tables. Not thread-safe: one loop owns them.

    Args:
        on_min_broker_changed: told when the lowest id among the brokers of one name has changed.

    Attributes:
        delete_topic_with_registration: whether a topic that a registration leaves out is forgotten.
    """

    def __init__(
        self,
        *,
        delete_topic_with_registration: bool = False,
        on_min_broker_changed: Callable[[MinBrokerChange], None] = lambda change: None,
    ) -> None:
        self.queues: dict[str, dict[str, QueueData]] = {}
        """topic -> broker name -> queues."""
        self.brokers: dict[str, BrokerData] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[BrokerKey, LiveBroker] = {}
        self.filter_servers: dict[BrokerKey, tuple[str, ...]] = {}
        self.queue_mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self.delete_topic_with_registration = delete_topic_with_registration
        self._on_min_broker_changed = on_min_broker_changed

    # --- registration ----------------------------------------------------------------------------------

    def register(self, registration: Registration) -> Registered | None:
        """Take a broker's topics over. None when it is refused: outdated, or a lone topic of a stranger."""
        identity = registration.identity
        if self._is_too_much(registration):
            return None
        broker, is_new = self._broker_data(registration)
        lowers_id = identity.broker_id < min(broker.broker_addrs, default=0)
        self._forget_other_ids_of_address(broker, identity)
        if self._is_outdated(broker, registration) or self._is_lone_topic_of_stranger(broker, registration):
            self._drop_if_empty(identity)
            return None
        self._forget_former_name(identity)
        is_first = is_new or identity.broker_id not in broker.broker_addrs
        broker.broker_addrs[identity.broker_id] = identity.address
        self.clusters.setdefault(identity.cluster, set()).add(identity.broker_name)
        self._take_topics(broker, registration, is_first=is_first)
        self._mark_alive(registration)
        if lowers_id:
            self._on_min_broker_changed(change_after_joining(broker, registration.ha_address))
        return self._answer(broker, identity)

    def _is_too_much(self, registration: Registration) -> bool:
        new_topics = sum(name not in self.queues for name in registration.topics.topic_config_table)
        identity = registration.identity
        # One process may come under many names, and one name in many clusters.
        brokers = max(
            len(self.live) + (identity.key not in self.live),
            len(self.brokers) + (identity.broker_name not in self.brokers),
            len(self.clusters) + (identity.cluster not in self.clusters),
        )
        if len(self.queues) + new_topics <= MAX_TOPICS and brokers <= MAX_BROKERS:
            return False
        logger.warning("refused %s: there are too many brokers or topics already", identity)
        return True

    def _broker_data(self, registration: Registration) -> tuple[BrokerData, bool]:
        identity = registration.identity
        broker = self.brokers.get(identity.broker_name)
        is_new = broker is None
        if broker is None:
            broker = BrokerData(cluster=identity.cluster, broker_name=identity.broker_name, broker_addrs={})
            self.brokers[identity.broker_name] = broker
        broker.enable_acting_master = bool(registration.acting_master)
        broker.zone_name = registration.zone_name
        return broker, is_new

    def _forget_other_ids_of_address(self, broker: BrokerData, identity: Identity) -> None:
        """A slave that became master registers the same address under another id: keep the new one."""
        for other in [i for i, a in broker.broker_addrs.items() if a == identity.address and i != identity.broker_id]:
            del broker.broker_addrs[other]

    def _forget_former_name(self, identity: Identity) -> None:
        """A process that comes under another name is that one now: nothing would ever expire the former."""
        former = self.live.get(identity.key)
        if former is not None and former.identity.broker_name != identity.broker_name:
            self.unregister([former.identity])

    def _is_outdated(self, broker: BrokerData, registration: Registration) -> bool:
        """Two processes claim one name and id: the one with the older state loses."""
        identity = registration.identity
        old_address = broker.broker_addrs.get(identity.broker_id)
        if old_address is None or old_address == identity.address:
            return False
        old = self.live.get((identity.cluster, old_address))
        if old is None or old.data_version.state_version <= _version(registration).state_version:
            return False
        logger.warning("refused %s: a newer one lives at %r", identity, old_address)
        self.live.pop(identity.key, None)
        return True

    def _is_lone_topic_of_stranger(self, broker: BrokerData, registration: Registration) -> bool:
        """One topic alone is an update of a known broker; from a stranger it would hide all its other topics."""
        if registration.identity.broker_id in broker.broker_addrs or len(registration.topics.topic_config_table) != 1:
            return False
        logger.warning("refused %s: its first registration holds a single topic", registration.identity)
        return True

    def _drop_if_empty(self, identity: Identity) -> None:
        broker = self.brokers.get(identity.broker_name)
        if broker is not None and not broker.broker_addrs:
            del self.brokers[identity.broker_name]

    def _take_topics(self, broker: BrokerData, registration: Registration, *, is_first: bool) -> None:
        identity, topics = registration.identity, registration.topics
        is_prime_slave = (
            registration.acting_master is not None
            and identity.broker_id != 0
            and identity.broker_id == min(broker.broker_addrs)
        )
        if identity.broker_id != 0 and not is_prime_slave:
            return
        changed = is_first or self.is_changed(identity.key, _version(registration))
        if self.delete_topic_with_registration and not topics.topic_queue_mapping_info_map:
            self._remove_missing_topics(identity.broker_name, topics.topic_config_table.keys())
        for name, config in topics.topic_config_table.items():
            if changed or identity.broker_name not in self.queues.get(name, {}):
                read_only = is_prime_slave and broker.enable_acting_master
                self._put_queues(identity.broker_name, name, config, read_only=read_only)
        if changed:
            self._put_mappings(identity.broker_name, topics)

    def _put_queues(self, broker_name: str, topic: str, config: TopicConfig, *, read_only: bool) -> None:
        self.queues.setdefault(topic, {})[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm & ~Permission.WRITE if read_only else config.perm,
            topic_sys_flag=config.topic_sys_flag,
        )

    def _put_mappings(self, broker_name: str, topics: TopicConfigAndMappingSerializeWrapper) -> None:
        """A broker speaks of its own part of its own topics: what it says of others would never be forgotten."""
        for topic, mapping in topics.topic_queue_mapping_info_map.items():
            if mapping.bname == broker_name and broker_name in self.queues.get(topic, {}):
                self.queue_mappings.setdefault(topic, {})[broker_name] = mapping

    def _remove_missing_topics(self, broker_name: str, kept: Iterable[str]) -> None:
        names = set(kept)
        for topic in [t for t, by_broker in self.queues.items() if broker_name in by_broker and t not in names]:
            self._remove_queues(topic, broker_name)

    def _mark_alive(self, registration: Registration) -> None:
        identity = registration.identity
        timeout_ms = registration.timeout_ms or DEFAULT_EXPIRY_MS
        if identity.key not in self.live:
            logger.info("%s registered", identity)
        self.live[identity.key] = LiveBroker(
            identity=identity,
            last_update=registration.now,
            timeout=timeout_ms / 1000,
            data_version=_version(registration),
            connection=registration.connection,
            ha_address=registration.ha_address,
        )
        if registration.filter_servers:
            self.filter_servers[identity.key] = registration.filter_servers
        else:
            self.filter_servers.pop(identity.key, None)

    def _answer(self, broker: BrokerData, identity: Identity) -> Registered:
        master = broker.broker_addrs.get(0)
        if identity.broker_id == 0 or master is None:
            return Registered()
        live = self.live.get((identity.cluster, master))
        return Registered() if live is None else Registered(master, live.ha_address)

    # --- liveness --------------------------------------------------------------------------------------

    def is_changed(self, key: BrokerKey, version: DataVersion) -> bool:
        """Whether a broker's topics differ from what was last registered (unknown broker: yes)."""
        live = self.live.get(key)
        return live is None or live.data_version != version

    def touch(self, key: BrokerKey, now: float) -> None:
        """A sign of life."""
        live = self.live.get(key)
        if live is not None:
            live.last_update = now

    def expired(self, now: float) -> list[Identity]:
        """Brokers that have been silent for too long."""
        return [live.identity for live in self.live.values() if live.last_update + live.timeout < now]

    def of_connection(self, connection: object) -> list[Identity]:
        """Brokers that registered over a connection."""
        return [live.identity for live in self.live.values() if live.connection is connection]

    def unregister(self, identities: Iterable[Identity]) -> None:
        """Forget brokers, and their queues with the last of a name."""
        for identity in identities:
            live = self.live.get(identity.key)
            if live is not None and live.identity.broker_name == identity.broker_name:
                logger.info("%s left", identity)
                del self.live[identity.key]
                self.filter_servers.pop(identity.key, None)
            broker = self.brokers.get(identity.broker_name)
            if broker is None:
                continue
            was_lowest = identity.broker_id == min(broker.broker_addrs, default=None)
            for broker_id in [i for i, address in broker.broker_addrs.items() if address == identity.address]:
                del broker.broker_addrs[broker_id]
            if not broker.broker_addrs:
                self._remove_broker(identity)
                continue
            self._without_master(broker)
            if was_lowest and broker.enable_acting_master:
                self._on_min_broker_changed(change_after_leaving(broker, identity.address))

    def _without_master(self, broker: BrokerData) -> None:
        """Its slaves still serve reads; writes stop when one of them acts as master."""
        if not broker.enable_acting_master or min(broker.broker_addrs) == 0:
            return
        for by_broker in self.queues.values():
            queue = by_broker.get(broker.broker_name)
            if queue is not None:
                queue.perm &= ~Permission.WRITE

    def _remove_broker(self, identity: Identity) -> None:
        del self.brokers[identity.broker_name]
        # It may have registered under several clusters: a stale one would be given out for ever.
        for cluster in [c for c, names in self.clusters.items() if identity.broker_name in names]:
            self.clusters[cluster].discard(identity.broker_name)
            if not self.clusters[cluster]:
                del self.clusters[cluster]
        for topic in [t for t, by_broker in self.queues.items() if identity.broker_name in by_broker]:
            self._remove_queues(topic, identity.broker_name)

    # --- topics and permissions ------------------------------------------------------------------------

    def _remove_queues(self, topic: str, broker_name: str) -> None:
        by_broker = self.queues.get(topic, {})
        by_broker.pop(broker_name, None)
        mappings = self.queue_mappings.get(topic, {})
        mappings.pop(broker_name, None)
        if not mappings:
            self.queue_mappings.pop(topic, None)
        if not by_broker:
            self.queues.pop(topic, None)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic everywhere, or at the brokers of one cluster."""
        names = list(self.queues.get(topic, {})) if cluster is None else list(self.clusters.get(cluster, ()))
        for broker_name in names:
            self._remove_queues(topic, broker_name)

    def register_topic(self, topic: str, queues: Mapping[str, QueueData]) -> bool:
        """Add the queues that a topic has at brokers. False when nothing was: one is not known, or it is one too many.

        Apache's keeps those before the first unknown broker of a topic that exists; here it is all of them or none.
        """
        is_too_many = topic not in self.queues and len(self.queues) >= MAX_TOPICS
        if not queues or is_too_many or not queues.keys() <= self.brokers.keys():
            logger.warning("topic %r is not registered: its brokers are not known, or there are too many topics", topic)
            return False
        self.queues.setdefault(topic, {}).update(queues)
        return True

    def set_write_permission(self, broker_name: str, *, allowed: bool) -> int:
        """Give or take the write permission of every queue of a broker. Returns how many topics it has."""
        count = 0
        for by_broker in self.queues.values():
            queue = by_broker.get(broker_name)
            if queue is not None:
                queue.perm = Permission.READ | Permission.WRITE if allowed else queue.perm & ~Permission.WRITE
                count += 1
        return count


def _version(registration: Registration) -> DataVersion:
    return registration.topics.data_version
