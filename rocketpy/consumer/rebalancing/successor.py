"""Successor: checks that members of a group work alike: message model, order and allocation strategy.

Brokers know at most what the last heartbeat said, but members report all of it when a broker asks them for their
running info. Each member asks only the next one in the order of their ids, and asks again only when another one is
next: if any members of a group differ, some member differs from the next one. Java has no counterpart, but its members
answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.other_members import OtherMembers, next_of
from rocketpy.consumer.rebalancing.allocate import are_unlike, java_name
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError
from rocketpy.logs import get_logger
from rocketpy.results import MessageModel

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.wire.bodies.running import ConsumerRunningInfo

__all__ = ["Successor"]

logger = get_logger(__name__)


class Successor:
    """Compares a member of a group with the next one.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.

    Attributes:
        told_model: whether it has warned of another message model.
    """

    def __init__(self, client: MQClientInstance, config: SharingConfig) -> None:
        self._client_id = client.client_id
        self._group = config.group
        self._model = config.message_model
        self._orderly = str(config.orderly).lower() if isinstance(config, PushConsumerConfig) else None
        self._strategy = java_name(config.allocate_strategy)
        self._members = OtherMembers(client, config.group)
        self._asked: str | None = None
        self._told: set[str] = set()
        self.told_model = False
        self._refused = False

    async def look(self, ids: Collection[str]) -> None:
        """Ask the next member, unless it has answered already, and warn of what differs.

        Args:
            ids: the client ids of all members.
        """
        following = next_of(sorted({*ids} - {self._client_id}), self._client_id, 1)
        if self._refused or not following or following[0] == self._asked:
            return
        try:
            info = await self._members.running_info(following[0])
        except (NoPermissionError, RequestCodeNotSupportedError) as error:
            self._refused = True
            logger.debug("the members of group %s are not compared: %s", self._group, error)
            return
        if info is not None:
            self._asked = following[0]
            self._compare(following[0], info)

    def _compare(self, member: str, info: ConsumerRunningInfo) -> None:
        models = {model.name: model for model in MessageModel}
        theirs = models.get(info.properties.get("messageModel", ""), self._model)
        if theirs is not self._model:
            self.tell_model(theirs, member)
        elif theirs is MessageModel.CLUSTERING:  # members that broadcast share nothing
            self._compare_order(member, info)
            self._compare_strategy(member, info)

    def tell_model(self, theirs: MessageModel, others: str) -> None:
        """Warn once of members with another message model.

        Args:
            theirs: their message model.
            others: the client ids of members that may have it, for the log.
        """
        if self.told_model:
            return
        self.told_model = True
        logger.warning(
            "the members of group %s have different message models: this one (%s) has %s, and another has %s. Members "
            "that share the queues take members that broadcast for some that share them too, and never get what falls "
            "to those. Set the same message_model in all members, or use another group. The others: %s",
            self._group,
            self._client_id,
            self._model.name,
            theirs.name,
            others,
        )

    def _compare_order(self, member: str, info: ConsumerRunningInfo) -> None:
        """Only push consumers say whether they consume in order."""
        theirs = info.properties.get("PROP_CONSUMEORDERLY")
        if self._orderly is None or theirs in (None, self._orderly) or "order" in self._told:
            return
        self._told.add("order")
        mine, other = self._client_id, member
        logger.warning(
            "group %s has members that consume in order and members that do not: %s does, and %s does not. Only the "
            "former respect locks, so that queues that both kinds take in turn are consumed out of order, and twice. "
            "Set orderly in all members or in none, or use another group",
            self._group,
            *((mine, other) if self._orderly == "true" else (other, mine)),
        )

    def _compare_strategy(self, member: str, info: ConsumerRunningInfo) -> None:
        """A member without subscriptions takes assigned queues, and uses no strategy."""
        theirs = info.properties.get("allocateMessageQueueStrategy", "").partition("@")[0]
        if not (theirs and info.subscription_set and are_unlike(self._strategy, theirs)) or theirs in self._told:
            return
        self._told.add(theirs)
        logger.warning(
            "the members of group %s have different allocation strategies: this one (%s) %s, and %s %s. Unless both "
            "share out in the same way, some queues are consumed twice or not at all. Set the same allocate_strategy "
            "in all members, or use another group",
            self._group,
            self._client_id,
            self._strategy,
            member,
            theirs,
        )
