"""OtherMembers: the other members of the group, and what each says about itself when a broker asks it.

A member can reach the others only through brokers, which pass the question on. Members that run in another language
answer too, with what they know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from rocketpy.client.api import group as group_api
from rocketpy.errors import NoPermissionError, RequestCodeNotSupportedError, RocketMQError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.wire.bodies.running import ConsumerRunningInfo

__all__ = ["OtherMembers", "first_answer", "next_of"]

logger = get_logger(__name__)

T = TypeVar("T")


def next_of(members: Sequence[str], after: str, most: int) -> list[str]:
    """Up to `most` of the members, which are sorted: those after one first, then from the start again."""
    ordered = [member for member in members if member > after]
    return list(islice((*ordered, *members[: len(members) - len(ordered)]), most))


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

        async def ask(address: str, timeout: float) -> list[str]:
            return await group_api.consumer_list(self._client.pool, address, self._group, timeout=timeout)

        return sorted({*(await first_answer(self._client, ask) or ())} - {self._client.client_id})

    async def running_info(self, member: str) -> ConsumerRunningInfo | None:
        """The state of a member; None if no broker can tell.

        Raises:
            NoPermissionError, RequestCodeNotSupportedError: brokers refuse the request.
        """

        async def ask(address: str, timeout: float) -> ConsumerRunningInfo:
            return await group_api.running_info(self._client.pool, address, self._group, member, timeout=timeout)

        return await first_answer(self._client, ask)


async def first_answer(client: MQClientInstance, ask: Callable[[str, float], Awaitable[T]]) -> T | None:
    """What the first broker that can tell says about a group; None if none can tell now.

    Args:
        client: its heartbeats are answered by the brokers that are asked.
        ask: sends the question, given the address of a broker and the timeout in seconds.

    Raises:
        NoPermissionError, RequestCodeNotSupportedError: a broker does not permit or know the request.
    """
    for address in sorted(client.heartbeats.answering):
        try:
            return await ask(address, client.config.request_timeout)
        except (NoPermissionError, RequestCodeNotSupportedError):
            raise
        except RocketMQError as error:
            logger.debug("%s cannot describe a group: %s", address, error)
    return None
