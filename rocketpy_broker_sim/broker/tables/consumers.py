"""The consumer groups with connected clients: the members and subscriptions that their heartbeats tell.

Plays the part of ConsumerManager and ConsumerGroupInfo. It is not stored: clients register again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import count
from typing import TYPE_CHECKING

import attrs

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.groups import GetConsumerListByGroupResponseBody
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy_broker_sim.broker.tables.clients import Channel, ClientChannel, Memberships

if TYPE_CHECKING:
    from rocketpy.wire.bodies.heartbeat import ConsumerData
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import ConnectionCharges

__all__ = ["ConsumerGroup", "ConsumerTable"]

log = get_logger(__name__)

_SMALLEST_KEPT = 1024
"""Bytes of an encoded list of members above which it is cached: a shorter one is encoded quickly."""
_LARGEST_KEPT = 512 * 1024
"""Longer lists are encoded for each request; only ids of hundreds of characters make a list so long."""
_MOST_KEPT = 16
_BYTES_A_SUBSCRIPTION = 1280
_BYTES_A_TAG = 128
_versions = count(1)
"""Never repeats, so that a group which ends and begins again has a new number."""

Notify = Callable[[str], None]
"""Notifies the members of a group that it has changed."""


@attrs.define(eq=False)
class ConsumerGroup:
    """A consumer group with at least one client connected.

    Attributes:
        notify: Whether its members are notified of changes.
        fingerprint: What the last heartbeat of the second version said about the subscriptions, None before one.
        version: Rises when its members change.
        told_by: Who told its subscriptions; they count as kept for it.
        told_size: What they are reckoned to take, in bytes.
    """

    name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    notify: bool = True
    fingerprint: int | None = None
    version: int = 0
    clients: dict[Channel, ClientChannel] = attrs.Factory(dict)
    subscriptions: dict[str, SubscriptionData] = attrs.Factory(dict)
    told_by: Channel | None = None
    told_size: int = 0

    def take(self, data: ConsumerData, *, notify: bool) -> None:
        """Apply the newest heartbeat to the group."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        self.notify = notify

    def subscribe(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Replace the subscriptions, except by older versions. Returns whether a topic was added or removed."""
        wanted = {each.topic: each for each in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        for topic, each in wanted.items():
            known = self.subscriptions.get(topic)
            if known is not None and known.sub_version >= each.sub_version:
                wanted[topic] = known
        self.subscriptions = wanted
        return changed


def _size_of(subscriptions: Iterable[SubscriptionData]) -> int:
    """The estimated bytes of subscriptions."""
    size = 0
    for each in subscriptions:
        size += _BYTES_A_SUBSCRIPTION + len(each.topic) + 2 * len(each.sub_string or "")
        size += _BYTES_A_TAG * (len(each.tags_set) + len(each.code_set)) + sum(map(len, each.tags_set))
    return size


class ConsumerTable:
    """The consumer groups that have clients.

    Args:
        config: of the broker.
        clock: the loop's clock, in seconds.
        notify: tells members of a group that it changed.
        charges: what is kept for connections counts there; nowhere when None.
        gone: told of each group whose last client has gone.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Callable[[], float],
        notify: Notify,
        charges: ConnectionCharges | None = None,
        gone: Callable[[str], object] = lambda group: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._notify = notify
        self._gone = gone
        self._groups: dict[str, ConsumerGroup] = {}
        self._memberships = Memberships(config, charges)
        self._encoded: dict[str, tuple[int, bytes]] = {}
        """Cached lists of members by group, each with its version."""

    # --- asking ----------------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroup | None:
        """The group, None if it has no connected client."""
        return self._groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        """All groups that have clients."""
        return list(self._groups.values())

    def told(self, group: str) -> list[Channel]:
        """The connections to notify when a group changes; none if the group is not notified."""
        found = self._groups.get(group)
        return list(found.clients) if found is not None and self._is_told(found) else []

    def client_ids(self, group: str) -> list[str]:
        """The client ids of the members, each once; a member that reconnects may be there twice for a moment."""
        found = self._groups.get(group)
        return list(dict.fromkeys(client.client_id for client in found.clients.values())) if found else []

    def encoded_ids(self, group: str) -> bytes | None:
        """The encoded list of members, None if there are none.

        It is cached until the group changes, because after a change each of a thousand members asks for the same list.
        """
        found = self._groups.get(group)
        if found is None:
            return None
        kept = self._encoded.pop(group, None)
        if kept is None or kept[0] != found.version:
            body = GetConsumerListByGroupResponseBody(consumer_id_list=self.client_ids(group)).encode()
            kept = found.version, body
        if _SMALLEST_KEPT < len(kept[1]) <= _LARGEST_KEPT:
            self._encoded[group] = kept  # the last of all: the first is the one that nobody asked for of late
            if len(self._encoded) > _MOST_KEPT:
                del self._encoded[next(iter(self._encoded))]
        return kept[1]

    def clients(self, group: str) -> list[ClientChannel]:
        """The members with their connections."""
        found = self._groups.get(group)
        return list(found.clients.values()) if found else []

    def find_client(self, group: str, client_id: str) -> ClientChannel | None:
        """The member with a client id; if there are several, the one that connected last."""
        found = [client for client in self.clients(group) if client.client_id == client_id]
        return found[-1] if found else None

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """The group's subscription to a topic, None if there is none."""
        found = self._groups.get(group)
        return found.subscriptions.get(topic) if found else None

    def may_consume(self, group: str, topic: str) -> bool:
        """Whether a group subscribes a topic, or nobody knows because no member is connected."""
        found = self._groups.get(group)
        return found is None or not found.subscriptions or topic in found.subscriptions

    # --- heartbeats ------------------------------------------------------------------------------------

    def register(
        self,
        group: str,
        client: ClientChannel,
        data: ConsumerData,
        *,
        notify: bool = True,
        with_subscriptions: bool = True,
    ) -> bool:
        """Take in a heartbeat; whether the members or the subscribed topics changed, which members then hear.

        Args:
            group: its name, checked.
            client: who says so.
            data: what it says.
            notify: whether the group's settings want changes to be told.
            with_subscriptions: False when the heartbeat left them out because they did not change.

        Raises:
            BrokerError: the group has as many clients as it may have, or the client as many groups.
        """
        found = self._groups.get(group) or ConsumerGroup(group)
        joined = self._join(found, client)
        self._groups[group] = found
        if with_subscriptions:
            try:
                self._weigh(found, client.channel, _size_of(data.subscription_data_set))
            except BrokerError:
                if joined:  # a member that nobody was told of would stay unknown to the others
                    self._leave(found, client.channel)
                raise
        found.take(data, notify=notify)
        changed = found.subscribe(data.subscription_data_set) if with_subscriptions else False
        if joined or changed:
            self._tell(found)
        return joined or changed

    def _weigh(self, group: ConsumerGroup, channel: Channel | None, size: int) -> None:
        """Count the subscriptions of a group for who told them last, nobody when None."""
        former, former_size = group.told_by, group.told_size
        if channel is not None:
            self._memberships.weigh(channel, size - (former_size if former is channel else 0))
        if former is not None and former is not channel:
            self._memberships.weigh(former, -former_size)
        group.told_by, group.told_size = channel, size

    def _join(self, group: ConsumerGroup, client: ClientChannel) -> bool:
        client.last_seen = self._clock()
        known = group.clients.get(client.channel)
        if known is None and len(group.clients) >= self._config.max_clients_per_group:
            remark = f"the group has {len(group.clients)} clients, more are not allowed: raise maxClientsPerGroup"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        if known is None:
            self._memberships.add(client.channel, group.name, client.client_id)
        elif known.client_id != client.client_id:
            self._memberships.rename(client.channel, group.name, client.client_id)
            log.warning("group %s: %s now has the client id %.256r", group.name, known, client.client_id)
        if known is None or known.client_id != client.client_id:
            group.version = next(_versions)
        group.clients[client.channel] = client
        if known is None:
            log.info("group %s: %s joined", group.name, client)
        return known is None

    def fingerprint_changed(self, group: str, fingerprint: int) -> bool:
        """Note the fingerprint of a heartbeat; whether the one before was another."""
        found = self._groups.get(group)
        if found is None:
            return False
        before, found.fingerprint = found.fingerprint, fingerprint
        return before is not None and before != fingerprint

    # --- leaving ---------------------------------------------------------------------------------------

    def unregister(self, group: str, channel: Channel) -> bool:
        """A client left the group; whether it was in it."""
        found = self._groups.get(group)
        if found is None or not self._leave(found, channel):
            return False
        self._tell(found)
        return True

    def on_close(self, channel: Channel) -> Generator[None, None, None]:
        """A connection ended: its client is out of all its groups. A step for each of them."""
        for name in self._memberships.end(channel):
            self.unregister(name, channel)
            yield

    def scan(self) -> Generator[None, None, list[Channel]]:
        """Drop the clients that have been silent for too long, in steps; returns their connections, to be closed."""
        oldest = self._clock() - self._config.channel_expired_timeout / 1000
        closing: dict[Channel, None] = {}
        for group in self.groups():
            silent = [client for client in group.clients.values() if client.last_seen < oldest]
            for client in silent:
                log.warning("group %s: %s has sent no heartbeat for too long", group.name, client)
                self._leave(group, client.channel)
                closing[client.channel] = None
                yield
            if silent:
                self._tell(group)
            yield
        return list(closing)

    def _leave(self, group: ConsumerGroup, channel: Channel) -> bool:
        client = group.clients.pop(channel, None)
        if client is None:
            return False
        log.info("group %s: %s left", group.name, client)
        group.version = next(_versions)
        if group.told_by is channel:
            self._weigh(group, None, 0)
        if not group.clients:
            del self._groups[group.name]
            self._gone(group.name)
        self._memberships.discard(channel, group.name)
        return True

    def _tell(self, group: ConsumerGroup) -> None:
        if group.clients and self._is_told(group):
            self._notify(group.name)

    def _is_told(self, group: ConsumerGroup) -> bool:
        if not self._config.notify_consumer_ids_changed_enable or not group.notify:
            return False
        return group.message_model is not MessageModel.BROADCASTING
