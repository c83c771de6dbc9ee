"""RouteInfo: which brokers live, which queues they hold, and when they are forgotten. Pure tables without a clock.

Every change goes through here: registration, unregistration, heartbeats, expiry, write permission. `route_query` reads
the same tables. What grows with the number of topics is done in steps, between which others read and change the tables:
what is known of a broker is looked up again after each. Plays the part of RouteInfoManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

import attrs

from rocketpy.logs import get_logger
from rocketpy.wire.bodies.registration import Piece, TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.route import BrokerData, QueueData
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.namesrv.clusters import Clusters, FilterServers
from rocketpy_broker_sim.namesrv.identity import BrokerKey, Identity
from rocketpy_broker_sim.namesrv.min_broker import MinBrokerChange, change_after_joining, change_after_leaving
from rocketpy_broker_sim.namesrv.queue_table import (
    TOPICS_A_STEP,
    QueueTable,
    Steps,
    may_read,
    may_read_and_write,
    queues_of,
    weight_of_mapping,
    weight_of_topic,
)
from rocketpy_broker_sim.namesrv.rounds import Rounds

__all__ = ["DEFAULT_EXPIRY_MS", "BrokerKey", "BrokerRegistration", "Identity", "LiveBroker", "Registered", "RouteInfo"]

logger = get_logger(__name__)

MAX_TOPICS = 100_000
MAX_BROKERS = 10_000
"""More topics or brokers than these are refused: nobody who can reach the port may fill our memory."""

MAX_BYTES = 128 * 1024 * 1024
MAX_BYTES_OF_ONE = 64 * 1024 * 1024
"""What brokers and their topics may take in memory, as it is reckoned here: all, and those of one connection."""
BYTES_A_BROKER = 4096
"""What a broker is reckoned to take besides its topics and its filter servers."""
_FEW = 4 * TOPICS_A_STEP
"""Topics of a broker up to which it is swept up at once."""

DEFAULT_EXPIRY_MS = 120_000
"""A broker that names no heartbeat timeout of its own is forgotten after this silence."""


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

    def is_expired(self, now: float) -> bool:
        """Whether it has been silent for too long."""
        return self.last_update + self.timeout < now


@attrs.frozen(kw_only=True)
class BrokerRegistration:
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
    piece: Piece | None = None
    """Which piece it is, as brokers of ours say."""


@attrs.frozen
class Registered:
    """What a registered broker is told: where its master is (nothing for a master)."""

    master_address: str | None = None
    ha_address: str | None = None


class RouteInfo:
    """The tables. Not thread-safe: one loop owns them.

    Args:
        on_min_broker_changed: told when the lowest id among the brokers of one name has changed.
        later: does work in steps when there is time for it; None does it at once.
        admit: whether the brokers of a connection may take so many bytes in all.

    Attributes:
        delete_topic_with_registration: whether a topic that a registration leaves out is forgotten.
        table: which queues of which topics the brokers hold.
    """

    def __init__(
        self,
        *,
        delete_topic_with_registration: bool = False,
        on_min_broker_changed: Callable[[MinBrokerChange], None] = lambda change: None,
        later: Callable[[Steps[object]], object] | None = None,
        admit: Callable[[object, int], bool] = lambda connection, size: True,
    ) -> None:
        self.table = QueueTable()
        self.brokers: dict[str, BrokerData] = {}
        self.live: dict[BrokerKey, LiveBroker] = {}
        self.filter_servers = FilterServers()
        self.delete_topic_with_registration = delete_topic_with_registration
        self._on_min_broker_changed = on_min_broker_changed
        self._later = later or run_steps
        self._admit = admit
        self._clusters = Clusters()
        self._rounds = Rounds()
        self._by_connection: dict[object, dict[BrokerKey, None]] = {}
        self._reserved = 0

    @property
    def clusters(self) -> Mapping[str, AbstractSet[str]]:
        """cluster -> the names of its brokers; not to be changed."""
        return self._clusters.names

    @property
    def queues(self) -> Mapping[str, Mapping[str, QueueData]]:
        """topic -> broker name -> queues; not to be changed."""
        return self.table.queues

    # --- registration ----------------------------------------------------------------------------------

    def register(self, registration: BrokerRegistration) -> Registered | None:
        """`register_steps`, all of them at once."""
        return run_steps(self.register_steps(registration))

    def register_steps(self, registration: BrokerRegistration) -> Steps[Registered | None]:
        """Take a broker's topics over.

        Returns:
            None when it is refused: outdated, a lone topic of a stranger, one too many, or too much.
        """
        weight = yield from self._weight_of(registration)
        if weight is None or self._is_too_much(registration, weight):
            logger.warning("refused %s: too many brokers or topics; unregister some first", registration.identity)
            return None
        with self._reserving(weight):
            return (yield from self._register(registration))

    def _register(self, registration: BrokerRegistration) -> Steps[Registered | None]:
        identity = registration.identity
        broker, is_new = self._broker_data(registration)
        lowers_id = identity.broker_id < min(broker.broker_addrs, default=0)
        if self._is_outdated(broker, registration) or self._is_lone_topic_of_stranger(broker, registration):
            self._drop_if_empty(identity)
            return None
        broker.enable_acting_master = bool(registration.acting_master)
        broker.zone_name = registration.zone_name
        self._forget_other_ids_of_address(broker, identity)
        self._forget_former_name(identity)
        is_first = is_new or identity.broker_id not in broker.broker_addrs
        is_changed = is_first or self.is_changed(identity.key, _version(registration))
        broker.broker_addrs[identity.broker_id] = identity.address
        self._clusters.join(identity.cluster, identity.broker_name, is_new=identity.key not in self.live)
        live = self._mark_alive(registration)
        if lowers_id:
            self._on_min_broker_changed(change_after_joining(broker, registration.ha_address))
        yield from self._take_topics(broker, registration, live, is_changed=is_changed)
        return self._answer(broker, identity) if self.live.get(identity.key) is live else None

    @contextmanager
    def _reserving(self, weight: int) -> Iterator[None]:
        """Registrations that are under way count as if they were done."""
        self._reserved += weight
        try:
            yield
        finally:
            self._reserved -= weight

    def _weight_of(self, registration: BrokerRegistration) -> Steps[int | None]:
        """What a registration adds in memory; None when it brings too many topics."""
        name, topics, key = registration.identity.broker_name, registration.topics, registration.identity.key
        weight = FilterServers.weigh(registration.filter_servers) - FilterServers.weigh(
            self.filter_servers.get(key, ())
        )
        new_topics = 0
        for count, topic in enumerate(topics.topic_config_table, 1):
            if not self.table.holds(name, topic):
                weight += weight_of_topic(topic)
                new_topics += topic not in self.table.queues
            if count % TOPICS_A_STEP == 0:
                yield
        for count, mapping in enumerate(topics.topic_queue_mapping_info_map.values(), 1):
            weight += weight_of_mapping(mapping)
            if count % TOPICS_A_STEP == 0:
                yield
        return weight if len(self.table.queues) + new_topics <= MAX_TOPICS else None

    def _is_too_much(self, registration: BrokerRegistration, weight: int) -> bool:
        identity = registration.identity
        # One process may come under many names, and one name in many clusters.
        brokers = max(
            len(self.live) + (identity.key not in self.live),
            len(self.brokers) + (identity.broker_name not in self.brokers),
            len(self.clusters) + (identity.cluster not in self.clusters),
        )
        of_one = self.kept_for(registration.connection, identity) + weight
        total = self.table.bytes + self.filter_servers.bytes + BYTES_A_BROKER * brokers + self._reserved
        if brokers > MAX_BROKERS or of_one > MAX_BYTES_OF_ONE or total + weight > MAX_BYTES:
            return True
        return not self._admit(registration.connection, of_one)

    def kept_for(self, connection: object, *more: Identity) -> int:
        """What the brokers of a connection are reckoned to take, and these."""
        brokers = {identity.key: identity.broker_name for identity in (*self.of_connection(connection), *more)}
        filters = sum(self.filter_servers.weigh(self.filter_servers.get(key, ())) for key in brokers)
        topics = sum(self.table.bytes_of[name] for name in set(brokers.values()))
        return topics + filters + BYTES_A_BROKER * len(brokers)

    def _broker_data(self, registration: BrokerRegistration) -> tuple[BrokerData, bool]:
        identity = registration.identity
        broker = self.brokers.get(identity.broker_name)
        is_new = broker is None
        if broker is None:
            broker = BrokerData(cluster=identity.cluster, broker_name=identity.broker_name, broker_addrs={})
            self.brokers[identity.broker_name] = broker
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

    def _is_outdated(self, broker: BrokerData, registration: BrokerRegistration) -> bool:
        """Two processes claim one name and id: the one with the older state loses."""
        identity = registration.identity
        old_address = broker.broker_addrs.get(identity.broker_id)
        if old_address is None or old_address == identity.address:
            return False
        old = self.live.get((identity.cluster, old_address))
        if old is None or old.data_version.state_version <= _version(registration).state_version:
            return False
        logger.warning("refused %s: a newer one lives at %r", identity, old_address)
        former = self.live.get(identity.key)
        if former is not None:
            # All of it: under another name it would stay for good, as nothing would ever expire it.
            self.unregister([former.identity])
        return True

    def _is_lone_topic_of_stranger(self, broker: BrokerData, registration: BrokerRegistration) -> bool:
        """One topic alone is an update of a known broker; from a stranger it would hide all its other topics."""
        if registration.identity.broker_id in broker.broker_addrs or len(registration.topics.topic_config_table) != 1:
            return False
        logger.warning("refused %s: its first registration has a single topic", registration.identity)
        return True

    def _drop_if_empty(self, identity: Identity) -> None:
        broker = self.brokers.get(identity.broker_name)
        if broker is not None and not broker.broker_addrs:
            del self.brokers[identity.broker_name]

    def _take_topics(
        self, broker: BrokerData, registration: BrokerRegistration, live: LiveBroker, *, is_changed: bool
    ) -> Steps[None]:
        identity, topics = registration.identity, registration.topics
        is_prime_slave = (
            registration.acting_master is not None
            and identity.broker_id != 0
            and identity.broker_id == min(broker.broker_addrs)
        )
        if identity.broker_id != 0 and not is_prime_slave:
            return
        table, name = self.table, identity.broker_name
        yield from self._remove_missing_topics(registration)
        read_only = is_prime_slave and broker.enable_acting_master
        for count, (topic, config) in enumerate(topics.topic_config_table.items(), 1):
            if self.live.get(identity.key) is not live or self.brokers.get(name) is not broker:
                return  # it has left, or came again in another way; or its name has gone, and with it its topics
            if is_changed or not table.holds(name, topic):
                table.put(topic, queues_of(name, config, read_only=read_only))
            if count % TOPICS_A_STEP == 0:
                yield
        if not is_changed:
            return
        # A broker speaks of its own part of its own topics: what it says of others would never be forgotten.
        for count, (topic, mapping) in enumerate(topics.topic_queue_mapping_info_map.items(), 1):
            if mapping.bname == name and table.holds(name, topic):
                table.put_mapping(name, topic, mapping)
            if count % TOPICS_A_STEP == 0:
                yield

    def _remove_missing_topics(self, registration: BrokerRegistration) -> Steps[None]:
        """Forget what a whole registration leaves out, where the settings say so. Not with static topics: they move."""
        topics, name = registration.topics, registration.identity.broker_name
        if not self.delete_topic_with_registration or topics.topic_queue_mapping_info_map:
            return
        held = self.table.held.get(name, set())
        kept = self._rounds.note(
            registration.identity.key, registration.piece, topics.topic_config_table.keys(), name, held
        )
        if kept is not None:
            yield from self.table.remove_others(name, kept)

    def _mark_alive(self, registration: BrokerRegistration) -> LiveBroker:
        identity = registration.identity
        timeout_ms = registration.timeout_ms or DEFAULT_EXPIRY_MS
        former = self.live.get(identity.key)
        if former is None:
            logger.info("%s registered", identity)
        else:
            self._forget_connection_of(former)
        self._by_connection.setdefault(registration.connection, {})[identity.key] = None
        live = self.live[identity.key] = LiveBroker(
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
        return live

    def _forget_connection_of(self, live: LiveBroker) -> None:
        keys = self._by_connection.get(live.connection, {})
        keys.pop(live.identity.key, None)
        if not keys:
            self._by_connection.pop(live.connection, None)

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
        return [live.identity for live in self.live.values() if live.is_expired(now)]

    def of_connection(self, connection: object) -> list[Identity]:
        """Brokers that registered over a connection."""
        return [self.live[key].identity for key in self._by_connection.get(connection, ())]

    def leave_steps(self, connection: object) -> Steps[None]:
        """Forget the brokers that registered over a connection, as it has closed."""
        for identity in self.of_connection(connection):
            live = self.live.get(identity.key)
            if live is not None and live.connection is connection:
                self.unregister([identity])
            yield

    def unregister(self, identities: Iterable[Identity]) -> None:
        """Forget brokers, and their queues with the last of a name."""
        for identity in identities:
            live = self.live.get(identity.key)
            if live is not None and live.identity.broker_name == identity.broker_name:
                logger.info("%s left", identity)
                del self.live[identity.key]
                self._clusters.leave(identity.cluster, identity.broker_name)
                self._forget_connection_of(live)
                self._rounds.forget(identity.key)
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

        def is_without() -> bool:
            known = self.brokers.get(broker.broker_name)
            return known is broker and broker.enable_acting_master and min(broker.broker_addrs, default=0) != 0

        if is_without():
            name = broker.broker_name
            self._do(len(self.table.held.get(name, ())), self.table.change_perms(name, may_read, is_without))

    def _remove_broker(self, identity: Identity) -> None:
        del self.brokers[identity.broker_name]
        # It may have registered under several clusters: a stale one would be given out for ever.
        self._clusters.forget(identity.broker_name)
        count = len(self.table.held.get(identity.broker_name, ()))
        self._do(count, self.table.forget(identity.broker_name))

    def _do(self, count: int, steps: Steps[object]) -> None:
        """Do what there is to do for so many topics: at once when they are few, else as there is time."""
        if count <= _FEW:
            run_steps(steps)
        else:
            self._later(steps)

    # --- topics and permissions ------------------------------------------------------------------------

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic everywhere, or at the brokers of one cluster."""
        found = list(self.table.queues.get(topic, ()))
        kept = found if cluster is None else [name for name in found if name in self.clusters.get(cluster, ())]
        for broker_name in kept:
            self.table.remove(topic, broker_name)

    def register_topic(self, topic: str, queues: Mapping[str, QueueData]) -> bool:
        """`register_topic_steps`, all of them at once."""
        return run_steps(self.register_topic_steps(topic, queues))

    def register_topic_steps(self, topic: str, queues: Mapping[str, QueueData]) -> Steps[bool]:
        """Add the queues that a topic has at brokers. False when nothing was: one is not known, or it is one too many.

        Apache's keeps those before the first unknown broker of a topic that exists; here it is all of them or none.
        """
        is_too_many = topic not in self.table.queues and len(self.table.queues) >= MAX_TOPICS
        weight = len(queues) * weight_of_topic(topic)
        is_too_much = self.table.bytes + self._reserved + weight > MAX_BYTES
        if not queues or is_too_many or is_too_much or not queues.keys() <= self.brokers.keys():
            logger.warning("topic %r is not registered: its brokers are not known, or there are too many topics", topic)
            return False
        with self._reserving(weight):
            for count, (name, queue) in enumerate(queues.items(), 1):
                if name in self.brokers:
                    self.table.put(topic, queue)
                if count % TOPICS_A_STEP == 0:
                    yield
        return True

    def write_permission_steps(self, broker_name: str, *, allowed: bool) -> Steps[int]:
        """Give or take the write permission of every queue of a broker. Returns how many topics it has."""
        change = may_read_and_write if allowed else may_read
        return (yield from self.table.change_perms(broker_name, change, lambda: True))


def _version(registration: BrokerRegistration) -> DataVersion:
    return registration.topics.data_version
