"""OtherMembers: the other members of the group, and what each says about itself when a broker asks it.

A member can reach the others only through brokers, which pass the question on. Members that run in another language
answer too, with what they know.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from rocketpy.client.api import group as group_api
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError, RocketMQError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.wire.bodies.running import ConsumerRunningInfo

__all__ = ["OtherMembers", "next_of"]

logger = get_logger(__name__)


def next_of(members: Sequence[str], after: str, most: int) -> list[str]:
    """Up to `most` of the members, which are sorted: those after one first, then from the start again."""
    turn = [member for member in members if member > after]
    return list(islice((*turn, *members[: len(members) - len(turn)]), most))


class OtherMembers:
    """Asks brokers about the other members of a group.

    Args:
        client: how to reach brokers.
        group: the consumer group.
    """

    def __init__(self, client: MQClientInstance, group: str) -> None:
        self._client = client
        self._group = group

    async def ids(self) -> Sequence[str]:
        """The client ids of the other members, sorted; empty if no broker answers.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: brokers refuse the request.
        """
        for address in sorted(self._client.heartbeats.answering):
            try:
                found = await group_api.consumer_list(
                    self._client.pool, address, self._group, timeout=self._client.config.request_timeout
                )
            except (NoPermissionError, RequestCodeNotSupportedError):
                raise
            except RocketMQError as error:
                logger.debug("%s did not say who is in the group: %s", address, error)
            else:
                return sorted(set(found) - {self._client.client_id})
        return ()

    async def running_info(self, member: str) -> ConsumerRunningInfo | None:
        """The state of a member; None if no broker can tell.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: brokers refuse the request.
        """
        for address in sorted(self._client.heartbeats.answering):
            try:
                return await group_api.running_info(
                    self._client.pool, address, self._group, member, timeout=self._client.config.request_timeout
                )
            except (NoPermissionError, RequestCodeNotSupportedError):
                raise
            except RocketMQError as error:
                logger.debug("%s did not say which queues %s has: %s", address, member, error)
        return None
