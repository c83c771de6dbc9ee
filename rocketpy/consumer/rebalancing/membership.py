"""Membership: checks that no other client has the same client id, and that all members of the group are alike.

Two clients with the same id look like one to brokers, so that queues are consumed twice or not at all. Members that
subscribe differently overwrite each other's subscription at the brokers, so that messages are skipped. Members of
different message models leave each other messages that they never get. No broker reports any of it as an error, and all
are hard to find. So a member asks brokers from time to time whom they see, and warns once. A second look a few seconds
later confirms the problem first, as it may be there for a moment. What only members themselves know is compared by
`successor`. Java has no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.api import group as group_api
from rocketpy.consumer.other_members import first_answer
from rocketpy.consumer.rebalancing.successor import Successor
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError
from rocketpy.logs import get_logger
from rocketpy.results import MessageModel
from rocketpy.wire.names import is_retry_topic

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.consumer.rebalancing.rebalance import Subscribed
    from rocketpy.wire.bodies.groups import ConsumerConnection
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["Membership", "differences", "namesakes"]

logger = get_logger(__name__)

FIRST_LOOK = 1.5
"""Seconds after the first rebalance until the first look."""
SECOND_LOOK = 5.0
"""Seconds after which a problem is looked at again."""
LOOK_EVERY = 30.0
"""Seconds between looks in a small group."""
_EACH_MEMBER = 0.1
"""Seconds for each member that lie at least between two looks, as an answer lists all members."""
_MOST_SAID = 5


def namesakes(group: ConsumerConnection, client_id: str) -> frozenset[str]:
    """The addresses from which clients with this id are connected to one broker, if there are several."""
    found = frozenset(each.client_addr or "?" for each in group.connection_set if each.client_id == client_id)
    return found if len(found) > 1 else frozenset()


def differences(
    group: ConsumerConnection, own: Sequence[SubscriptionData]
) -> Mapping[str, tuple[str | None, str | None]]:
    """Compare subscriptions: by topic, this member's and the broker's where they differ; None stands for none."""
    mine, theirs = {data.topic: data for data in own}, group.subscription_table
    found: dict[str, tuple[str | None, str | None]] = {}
    for topic in mine.keys() | theirs.keys():
        ours, other = mine.get(topic), theirs.get(topic)
        if ours is not None and other is not None and (_same(ours, other) or other.sub_version < ours.sub_version):
            continue  # an older version is this member's own from a moment ago
        found[topic] = None if ours is None else _said(ours), None if other is None else _said(other)
    return found


def _same(one: SubscriptionData, other: SubscriptionData) -> bool:
    if one.is_tag and other.is_tag:
        return one.tags_set == other.tags_set
    return (one.expression_type, one.sub_string) == (other.expression_type, other.sub_string)


def _said(data: SubscriptionData) -> str:
    text = "||".join(sorted(data.tags_set)) or "*" if data.is_tag else f"{data.expression_type} {data.sub_string}"
    return text[:200]


@attrs.frozen
class _Wrong:
    """What is wrong and not told yet.

    Attributes:
        addresses: from which several clients with this id are connected.
        topics: what `differences` returns, but for the retry topic if that is explained by the message models.
        model: the message model of another member, if that is not ours.
    """

    addresses: frozenset[str]
    topics: Mapping[str, tuple[str | None, str | None]]
    model: MessageModel | None

    def confirmed(self, by: _Wrong) -> _Wrong:
        """What is wrong in two looks."""
        topics = {topic: pair for topic, pair in self.topics.items() if by.topics.get(topic) == pair}
        return _Wrong(self.addresses & by.addresses, topics, self.model if by.model is self.model else None)


class Membership:
    """Checks the group from time to time.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        subscriptions: the consumer's subscriptions.
    """

    def __init__(self, client: MQClientInstance, config: SharingConfig, subscriptions: Subscribed) -> None:
        self._client = client
        self._config = config
        self._subscriptions = subscriptions
        self._told_addresses: frozenset[str] = frozenset()
        self._told: dict[str, tuple[str | None, str | None]] = {}
        self._successor = Successor(client, config)

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the checks. Ends if brokers do not know the request, or do not permit it."""
        await trio.sleep(FIRST_LOOK)
        while True:
            try:
                members = await self._look()
            except (NoPermissionError, RequestCodeNotSupportedError) as error:
                logger.debug("the members of group %s are not checked: %s", self._config.group, error)
                return
            await trio.sleep(max(LOOK_EVERY, members * _EACH_MEMBER))

    async def _look(self) -> int:
        """Look once, and again if something is wrong. Returns the number of members."""
        group = await self._ask()
        if group is None:
            return 0
        wrong = self._seen(group)
        if wrong.addresses - self._told_addresses or wrong.topics or wrong.model is not None:
            await trio.sleep(SECOND_LOOK)
            again = await self._ask()
            if again is not None:
                self._tell(again, wrong.confirmed(self._seen(again)))
        if self._subscribes():
            await self._successor.look({each.client_id for each in group.connection_set if each.client_id})
        return len(group.connection_set)

    def _subscribes(self) -> bool:
        """Whether queues are shared out to it. Members to which queues are assigned need not be alike."""
        return any(not is_retry_topic(data.topic) for data in self._subscriptions.data())

    def _seen(self, group: ConsumerConnection) -> _Wrong:
        model = None
        topics: Mapping[str, tuple[str | None, str | None]] = {}
        if self._subscribes():
            topics = differences(group, self._subscriptions.data())
            if group.message_model not in (None, self._config.message_model):
                # Members that share queues want the retry topic, and those that broadcast do not.
                model = None if self._successor.told_model else group.message_model
                topics = {topic: pair for topic, pair in topics.items() if not is_retry_topic(topic)}
        topics = {topic: pair for topic, pair in topics.items() if self._told.get(topic) != pair}
        return _Wrong(namesakes(group, self._client.client_id), topics, model)

    async def _ask(self) -> ConsumerConnection | None:
        """The group as one broker sees it; None if no broker can tell now.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: a broker does not permit or know the request.
        """

        async def ask(address: str, timeout: float) -> ConsumerConnection:
            return await group_api.consumer_connections(self._client.pool, address, self._config.group, timeout=timeout)

        return await first_answer(self._client, ask)

    def _tell(self, group: ConsumerConnection, wrong: _Wrong) -> None:
        self._tell_namesakes(wrong.addresses)
        if wrong.model is not None:
            self._successor.tell_model(wrong.model, self._others(group))
        self._tell_differences(group, wrong.topics)

    def _others(self, group: ConsumerConnection) -> str:
        """The ids of some other members."""
        others = sorted({each.client_id or "?" for each in group.connection_set} - {self._client.client_id})
        return ", ".join(others[:_MOST_SAID]) + (", ..." if len(others) > _MOST_SAID else "") or "gone by now"

    def _tell_namesakes(self, addresses: frozenset[str]) -> None:
        if len(addresses) < 2 or addresses <= self._told_addresses:
            return
        self._told_addresses |= addresses
        logger.warning(
            "the client id %s of group %s is used from several addresses: %s. Brokers take such clients for one, so "
            "queues are consumed twice or not at all. Give each client its own instance_name, or none at all. (This "
            "warning can also come from a client that ended within the last two minutes.)",
            self._client.client_id,
            self._config.group,
            ", ".join(sorted(addresses)[:_MOST_SAID]),
        )

    def _tell_differences(self, group: ConsumerConnection, wrong: Mapping[str, tuple[str | None, str | None]]) -> None:
        self._told.update(wrong)
        wrong = self._without_retry_topic(wrong)
        for topic, (ours, theirs) in sorted(wrong.items())[:_MOST_SAID]:
            logger.warning(
                "the members of group %s subscribe differently, so messages are skipped: of %s this one (%s) wants %s, "
                "and another wants %s. Subscribe alike in all members, or use another group. The others: %s",
                self._config.group,
                topic,
                self._client.client_id,
                "nothing" if ours is None else repr(ours),
                "nothing" if theirs is None else repr(theirs),
                self._others(group),
            )

    def _without_retry_topic(
        self, wrong: Mapping[str, tuple[str | None, str | None]]
    ) -> Mapping[str, tuple[str | None, str | None]]:
        """Warn of members of both kinds: of the retry topic push consumers want everything, lite pull ones nothing."""
        for topic in filter(is_retry_topic, wrong):
            logger.warning(
                "group %s has push consumers and lite pull consumers. Lite pull consumers ignore the retry topic %s, "
                "but get some of its queues: what fails in push consumers may not come again while they are there. "
                "Give the lite pull consumers another group.",
                self._config.group,
                topic,
            )
        return {topic: pair for topic, pair in wrong.items() if not is_retry_topic(topic)}
